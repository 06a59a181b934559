"""Compute rounded quotients of integer constants, whose folder in torch-mlir divides them as unsigned numbers.

    div(full([2], -7), full([2], 2), rounding_mode="floor")   ──►   full([2], -4)

Only tensors of one number are folded there, so that only those are computed here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten
FILLED_LIKE = frozenset(
    (aten.full_like.default, aten.zeros_like.default, aten.ones_like.default, aten.new_full.default)
)
"""What reads no element of its first operand."""
MOST_ELEMENTS = 1 << 20


def rewrite(graph: Graph) -> None:
    """Replace the quotients of `graph`, and of the graphs of its loops and branches, in place."""
    for module in graph.owning_module.modules() if graph.owning_module is not None else ():
        if isinstance(module, torch.fx.GraphModule):
            _rewrite_one(module.graph)


def _rewrite_one(graph: Graph) -> None:
    values: dict[Node, torch.Tensor | None] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not aten.div.Tensor_mode:
            continue
        value = _constant(node, values)
        if value is None or value.is_floating_point() or not value.numel() or (value != value.flatten()[0]).any():
            continue
        with graph.inserting_before(node):
            arguments = (list(value.shape), int(value.flatten()[0]))
            full = graph.call_function(aten.full.default, arguments, {"dtype": value.dtype})
        full.meta = dict(node.meta)
        node.replace_all_uses_with(full)
        graph.erase_node(node)


def _constant(node: Node, values: dict[Node, torch.Tensor | None]) -> torch.Tensor | None:
    """Return the value of a node that depends on no placeholder, else None."""
    if node not in values:
        values[node] = _evaluated(node, values) if _is_evaluable(node) else None
    return values[node]


def _is_evaluable(node: Node) -> bool:
    value = node.meta.get("val")
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded not in node.target.tags
        and isinstance(value, torch.Tensor)
        and all(type(size) is int for size in value.shape)
        and value.numel() <= MOST_ELEMENTS
    )


def _evaluated(node: Node, values: dict[Node, torch.Tensor | None]) -> torch.Tensor | None:
    arguments: tuple[Any, ...] = node.args
    if node.target in FILLED_LIKE:
        like = node.args[0].meta["val"]  # type: ignore[union-attr]
        arguments = (torch.zeros([], dtype=like.dtype).expand(like.shape), *arguments[1:])
    operands = {operand: _constant(operand, values) for operand in _nodes(arguments)}
    if any(value is None for value in operands.values()) or any(_nodes(node.kwargs)):
        return None
    try:
        return node.target(*torch.fx.map_arg(arguments, operands.__getitem__), **node.kwargs)  # type: ignore[operator]
    except (RuntimeError, ZeroDivisionError):
        # What eager refuses is refused when the program runs.
        return None


def _nodes(arguments: Any) -> list[Node]:
    nodes: list[Node] = []
    torch.fx.map_arg(arguments, nodes.append)
    return nodes
