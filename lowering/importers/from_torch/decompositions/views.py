"""Decompose views, copies, concatenations and padding that torch-mlir does not lower."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Axes, Operator, Results, Scalar, decomposes

aten = torch.ops.aten
Tensor = torch.Tensor


@decomposes(aten.as_strided.default)
def as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: Scalar = None) -> Tensor:
    """Gather elements by strides with dynamic sizes; strides in order are a reshape, as in torch's group norm."""
    if storage_offset in (None, 0) and x.storage_offset() == 0 and _has_all_in_order(x, size, stride):
        return x.view(size)
    offset = x.storage_offset() if storage_offset is None else storage_offset
    numbers = [*x.shape, *size, *stride, offset, x.storage_offset()]
    if all(type(number) is int for number in numbers) or not x.is_contiguous() or x.storage_offset() != 0:
        return NotImplemented
    return x.view(-1)[_strided_indices(size, stride, offset, x.device)]


def _strided_indices(size: Sequence[int], stride: Sequence[int], offset: Any, device: torch.device) -> Tensor:
    index = torch.full((), offset, dtype=torch.int64, device=device)
    for length, step in zip(size, stride, strict=True):
        index = index.unsqueeze(-1) + torch.arange(length, device=device) * step
    return index


def _has_all_in_order(x: Tensor, size: Sequence[int], stride: Sequence[int]) -> bool:
    if not all(type(element) is int for element in (*x.shape, *size, *stride)) or not x.is_contiguous():
        return False
    below = [prod(size[position + 1 :]) for position in range(len(size))]
    return prod(size) == x.numel() and all(
        length == 1 or step == inner for length, step, inner in zip(size, stride, below, strict=True)
    )


@decomposes(aten.as_strided_scatter.default)
def as_strided_scatter(
    x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: Scalar = None
) -> Tensor:
    """Return a contiguous tensor with elements written at strided addresses; views into others are refused later."""
    offset = storage_offset or 0
    numbers = (*x.shape, *size, *stride, offset, x.storage_offset())
    if not all(type(number) is int for number in numbers) or not x.is_contiguous() or x.storage_offset() != 0:
        return NotImplemented
    return aten.put(x, _strided_indices(size, stride, offset, x.device), src)


@decomposes(torch.ops.prims.copy_strided.default)
def copy_strided(a: Tensor, stride: Sequence[int]) -> Tensor:
    """Copy a tensor into the order of axes that the strides have, from the largest one."""
    if not all(type(step) is int for step in stride):
        return a.clone()
    order = sorted(range(a.dim()), key=lambda axis: -stride[axis])
    back = sorted(range(a.dim()), key=order.__getitem__)
    return a.permute(order).clone(memory_format=torch.contiguous_format).permute(back)


@decomposes(aten.empty_strided.default)
def empty_strided(size: Sequence[int], stride: Sequence[int], **options: object) -> Tensor:
    """Return an empty tensor: strides have no meaning in MLIR."""
    return aten.empty.memory_format(size, **options)


@decomposes(aten.new_empty_strided.default)
def new_empty_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], **options: object) -> Tensor:
    """Return an empty tensor of the dtype of `x`, unless the options name another one."""
    return aten.new_empty.default(x, size, **options)


@decomposes(aten.empty_permuted.default)
def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: object) -> Tensor:
    """Return an empty tensor: the order of axes in memory has no meaning in MLIR."""
    return aten.empty.memory_format(size, **options)


@decomposes(aten.resize.default)
def resize(x: Tensor, size: Sequence[Scalar], *, memory_format: torch.memory_format | None = None) -> Results:
    """Return the first elements in another shape; elements beyond those of `x`, which eager leaves undefined, are 0."""
    count = prod(size)
    if not all(type(length) is int for length in (*x.shape, *size)) or not x.is_contiguous():
        return NotImplemented
    missing = x.new_zeros([max(count - x.numel(), 0)])
    return torch.cat([x.reshape(-1)[:count], missing]).view(size)


@decomposes(aten.resize_as.default)
def resize_as(x: Tensor, the_template: Tensor, *, memory_format: torch.memory_format | None = None) -> Results:
    return resize(x, the_template.shape)


def copy_of(view: Operator) -> Callable[..., Tensor]:
    """Return the rule of the copying variant of a view."""

    def apply(*arguments: Any, **options: Any) -> Tensor:
        return view(*arguments, **options).clone()

    return apply


@decomposes(aten.split_with_sizes.default)
def split_with_sizes(x: Tensor, sizes: Sequence[Scalar], dim: int = 0) -> Results:
    """Return one slice per part, of dynamic sizes."""
    if all(isinstance(size, int) for size in sizes):
        return NotImplemented
    result, start = [], 0
    for size in sizes:
        result.append(aten.slice.Tensor(x, dim, start, start + size))
        start = start + size
    return result


