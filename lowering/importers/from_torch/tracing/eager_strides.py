"""Give results of operators the order in memory that eager's kernels give them, where the program relies on it.

Torch decomposes operators into others whose results have other strides, and a later view of the decomposed program
fails or, as `as_strided` does, reads other elements. The exported program has eager's strides.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch.fx import Node

from mlirtri.lowering.importers.from_torch.tracing.eager_layouts import (
    STRIDED,
    correct_strides,
    insert_copy,
    numbers_of,
    order_of,
)

aten = torch.ops.aten
_READS_STRIDES = frozenset({
    *(aten.view.default, aten.view.dtype, aten.view_as_complex.default, *STRIDED),
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
    correct_strides(module.graph, _READS_STRIDES)
    nodes = list(module.graph.nodes)
    viewed, unsure = _viewed(nodes), set[Node]()
    for node in nodes:
        if not _may_have_another_order(node, unsure):
            continue
        if node in viewed and not _inherits_order(node) and (order := _order(node.meta["val"])) is not None:
            insert_copy(module.graph, node, order)
        else:
            unsure.add(node)
    module.recompile()


def has_strided_views(graph: torch.fx.Graph) -> bool:
    """Return whether a program takes elements by their places in memory."""
    return any(node.target in STRIDED for node in graph.nodes)


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
    strides = numbers_of(tensor.stride())
    if len(strides) < 2 or None in strides:
        return None
    order = order_of(strides)
    return order if _fills_memory(tensor, order) else None


def _fills_memory(tensor: torch.Tensor, order: Sequence[int]) -> bool:
    """Return whether elements follow each other in this order of the axes; False where that depends on elements."""
    sizes, strides = numbers_of(tensor.shape), numbers_of(tensor.stride())
    if None in (*sizes, *strides):
        return False
    filled = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != filled:
            return False
        filled *= sizes[axis]
    return True


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
