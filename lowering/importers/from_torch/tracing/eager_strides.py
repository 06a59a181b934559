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


_ALWAYS_CONTIGUOUS = frozenset({
    *(aten.linear.default, aten.mm.default, aten.bmm.default, aten.addmm.default, aten.embedding.default),
})  # fmt: skip
"""Whatever the order of their operands is, eager's results and those of the decomposition are contiguous."""


def keep_strides(module: torch.fx.GraphModule) -> None:
    """Copy results that later views rely on into eager's order of their axes, in place.

    Elementwise operators are decomposed into elementwise ones, which give the same order for operands of the same.
    """
    nodes = list(module.graph.nodes)
    viewed, unsure = _viewed(nodes), set[Node]()
    for node in nodes:
        if not _may_have_another_order(node, unsure):
            continue
        if node in viewed and not _inherits_order(node) and _order(node.meta["val"]) is not None:
            _insert_copy(module.graph, node)
        else:
            unsure.add(node)
    module.recompile()


def _viewed(nodes: list[Node]) -> set[Node]:
    """Return the nodes whose strides an operator reads, through views and elementwise operators as well."""
    viewed: set[Node] = set()
    for node in reversed(nodes):
        if node.target in _READS_STRIDES or (node in viewed and _inherits_order(node)):
            viewed.update(node.all_input_nodes)
            viewed.update(_operation(each) for each in node.all_input_nodes if _inherits_order(each))
    return viewed


def _may_have_another_order(node: Node, unsure: set[Node]) -> bool:
    operation = _operation(node)
    if not isinstance(operation.target, torch._ops.OpOverload) or operation.target in _ALWAYS_CONTIGUOUS:
        return False
    if not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    if any(each in unsure for each in operation.all_input_nodes):
        return True
    if _inherits_order(operation) or operation.target._schema.is_mutable:
        return False
    examples = [node.meta["val"], *(each.meta.get("val") for each in operation.all_input_nodes)]
    return not all(_fills_memory(each, range(each.dim())) for each in examples if isinstance(each, torch.Tensor))


def _order(tensor: torch.Tensor) -> list[int] | None:
    """Return a tensor's axes from the one of the largest stride, or None if its elements do not fill its memory."""
    strides = _numbers(tensor.stride())
    if len(strides) < 2 or None in strides:
        return None
    order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
    return order if _fills_memory(tensor, order) else None


def _fills_memory(tensor: torch.Tensor, order: Sequence[int]) -> bool:
    """Return whether elements follow each other in this order of the axes; False where that depends on elements."""
    sizes, strides = _numbers(tensor.shape), _numbers(tensor.stride())
    if None in (*sizes, *strides):
        return False
    filled = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != filled:
            return False
        filled *= sizes[axis]
    return True


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
        options: dict[str, Any] = {"memory_format": torch.contiguous_format} if axes is None else {}
        with graph.inserting_after(last):
            last = graph.call_function(target, (last, axes) if axes is not None else (last,), options)
        example = example if axes is None else example.permute(axes)
        last.meta = {**node.meta, "val": example}
    for user in users:
        user.replace_input_with(node, last)


def _inherits_order(node: Node) -> bool:
    """Return whether a node has views of its operands, or is elementwise."""
    target = _operation(node).target
    schema = getattr(target, "_schema", None)
    is_view = schema is not None and any(result.alias_info is not None for result in schema.returns)
    return is_view or torch.Tag.pointwise in getattr(target, "tags", ())


def _operation(node: Node) -> Node:
    """Return the operator that one of several results is of."""
    first = node.args[0] if node.target is operator.getitem else node
    return first if isinstance(first, Node) else node