@decomposes(aten.cat.default)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Concatenate tensors of different dtypes, or to an empty result, which torch-mlir refuses."""
    non_empty = [tensor for tensor in tensors if tensor.dim() != 1 or not has_no_elements(tensor.shape)] or tensors[:1]
    shape = list(non_empty[0].shape)
    shape[dim] = sum(operand.shape[dim] for operand in non_empty)
    kind = tensors[0].dtype
    for tensor in tensors[1:]:
        kind = torch.promote_types(kind, tensor.dtype)
    if has_no_elements(shape):
        return tensors[0].new_zeros(shape, dtype=kind)
    if all(tensor.dtype == kind for tensor in tensors):
        return NotImplemented
    return aten.cat.default([tensor.to(kind) for tensor in tensors], dim)


@decomposes(aten.view.default)
def view(x: Tensor, size: Sequence[Scalar]) -> Tensor:
    """Reshape a tensor without elements."""
    return (
        x.new_zeros([0 if operand == -1 else operand for operand in size])
        if has_no_elements(x.shape)
        else NotImplemented
    )


@decomposes(aten.repeat.default)
def repeat(x: Tensor, repeats: Sequence[Scalar]) -> Tensor:
    """Repeat a tensor without elements."""
    missing = len(repeats) - x.dim()
    if not has_no_elements([*x.shape, *repeats]):
        return NotImplemented
    return x.new_zeros([element * size for element, size in zip(repeats, [1] * missing + list(x.shape), strict=True)])


def has_no_elements(shape: Sequence[Scalar]) -> bool:
    return all(isinstance(size, int) for size in shape) and 0 in shape


@decomposes(aten.constant_pad_nd.default)
def constant_pad(x: Tensor, pad: list[int], value: float = 0) -> Tensor:
    """Pad with a constant; a negative padding slices, which torch-mlir ignores."""
    if all(isinstance(operand, int) and operand >= 0 for operand in pad):
        return NotImplemented
    for position, (low, high) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = x.dim() - 1 - position
        x = x.narrow(axis, max(-low, 0), x.shape[axis] - max(-low, 0) - max(-high, 0))
    return aten.constant_pad_nd(x, [max(operand, 0) for operand in pad], value)


@decomposes(aten.roll.default)
def roll(x: Tensor, shifts: Axes, dims: Axes = ()) -> Tensor:
    """Rotate elements along axes, or of the flattened tensor; torch-mlir requires axes and shifts below their size."""
    if not dims:
        return x.flatten().roll(shifts, 0).view(x.shape)
    sizes = [x.shape[axis] for axis in dims]
    if any(isinstance(size, int) and size == 0 for size in sizes):
        return x.clone()
    reduced = [
        shift % size if isinstance(size, int) and isinstance(shift, int) else shift
        for shift, size in zip(shifts, sizes, strict=True)
    ]
    if reduced == list(shifts) and all(isinstance(size, int) for size in sizes):
        return NotImplemented
    for axis, shift, size in zip(dims, reduced, sizes, strict=True):
        position = torch.arange(size, device=x.device)
        x = x.roll([shift], [axis]) if isinstance(size, int) else x.index_select(axis, (position - shift) % size)
    return x


def triangle_indices(is_lower: bool) -> Callable[..., Tensor]:
    """Return the rule of `tril_indices` or `triu_indices`."""

    def apply(rows: int, columns: int, offset: int = 0, *, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
        if type(rows) is not int or type(columns) is not int:
            return NotImplemented
        below = [min(max(row + offset + is_lower, 0), columns) for row in range(rows)]
        count = sum(below) if is_lower else rows * columns - sum(below)
        is_inside = torch.ones(rows, columns, dtype=torch.int64)
        is_inside = is_inside.tril(offset) if is_lower else is_inside.triu(offset)
        return torch.nonzero_static(is_inside, size=count).T.to(dtype or torch.int64)

    return apply


decomposes(aten.tril_indices.default)(triangle_indices(True))
decomposes(aten.triu_indices.default)(triangle_indices(False))
decomposes(aten.as_strided_copy.default)(copy_of(aten.as_strided.default))
decomposes(aten.narrow_copy.default)(copy_of(aten.narrow.default))
decomposes(aten.permute_copy.default)(copy_of(aten.permute.default))
decomposes(aten.unbind_copy.int)(lambda x, dim=0: [operand.clone() for operand in x.unbind(dim)])
decomposes(aten.view_copy.default)(copy_of(aten.view.default))
decomposes(aten.view_copy.dtype)(copy_of(aten.view.dtype))
