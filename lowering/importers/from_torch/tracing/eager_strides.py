"""Give results of operators the order in memory that eager's kernels give them, where the program relies on it.

Torch decomposes operators into others whose results have other strides, and a later view of the decomposed program
fails or, as `as_strided` does, reads other elements. The exported program has eager's strides.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten
_READS_STRIDES = frozenset({
    *(aten.view.default, aten.view.dtype, aten.as_strided.default, aten.view_as_complex.default),
    # Whether these copy depends on strides, which a later write shows.
    *(aten.reshape.default, aten.flatten.using_ints, aten.contiguous.default),
})  # fmt: skip


def keep_strides(module: torch.fx.GraphModule) -> None:
    """Copy results that later views rely on into eager's order of their axes, in place.

    Elementwise operators are decomposed into elementwise ones, which give the same order.
    """
    nodes = list(module.graph.nodes)
    viewed = _viewed(nodes)
    for node in nodes:
        if node in viewed and _may_change_order(node):
            _insert_copy(module.graph, node)
    module.recompile()


def _viewed(nodes: list[Node]) -> set[Node]:
    """Return the nodes whose strides an operator reads, through views and elementwise operators as well."""
    viewed: set[Node] = set()
    for node in reversed(nodes):
        if node.target in _READS_STRIDES or (node in viewed and (_is_view(node) or _is_elementwise(node))):
            viewed.update(node.all_input_nodes)
    return viewed


def _may_change_order(node: Node) -> bool:
    result = node.meta.get("val")
    operation = node.args[0] if node.target is operator.getitem else node
    if not isinstance(result, torch.Tensor) or not isinstance(operation, Node):
        return False
    if not isinstance(operation.target, torch._ops.OpOverload) or operation.target._schema.is_mutable:
        return False
    if _is_view(operation) or _is_elementwise(operation) or _order(result) is None:
        return False
    examples = [each.meta.get("val") for each in operation.all_input_nodes]
    tensors = [result, *(each for each in examples if isinstance(each, torch.Tensor))]
    return not all(each.is_contiguous() for each in tensors)


def _order(tensor: torch.Tensor) -> list[int] | None:
    """Return a tensor's axes from the one of the largest stride, or None if its elements do not fill its memory."""
    sizes, strides = map(_numbers, (tensor.shape, tensor.stride()))
    if len(sizes) < 2 or None in (*sizes, *strides):
        return None
    order = sorted(range(len(sizes)), key=lambda axis: -strides[axis])
    filled = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != filled:
            return None
        filled *= sizes[axis]
    return order


def _numbers(sizes: Sequence[Any]) -> list[Any]:
    """Return the sizes that the program was traced with; None for those that depend on elements."""
    return [size.node.hint if isinstance(size, torch.SymInt) else size for size in sizes]


def _insert_copy(graph: torch.fx.Graph, node: Node) -> None:
    result = node.meta["val"]
    order = _order(result)
    assert order is not None
    back = sorted(range(len(order)), key=order.__getitem__)
    users = list(node.users)
    last, example = node, result
    steps = ((aten.permute.default, order), (aten.clone.default, None), (aten.permute.default, back))
    for target, axes in steps:
        options = {"memory_format": torch.contiguous_format} if axes is None else {}
        with graph.inserting_after(last):
            last = graph.call_function(target, (last, axes) if axes is not None else (last,), options)
        example = example if axes is None else example.permute(axes)
        last.meta = {**node.meta, "val": example}
    for user in users:
        user.replace_input_with(node, last)


def _is_view(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(result.alias_info is not None for result in schema.returns)


def _is_elementwise(node: Node) -> bool:
    return torch.Tag.pointwise in getattr(node.target, "tags", ())
