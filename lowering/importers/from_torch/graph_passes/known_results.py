"""Replace nodes whose results are known before the program runs: quotients of constants, tensors without elements.

    div(full([2], -7), full([2], 2), rounding_mode="floor")   ──►   full([2], -4)
    linalg_eig(x) : [0, 3], [0, 3, 3]                         ──►   empty([0, 3]), empty([0, 3, 3])

torch-mlir's folder divides constants of one number as unsigned ones. It lacks many operators for empty tensors.
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


def fold_quotients(graph: Graph) -> None:
    """Replace the quotients of `graph`, and of the graphs of its loops and branches, in place."""
    for module in graph.owning_module.modules() if graph.owning_module is not None else ():
        if isinstance(module, torch.fx.GraphModule):
            _fold_in(module.graph)


def _fold_in(graph: Graph) -> None:
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


def empty_results(graph: Graph) -> None:
    """Replace by `empty` what only creates tensors without elements, in place; what raises or writes is kept."""
    for node in list(graph.nodes):
        if not _is_pure(node):
            continue
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and _has_no_elements(value):
            _replace(graph, node, value)
        elif isinstance(value, (tuple, list)) and value and all(map(_has_no_elements, value)):
            for user in list(node.users):
                _replace(graph, user, user.meta["val"])
            if not node.users:
                graph.erase_node(node)


def _is_pure(node: Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    return not (node.target._schema.is_mutable or node.is_impure() or node.target is aten.empty.memory_format)


def _has_no_elements(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return False
    sizes = list(value.shape)
    return all(type(size) is int for size in sizes) and 0 in sizes


def _replace(graph: Graph, node: Node, value: torch.Tensor) -> None:
    part = torch.empty_like(value, dtype=value.dtype.to_real()) if value.dtype.is_complex else value
    with graph.inserting_before(node):
        empty = graph.call_function(aten.empty.memory_format, (list(value.shape),), {"dtype": part.dtype})
        empty.meta = {key: fact for key, fact in node.meta.items() if key != "tensor_meta"} | {"val": part}
        if value.dtype.is_complex:
            empty = graph.call_function(aten.complex.default, (empty, empty))
            empty.meta = dict(node.meta)
    node.replace_all_uses_with(empty)
    graph.erase_node(node)
