"""Correct the strides of operators that torch.export gives another order in memory than eager's kernels do.

Torch's fake tensors run decompositions or shape functions written in Python, and some of these keep the order of an
operand where the kernel for the CPU has a contiguous result, or the other way round. The table was found by comparing
the two, on transposed and channels-last operands, for torch's own samples of operators and for others by hand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import is_contiguous_or_false, suggest_memory_format
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from mlirtri.errors import UnsupportedOperationError

aten = torch.ops.aten
Tensor = torch.Tensor
Layout = Callable[..., Tensor]
"""Takes the result's sizes and the operands, on the device `meta`; returns a tensor with eager's strides."""
STRIDED = frozenset({aten.as_strided.default, aten.as_strided_.default, aten.as_strided_scatter.default})
"""Operators whose results depend on the order of their operand in memory."""


def correct_strides(graph: Graph, readers: frozenset[Any]) -> None:
    """Copy results into eager's order of their axes, and infer the strides of what follows from it again, in place.

    Only for what an operator of `readers` depends on. Raises `UnsupportedOperationError` where one of `STRIDED` depends
    on an order that is not known: that on other devices than the CPU, of sizes that depend on elements, and of
    `max_pool1d`, whose kernel depends on whether gradients are recorded.
    """
    changed: set[Node] = set()
    relevant, strided = _ancestors(graph, readers), _ancestors(graph, STRIDED)
    for node in list(graph.nodes):
        if node not in relevant:
            continue
        if not changed.isdisjoint(node.all_input_nodes) and _infer_again(node):
            changed.add(node)
        if (layout := _layout_in_doubt(node)) is None:
            continue
        wanted = _eager_layout(node, layout)
        if wanted is None and node in strided:
            raise _unknown_order(_operation(node))
        if wanted is not None and not _same_strides(node.meta["val"], wanted):
            changed.add(insert_copy(graph, node, order_of(wanted.stride())))


def order_of(strides: Sequence[int]) -> list[int]:
    """Return the axes from the one of the largest stride."""
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])


def insert_copy(graph: Graph, node: Node, order: Sequence[int]) -> Node:
    """Replace all uses of a node by a copy whose axes lie in memory in this order; return the copy."""
    back = sorted(range(len(order)), key=order.__getitem__)
    users = list(node.users)
    last = node
    for target, axes in ((aten.permute.default, list(order)), (aten.clone.default, None), (aten.permute.default, back)):
        options: dict[str, Any] = {"memory_format": torch.contiguous_format} if axes is None else {}
        arguments = () if axes is None else (axes,)
        with graph.inserting_after(last):
            following = graph.call_function(target, (last, *arguments), options)
        following.meta = {**node.meta, "val": target(last.meta["val"], *arguments, **options)}
        last = following
    for user in users:
        user.replace_input_with(node, last)
    return last


def _ancestors(graph: Graph, readers: frozenset[Any]) -> set[Node]:
    """Return the nodes that an operator of `readers` depends on, those operators included."""
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.target in readers or node in found:
            found.update((node, *node.all_input_nodes))
    return found


def _infer_again(node: Node) -> bool:
    """Give a node the strides that follow from its operands' current ones; return whether it was possible."""
    if node.target is operator.getitem:
        operation, position = node.args
        assert isinstance(operation, Node)
        node.meta["val"] = operation.meta["val"][position]
        return True
    target, value = node.target, node.meta.get("val")
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable or target in STRIDED:
        return False
    tensors = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]
    if not tensors or any(_concrete(tensor) is None for tensor in tensors):
        return False
    args, kwargs = _operands(node)
    with tensors[0].fake_mode:  # type: ignore[attr-defined]
        node.meta["val"] = target(*args, **kwargs)
    return True


def _operation(node: Node) -> Node:
    """Return the operator that a node is the first result of."""
    first = node.args[0] if node.target is operator.getitem and node.args[1] == 0 else node
    return first if isinstance(first, Node) else node


def _layout_in_doubt(node: Node) -> Layout | None:
    """Return the rule for a node's strides; None if torch.export has eager's: without a rule, or all contiguous."""
    value, operation = node.meta.get("val"), _operation(node)
    layout = _LAYOUTS.get(operation.target)
    if layout is None or not isinstance(value, Tensor) or value.dim() < 2:
        return None
    tensors = [value, *(leaf for leaf in pytree.tree_leaves(_operands(operation)) if isinstance(leaf, Tensor))]
    return None if all(map(is_contiguous_or_false, tensors)) else layout


