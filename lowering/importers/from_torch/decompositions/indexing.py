"""Decompose reads and writes at index tensors and masks; a mask becomes the indices where it is true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._decomp import decompositions as torch_rules

from mlirtri.lowering.importers.from_torch.decomposition_rules import (
    Operand,
    Scalar,
    decomposes,
    is_without_rules,
    without_rules,
)
from mlirtri.lowering.importers.from_torch.decompositions.views import has_no_elements

aten = torch.ops.aten
Tensor = torch.Tensor


@decomposes(aten.index.Tensor)
def index_tensor(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Return ``x[indices]``; torch-mlir takes int64 indices, one of dynamic size, and no masks."""
    if has_masks(indices):
        return read_through_masks(x, indices)
    index_tensors = [index for index in indices if index is not None]
    if len(index_tensors) > 1 and any(
        isinstance(size, torch.SymInt) for operand in index_tensors for size in operand.shape
    ):
        return _read_at_flat_index(x, indices)
    if all(operand.dtype == torch.int64 for operand in index_tensors):
        return NotImplemented
    return aten.index.Tensor(x, [index if index is None else index.long() for index in indices])


def _read_at_flat_index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    others = [axis for axis in range(x.dim()) if axis not in axes]
    # The axes of the indices replace the indexed axes, or come first where these are not adjacent.
    first = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    together = x.permute([*others[:first], *axes, *others[first:]])
    flat = torch.ops.prims.collapse.default(together, first, first + len(axes) - 1)
    return aten.index.Tensor(flat, [*[None] * first, _flat_index(x, axes, indices)])


def _flat_index(x: Tensor, axes: Sequence[int], indices: Sequence[Tensor | None]) -> Tensor:
    """Return the row-major index into the collapsed `axes`; negative indices count from the end."""
    position: Any = 0
    for axis in axes:
        size, index = x.shape[axis], indices[axis].long()
        position = position * size + torch.where(index < 0, index + size, index)
    return position


