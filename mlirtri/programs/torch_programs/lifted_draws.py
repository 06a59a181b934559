"""Replace the random tensors of a graph by arguments that each call draws (`random_draws.py`).

Draws whose number depends on elements are refused, as are those in branches and loops.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from mlirtri.errors import KernelValueError, UnsupportedOperationError
from mlirtri.lowering.importers.from_torch.graph_to_torch import span_of_node
from mlirtri.programs.torch_programs.random_draws import ARITHMETIC, DRAWING, Draw

aten = torch.ops.aten
_OUTSIDE = "draw them outside of the module, and pass them as an argument"


def lifted(module: torch.fx.GraphModule, positions: dict[str, int]) -> list[Draw]:
    """Replace random tensors by placeholders after the last one; return the draws in the order of the placeholders.

    `positions` has the argument of each placeholder that is one. Raises `KernelError` for what is not `Draw`.
    """
    _refuse_branches(module)
    refuse_draws_of_elements(module.graph)
    draws: list[Draw] = []
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node in [node for node in module.graph.nodes if is_random(node)]:
        draw = _draw(node, positions)
        with module.graph.inserting_after(placeholders[-1]) if placeholders else module.graph.inserting_before():
            placeholder = module.graph.placeholder(f"{node.name}_drawn")
        placeholder.meta = dict(node.meta)
        placeholders.append(placeholder)
        node.replace_all_uses_with(placeholder)
        module.graph.erase_node(node)
        draws.append(draw)
    return draws


def is_random(node: Node) -> bool:
    """Return whether a node advances a random generator."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _refuse_branches(module: torch.fx.GraphModule) -> None:
    for name, inner in module.named_modules():
        if name and isinstance(inner, torch.fx.GraphModule):
            for node in inner.graph.nodes:
                if is_random(node):
                    raise UnsupportedOperationError(
                        f"random numbers are drawn in a branch or a loop ({node.target})",
                        span_of_node(node),
                        help="draw them before it, for all its iterations",
                    )


def refuse_draws_of_elements(graph: torch.fx.Graph) -> None:
    """Raise `KernelValueError` for an operator of which elements say how much it draws."""
    for node in graph.nodes:
        if is_random(node) and (str(node.target) not in DRAWING or node.kwargs.get("generator") is not None):
            raise KernelValueError(
                f"the number of random numbers that {node.target} draws depends on elements",
                span_of_node(node),
                help=_OUTSIDE,
            )


def _draw(node: Node, positions: dict[str, int]) -> Draw:
    options = {"dtype": node.kwargs["dtype"]} if node.kwargs.get("dtype") is not None else {}
    try:
        return Draw(str(node.target), [_term(each, positions) for each in node.args],
                    {name: _term(value, positions) for name, value in options.items()})  # fmt: skip
    except ValueError as problem:
        raise UnsupportedOperationError(
            f"the shape of random numbers is {problem}", span_of_node(node), help=_OUTSIDE
        ) from None


def _term(value: Any, positions: dict[str, int]) -> Any:
    """Return an argument as JSON; raises `ValueError` for sizes that depend on elements."""
    if isinstance(value, (list, tuple)):
        return [_term(each, positions) for each in value]
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if value is None or type(value) in (int, float, bool):
        return value
    if isinstance(value, Node):
        example = value.meta.get("val")
        if isinstance(example, torch.Tensor):
            return _tensor_term(value, example, positions)
        return _number(value, positions)
    raise ValueError(f"{value!r}, which no argument has")


def _tensor_term(node: Node, example: torch.Tensor, positions: dict[str, int]) -> dict[str, Any]:
    sizes = [_size(node, axis, size, positions) for axis, size in enumerate(example.shape)]
    term = {"like": sizes, "dtype": str(example.dtype).removeprefix("torch.")}
    if not all(isinstance(size, int) for size in sizes) or example.is_contiguous():
        return term
    # Eager draws in the order of the memory.
    return {**term, "strides": list(example.stride())}


def _size(node: Node, axis: int, size: Any, positions: dict[str, int]) -> Any:
    if isinstance(size, int):
        return size
    if node.name in positions:
        return {"leaf": positions[node.name], "axis": axis}
    for other in node.graph.nodes:
        example = other.meta.get("val")
        if other.name in positions and isinstance(example, torch.Tensor):
            for number, candidate in enumerate(example.shape):
                if isinstance(candidate, torch.SymInt) and candidate.node.expr == size.node.expr:
                    return {"leaf": positions[other.name], "axis": number}
    raise ValueError("computed from elements")


def _number(node: Node, positions: dict[str, int]) -> Any:
    if node.name in positions:
        return {"leaf": positions[node.name]}
    if node.target is aten.sym_size.int and isinstance(node.args[0], Node) and isinstance(node.args[1], int):
        return _size(node.args[0], node.args[1], node.meta.get("val"), positions)
    name = getattr(node.target, "__name__", "")
    if node.op == "call_function" and ARITHMETIC.get(name) is node.target:
        return {"op": name, "operands": [_term(each, positions) for each in node.args]}
    raise ValueError("computed from elements")
