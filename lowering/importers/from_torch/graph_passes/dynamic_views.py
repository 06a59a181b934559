"""Views with several dynamic sizes, as one operator per collapsed or expanded group of axes.

From a list of dynamic sizes torch-mlir guesses wrong which axes are collapsed; here sizes are symbolic expressions.

    x.view(b * 2, s, d) of (b, 2, s, d)   ──►   collapse(x, 0, 1)
    x.view(b, s, 3, d) of (b * s, 3 * d)   ──►   unflatten(unflatten(x, 1, [3, d]), 0, [b, s])
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import sympy
import torch
from torch.fx import Graph, Node

aten, prims = torch.ops.aten, torch.ops.prims
Group = tuple[range, range]
"""Neighbouring axes of the operand that become neighbouring axes of the result."""


def rewrite(graph: Graph) -> None:
    """Rewrite the views of `graph`, in place."""
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not aten.view.default:
            continue
        before, after = node.args[0].meta["val"].shape, node.meta["val"].shape
        if max(_dynamic_sizes(before), _dynamic_sizes(after)) < 2:
            continue
        groups = _groups([_expression(size) for size in before], [_expression(size) for size in after])
        if groups is not None:
            node.replace_all_uses_with(_rewritten(node, groups))
            graph.erase_node(node)


def _dynamic_sizes(shape: Sequence[Any]) -> int:
    return sum(not _expression(size).is_number for size in shape)


def _expression(size: Any) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def _groups(before: list[sympy.Expr], after: list[sympy.Expr]) -> list[Group] | None:
    groups: list[Group] = []
    i = j = 0
    while i < len(before) and j < len(after):
        first_i, first_j = i, j
        i, j = i + 1, j + 1
        while (ratio := sympy.cancel(prod(after[first_j:j]) / prod(before[first_i:i]))) != 1:
            above, below = sympy.fraction(ratio)
            if below == 1 and i < len(before):
                i += 1
            elif above == 1 and j < len(after):
                j += 1
            else:
                return None
        groups.append((range(first_i, i), range(first_j, j)))
    if not groups or any(size != 1 for size in (*before[i:], *after[j:])):
        return None
    last_before, last_after = groups.pop()
    return [*groups, (range(last_before.start, len(before)), range(last_after.start, len(after)))]


def _rewritten(node: Node, groups: list[Group]) -> Node:
    operands: tuple[Any, ...] = node.args
    result, sizes = operands
    for before, _ in reversed(groups):
        if len(before) > 1:
            result = _call(node, prims.collapse.default, result, before[0], before[-1])
    for position, (_, after) in reversed(list(enumerate(groups))):
        if len(after) > 1:
            result = _call(node, aten.unflatten.int, result, position, [_size(node, sizes, axis) for axis in after])
    return result


def _size(node: Node, sizes: Sequence[Any], axis: int) -> Any:
    expression = _expression(node.meta["val"].shape[axis])
    return int(expression) if expression.is_number else sizes[axis]


def _call(node: Node, target: Any, *operands: Any) -> Node:
    with node.graph.inserting_before(node):
        call = node.graph.call_function(target, operands)
    call.meta = {key: value for key, value in node.meta.items() if key not in ("val", "tensor_meta")}
    call.meta["val"] = target(*torch.fx.map_arg(operands, lambda value: value.meta["val"]))
    return call