def _write_at_flat_index(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor | None:
    """Collapse the adjacent indexed axes into one and write it at one index; None if all sizes are static."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    sizes = [size for axis in axes for size in indices[axis].shape]
    if len(axes) < 2 or all(isinstance(size, int) for size in sizes):
        return None
    flat = torch.ops.prims.collapse.default(x, axes[0], axes[-1])
    index = [*[None] * axes[0], _flat_index(x, axes, indices)]
    return aten.index_put.default(flat, index, values, accumulate).view(x.shape)


def _expanded_values(x: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> Tensor | None:
    """Expand `values` to as many elements as are written; None where none are: torch-mlir would write one."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    shape = torch.broadcast_shapes(*[indices[axis].shape for axis in axes])
    if has_no_elements(shape):
        return None
    if all(isinstance(size, int) for size in shape):
        return values
    target = [*x.shape[: axes[0]], *shape, *x.shape[axes[-1] + 1 :]]
    missing = len(target) - values.dim()
    positions = range(axes[0], axes[0] + len(shape))
    is_one = any(
        position < missing or (type(size := values.shape[position - missing]) is int and size == 1)
        for position in positions
    )
    return values.expand(target).contiguous() if is_one else values


@decomposes(aten.take.default)
def take(x: Tensor, index: Tensor) -> Tensor:
    """Return elements at indices into the flattened tensor; torch reads an index of rank 0 as a Python number."""
    return x.reshape(-1)[index.reshape(-1)].reshape(index.shape)


@decomposes(aten.put.default)
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    return aten.index_put.default(x.flatten(), [index.flatten()], source.flatten(), accumulate).view(x.shape)


@decomposes(aten.index_put.default)
def index_put(x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write at indices; torch-mlir refuses negative indices and indexed axes that are not adjacent."""
    if is_without_rules():
        return NotImplemented
    if accumulate and x.dtype == torch.bool:
        # Eager adds booleans by a logical or, torch-mlir modulo 2.
        return aten.index_put.default(x.int(), indices, values.int(), True) != 0
    if has_masks(indices):
        return write_through_masks(x, indices, values, accumulate)
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if axes[-1] - axes[0] >= len(axes):
        # The axes of non-adjacent indices come first in `values`, as if the indexed axes were moved to the front.
        order = [*axes, *[axis for axis in range(x.dim()) if axis not in axes]]
        result = aten.index_put.default(x.permute(order), [indices[axis] for axis in axes], values, accumulate)
        return result.permute([order.index(axis) for axis in range(x.dim())])
    if (expanded := _expanded_values(x, indices, values)) is None:
        return x.clone()
    values = expanded
    if (result := _write_at_flat_index(x, indices, values, accumulate)) is not None:
        return result
    positive = [
        None if index is None else torch.where(index < 0, index + x.shape[axis], index).long()
        for axis, index in enumerate(indices)
    ]
    return without_rules(aten.index_put.default, x, positive, values, accumulate)


Indices = Sequence[Tensor | None]


def has_masks(indices: Indices) -> bool:
    """Return whether one of `indices` is a boolean mask."""
    return any(index is not None and index.dtype == torch.bool and index.dim() for index in indices)


def read_through_masks(x: Tensor, indices: Indices) -> Tensor:
    """Return ``x[indices]``, with masks among the indices."""
    if (only := _single_mask(indices)) is None:
        return aten.index.Tensor(x, _as_integer_indices(indices))
    first, mask = only
    return aten.index.Tensor(_collapsed(x, first, mask.dim()), [*[None] * first, _nonzero_indices(mask)])


def write_through_masks(x: Tensor, indices: Indices, values: Tensor, accumulate: bool) -> Tensor:
    """Return `x` with `values` written, or added, at indices that include masks."""
    if (only := _single_mask(indices)) is None:
        return aten.index_put.default(x, _as_integer_indices(indices), values, accumulate)
    first, mask = only
    behind = x.dim() - first - mask.dim()
    along = values.dim() - behind - 1
    if along < 0 or (isinstance(values.shape[along], int) and values.shape[along] == 1):
        # One value for all elements, of which there may be none: torch-mlir would write one.
        condition = mask.view([*mask.shape, *[1] * behind])
        if along >= 0:
            values = values.view([*values.shape[:along], *[1] * mask.dim(), *values.shape[along + 1 :]])
        values = values.to(x.dtype)
        return torch.where(condition, x + values if accumulate else values, x)
    flat = _collapsed(x, first, mask.dim())
    return aten.index_put.default(flat, [*[None] * first, _nonzero_indices(mask)], values, accumulate).view(x.shape)


@decomposes(aten.masked_select.default)
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements of `x` where the mask is true."""
    x, mask = torch.broadcast_tensors(torch.atleast_1d(x), torch.atleast_1d(mask))
    if type(x.numel()) is int and x.numel() == 1:
        # torch's trace bounds the length by 2 at least.
        x, mask = x.flatten().expand(2), torch.cat([mask.flatten(), torch.zeros_like(mask.flatten())])
    return read_through_masks(x, [mask])


@decomposes(aten.masked_scatter.default)
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Write the elements of `source` in order where the mask is true; torch-mlir does not count them."""
    x, mask = torch.broadcast_tensors(x, mask)
    if has_no_elements(x.shape):
        return x.clone()
    counts, available = torch.cumsum(mask.reshape(-1).long(), 0), source.numel()
    aten._assert_async.msg(counts[-1] <= available, "masked_scatter: source has fewer elements than mask has ones")
    if has_no_elements(source.shape):
        return x.clone()
    source = source.reshape(-1)
    if not isinstance(available, int):
        # It may have no elements: where nothing is written, another one is read.
        source = torch.cat([source, source.new_zeros(1)])
    position = torch.clamp(counts - 1, 0, source.numel() - 1)
    return torch.where(mask, source[position].view(mask.shape), x)


@decomposes(aten.index_add.default)
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Scalar = 1) -> Tensor:
    """Add slices of `source` to those of `x` at `index`, which may not be negative."""
    return torch_rules.index_add(x, dim, _not_from_end(x, dim, index), source, alpha=alpha)


@decomposes(aten.index_copy.default)
def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Write slices of `source` to those of `x` at `index`, which may not be negative.

    A few slices, such as new keys in a cache, are chosen where they go: without a loop everything around it fuses.
    """
    wrapped = _not_from_end(x, dim, index)
    if not _are_few_slices(x, dim, index):
        return torch_rules.index_copy(x, dim, wrapped, source)
    dim %= x.dim()
    numbers = torch.arange(x.shape[dim], device=x.device)
    wrapped = aten.index.Tensor(numbers, [wrapped.reshape(-1)])  # checks them
    along = [-1, *[1] * (x.dim() - dim - 1)]
    if index.numel() == 1:
        return torch.where((numbers == wrapped).view(along), source, x)
    order = torch.arange(index.numel(), device=x.device)
    # The last of equal indices wins.
    latest = torch.where(numbers[:, None] == wrapped, order, -1).amax(1)
    moved = aten.index.Tensor(source, [*[None] * dim, latest.clamp(min=0)])
    return torch.where((latest >= 0).view(along), moved, x)


def _are_few_slices(x: Tensor, dim: int, index: Tensor) -> bool:
    """Return whether comparing each index with each position of an axis takes no longer than to copy the tensor."""
    sizes = [*x.shape, *index.shape]
    if not x.dim() or x.is_complex() or any(isinstance(size, torch.SymInt) for size in sizes):
        return False
    return 0 < index.numel() * x.shape[dim] <= x.numel()


def _not_from_end(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Move negative indices past the axis, where they fail the assertion on indices."""
    return torch.where(index < 0, x.shape[dim] if x.dim() else 1, index)


@decomposes(aten.one_hot.default)
def one_hot(index: Tensor, num_classes: int = -1) -> Tensor:
    """Return rows of zeros with a one at `index`; torch drops the check of the indices when it traces."""
    if type(num_classes) is not int or num_classes <= 0:
        return NotImplemented
    aten._assert_async.msg(
        ((index >= 0) & (index < num_classes)).all(), f"one_hot: class values are from 0 to {num_classes - 1}"
    )
    return (index.unsqueeze(-1) == torch.arange(num_classes, device=index.device)).long()


def _single_mask(indices: Indices) -> tuple[int, Tensor] | None:
    tensors = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    return tensors[0] if len(tensors) == 1 else None


def _collapsed(x: Tensor, first: int, count: int) -> Tensor:
    return x if count == 1 else torch.ops.prims.collapse.default(x, first, first + count - 1)


def _nonzero_indices(mask: Tensor) -> Tensor:
    return torch.nonzero(_collapsed(mask, 0, mask.dim()))[:, 0]


def _as_integer_indices(indices: Indices) -> list[Tensor | None]:
    """Return the indices with each mask of rank n replaced by n index tensors."""
    result: list[Tensor | None] = []
    for index in indices:
        if index is None or index.dtype != torch.bool or not index.dim():
            result.append(index)
        else:
            result += nonzero_by_axis(index)
    return result


@decomposes(aten.nonzero_numpy.default, aten.where.default)
def nonzero_by_axis(mask: Tensor) -> list[Tensor]:
    """Return the indices of true elements per axis, of one common dynamic size."""
    if mask.dim() < 2:
        return [torch.nonzero(torch.atleast_1d(mask))[:, 0]]
    index = _nonzero_indices(mask)
    result = []
    for size in reversed(mask.shape):
        result.append(index % size)
        index = torch.div(index, size, rounding_mode="trunc")
    return result[::-1]


@decomposes(aten.nonzero.default)
def nonzero(x: Tensor) -> Tensor:
    """Return the indices of non-zero elements of a rank-0, complex or empty tensor."""
    if x.is_complex():
        return torch.nonzero(x != 0)
    if not x.dim():
        return torch.nonzero(x.view(1))[:, :0]
    if any(type(size) is int and size == 0 for size in x.shape):
        return torch.zeros((0, x.dim()), dtype=torch.int64, device=x.device)
    return NotImplemented


@decomposes(aten.nonzero_static.default)
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the first `size` indices of non-zero elements, padded with `fill_value`."""
    if any(type(element) is not int for element in (*x.shape, size)):
        return NotImplemented
    if not x.dim() or 0 in (*x.shape, size):
        return torch.full((size, x.dim()), fill_value, dtype=torch.int64, device=x.device)
    counts = torch.cumsum((x != 0).reshape(-1).long(), 0)
    iota = torch.arange(size, device=x.device)
    index, result = torch.searchsorted(counts, iota + 1), []
    for length in reversed(x.shape):
        result.append(index % length)
        index = torch.div(index, length, rounding_mode="trunc")
    return torch.where((iota < counts[-1]).unsqueeze(1), torch.stack(result[::-1], 1), fill_value)


@decomposes(aten.scatter_add.default)
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Add booleans as eager, by a logical or; torch-mlir adds modulo 2."""
    if x.dtype != torch.bool:
        return NotImplemented
    return torch.scatter_add(x.int(), dim, index, src.int()) != 0


REDUCTION_NAMES = {"add": "sum", "multiply": "prod"}
"""The reductions of `scatter` by the names that `scatter_reduce` has for them."""


@decomposes(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_with_reduction(x: Tensor, dim: int, index: Tensor, src: Operand, *, reduce: str) -> Tensor:
    """Return `Tensor.scatter` with a reduction, add or multiply."""
    source = src if isinstance(src, Tensor) else torch.full(index.shape, src, dtype=x.dtype, device=x.device)
    return torch.scatter_reduce(x, dim, index, source, REDUCTION_NAMES[reduce])


@decomposes(aten.index_reduce.default)
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    along = [-1 if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    return torch.scatter_reduce(
        x, dim, index.view(along).expand(source.shape), source, reduce, include_self=include_self
    )


@decomposes(aten.scatter_reduce.two)
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return `Tensor.scatter_reduce`, of booleans in int32, integer means rounded down; torch-mlir uses floats."""
    if x.dtype == torch.bool:
        return torch.scatter_reduce(x.int(), dim, index, src.int(), reduce, include_self=include_self) != 0
    if reduce != "mean" or x.is_floating_point() or x.is_complex():
        return NotImplemented
    total = torch.scatter_reduce(x, dim, index, src, "sum", include_self=include_self)
    count = (torch.ones_like if include_self else torch.zeros_like)(x, dtype=torch.int64)
    count = count.scatter_add(dim, index, torch.ones_like(index))
    mean = torch.div(total, torch.clamp(count, min=1).to(x.dtype), rounding_mode="floor")
    return torch.where(count == 0, x, mean)


@decomposes(aten.diagonal_scatter.default)
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    order = [axis for axis in range(x.dim()) if axis not in (dim1 % x.dim(), dim2 % x.dim())]
    order += [dim1 % x.dim(), dim2 % x.dim()]
    rows = torch.arange(src.shape[-1], device=x.device)
    indices = [None] * (x.dim() - 2) + [rows + max(-offset, 0), rows + max(offset, 0)]
    result = aten.index_put.default(x.permute(order), indices, src)
    return result.permute([order.index(axis) for axis in range(x.dim())])
