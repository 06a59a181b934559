"""Reads at several index tensors whose sizes are open, and pieces whose sizes are, which torch-mlir refuses.

Also what joins and views tensors without elements, which it refuses too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions import masks as torch_masks
from mlirtri.lowering.importers.from_torch.decompositions.masks import has_masks
from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
Tensor = torch.Tensor


@decomposes(aten.index.Tensor)
def indexed(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """torch-mlir takes 64-bit indices, and of open sizes one alone; and no masks."""
    if has_masks(indices):
        return torch_masks.read(x, indices)
    given = [each for each in indices if each is not None]
    if len(given) > 1 and any(isinstance(size, torch.SymInt) for each in given for size in each.shape):
        return _at_one_index(x, indices)
    if all(each.dtype == torch.int64 for each in given):
        return NotImplemented
    return aten.index.Tensor(x, [each if each is None else each.long() for each in indices])


def _at_one_index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """The indexed axes as one axis, read at one index."""
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    others = [axis for axis in range(x.dim()) if axis not in axes]
    # The axes of the indices stand where the indexed axes stood, or in front where these were apart.
    first = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    together = x.permute([*others[:first], *axes, *others[first:]])
    flat = torch.ops.prims.collapse.default(together, first, first + len(axes) - 1)
    return aten.index.Tensor(flat, [*[None] * first, _one_index(x, axes, indices)])


def _one_index(x: Tensor, axes: Sequence[int], indices: Sequence[Tensor | None]) -> Tensor:
    """The place along these axes as one."""
    place: Any = 0
    for axis in axes:
        size, index = x.shape[axis], indices[axis].long()
        place = place * size + torch.where(index < 0, index + size, index)
    return place


def put_at_one_index(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor | None:
    """The indexed axes, which are neighbours, as one axis, written at one index; None where no size is open."""
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    sizes = [size for axis in axes for size in indices[axis].shape]
    if len(axes) < 2 or all(isinstance(size, int) for size in sizes):
        return None
    flat = torch.ops.prims.collapse.default(x, axes[0], axes[-1])
    place = [*[None] * axes[0], _one_index(x, axes, indices)]
    return aten.index_put.default(flat, place, values, accumulate).view(x.shape)


def settled_values(x: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> Tensor | None:
    """As many values as places, where only a run counts these: torch-mlir writes one where there are none; or None."""
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    shape = torch.broadcast_shapes(*[indices[axis].shape for axis in axes])
    if _has_no_elements(shape):
        return None
    if all(isinstance(size, int) for size in shape):
        return values
    wanted = [*x.shape[: axes[0]], *shape, *x.shape[axes[-1] + 1 :]]
    missing = len(wanted) - values.dim()
    places = range(axes[0], axes[0] + len(shape))
    is_one = any(at < missing or (type(size := values.shape[at - missing]) is int and size == 1) for at in places)
    return values.expand(wanted).contiguous() if is_one else values


@decomposes(aten.put.default)
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """At places among all elements."""
    return aten.index_put.default(x.flatten(), [index.flatten()], source.flatten(), accumulate).view(x.shape)


@decomposes(aten.split_with_sizes.default)
def pieces(x: Tensor, sizes: Sequence[Any], dim: int = 0) -> Any:
    """One after the other."""
    if all(isinstance(size, int) for size in sizes):
        return NotImplemented
    found, start = [], 0
    for size in sizes:
        found.append(aten.slice.Tensor(x, dim, start, start + size))
        start = start + size
    return found


@decomposes(aten.cat.default)
def joined(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """One behind the other; here where nothing comes of it, or numbers of several types."""
    kept = [each for each in tensors if each.dim() != 1 or not _has_no_elements(each.shape)] or tensors[:1]
    shape = list(kept[0].shape)
    shape[dim] = sum(each.shape[dim] for each in kept)
    kind = tensors[0].dtype
    for each in tensors[1:]:
        kind = torch.promote_types(kind, each.dtype)
    if _has_no_elements(shape):
        return tensors[0].new_zeros(shape, dtype=kind)
    if all(each.dtype == kind for each in tensors):
        return NotImplemented
    return aten.cat.default([each.to(kind) for each in tensors], dim)


@decomposes(aten.view.default)
def viewed(x: Tensor, size: Sequence[Any]) -> Tensor:
    """In another shape; here where there are no elements."""
    return x.new_zeros([0 if each == -1 else each for each in size]) if _has_no_elements(x.shape) else NotImplemented


@decomposes(aten.repeat.default)
def repeated(x: Tensor, repeats: Sequence[Any]) -> Tensor:
    """Side by side; here where there are no elements."""
    missing = len(repeats) - x.dim()
    if not _has_no_elements([*x.shape, *repeats]):
        return NotImplemented
    return x.new_zeros([each * size for each, size in zip(repeats, [1] * missing + list(x.shape), strict=True)])


def _has_no_elements(shape: Sequence[Any]) -> bool:
    return all(isinstance(size, int) for size in shape) and 0 in shape