def _eager_layout(node: Node, layout: Layout) -> Tensor | None:
    """Return a tensor with eager's strides of a node; None if these are not known."""
    operation, value = _operation(node), node.meta["val"]
    if value.device.type != "cpu" or operation.target in _UNKNOWN:
        return None
    leaves, structure = pytree.tree_flatten((value, *_operands(operation)))
    concrete = [_concrete(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    if any(new is None and old is not None for new, old in zip(concrete, leaves, strict=True)):
        return None
    result, args, kwargs = pytree.tree_unflatten(concrete, structure)
    return layout(result, *args, **kwargs)


def _unknown_order(operation: Node) -> UnsupportedOperationError:
    name = str(operation.target).split(".")[1]
    return UnsupportedOperationError(
        f"as_strided reads the order in memory of a result of {name}, which torch.export does not know",
        help=f"write .contiguous() before {name}, or slice, permute and reshape in place of as_strided",
    )


def _operands(node: Node) -> tuple[Any, Any]:
    """Return a node's arguments with tensors in place of nodes."""
    return pytree.tree_map(
        lambda leaf: leaf.meta.get("val") if isinstance(leaf, Node) else leaf, (tuple(node.args), dict(node.kwargs))
    )


def _concrete(tensor: Tensor) -> Tensor | None:
    """Return a tensor on `meta` with the sizes that the program was traced with; None if they depend on elements."""
    sizes, strides = numbers_of(tensor.shape), numbers_of(tensor.stride())
    if None in (*sizes, *strides):
        return None
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device="meta")


def numbers_of(sizes: Sequence[object]) -> list[Any]:
    """Return the sizes that the program was traced with; None for those that depend on elements."""
    return [size.node.hint if isinstance(size, torch.SymInt) else size for size in sizes]


def _same_strides(found: Tensor, wanted: Tensor) -> bool:
    steps = zip(wanted.shape, numbers_of(found.stride()), wanted.stride(), strict=True)
    return not wanted.numel() or all(size == 1 or left == right for size, left, right in steps)


def _contiguous(result: Tensor, *_operands: Any, **_options: Any) -> Tensor:
    return result.contiguous()


def _like_operand(_result: Tensor, x: Tensor, *_operands: Any, **_options: Any) -> Tensor:
    return torch.empty_like(x)


def _of_suggested_format(result: Tensor, x: Tensor, *_operands: Any, **_options: Any) -> Tensor:
    return result.contiguous(memory_format=suggest_memory_format(x))


def _normalised(result: Tensor, x: Tensor, *_operands: Any, **_options: Any) -> Tensor:
    """Lay a batch norm out: its kernel keeps channels-last operands that fill their memory, and no other order."""
    for rank, kept in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if x.dim() == rank and x.is_contiguous(memory_format=kept):
            return torch.empty(result.shape, device="meta").contiguous(memory_format=kept)
    return torch.empty(result.shape, device="meta")


def _elementwise(_result: Tensor, x: Any, y: Any, *_operands: Any, **_options: Any) -> Tensor:
    return torch.add(x, y)


def _rolled(result: Tensor, x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    """Lay a roll out: its kernel joins two slices per axis; without axes, it rolls all elements in order."""
    if not dims:
        return torch.empty(result.shape, device="meta")
    for shift, axis in zip(shifts, dims, strict=True):
        size = x.shape[axis]
        first = -shift % size if size else 0
        x = torch.cat([x.narrow(axis, first, size - first), x.narrow(axis, 0, first)], axis)
    return x


_OPERATORS: dict[Layout, tuple[Any, ...]] = {
    _contiguous: (
        aten.one_hot.default, aten.rrelu.default, aten.rrelu_with_noise.default, aten.log_sigmoid.default,
        aten.log_sigmoid_forward.default, aten.isin.Tensor_Tensor, aten.max_pool1d.default,
        aten.upsample_nearest1d.vec, aten.upsample_nearest1d.default, aten._upsample_nearest_exact1d.vec,
        aten._upsample_nearest_exact1d.default, aten.normal.Tensor_float, aten.normal.Tensor_Tensor,
        aten.normal.float_Tensor,
    ),
    _normalised: (
        aten.batch_norm.default, aten.native_batch_norm.default, aten._native_batch_norm_legit.default,
        aten._native_batch_norm_legit.no_stats, aten._native_batch_norm_legit_functional.default,
        aten._native_batch_norm_legit_no_training.default, aten._batch_norm_with_update.default,
        aten._batch_norm_with_update_functional.default,
    ),
    _like_operand: (aten.index_fill.int_Scalar, aten.index_fill.int_Tensor),
    _of_suggested_format: (aten.channel_shuffle.default, aten.max_unpool2d.default),
    _elementwise: (
        aten.div.Tensor_mode, aten.floor_divide.default, aten.copysign.Tensor, aten.xlogy.Tensor,
        aten.special_xlog1py.default, aten.native_dropout_backward.default,
    ),
    _rolled: (aten.roll.default,),
}  # fmt: skip
"""Operators by the rule for the strides of their results in eager's kernels for the CPU."""
_LAYOUTS = {target: layout for layout, targets in _OPERATORS.items() for target in targets}
_UNKNOWN = frozenset({aten.max_pool1d.default})
"""Operators of the table whose strides depend on more than their operands."""
