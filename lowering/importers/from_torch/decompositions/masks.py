"""Masks among indices: as the positions where they are true, of which there are as many as a run has.

Reading through a mask gives a tensor whose size only a run knows. Writing one value through it gives none.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
Indices = Sequence[torch.Tensor | None]


def has_masks(indices: Indices) -> bool:
    """Whether one of them is a mask."""
    return any(each is not None and each.dtype == torch.bool and each.dim() for each in indices)


def read(x: torch.Tensor, indices: Indices) -> torch.Tensor:
    """``x[indices]``, where masks are among these."""
    if (only := _only(indices)) is None:
        return aten.index.Tensor(x, _as_positions(indices))
    first, mask = only
    return aten.index.Tensor(_joined(x, first, mask.dim()), [*[None] * first, _places(mask)])


def write(x: torch.Tensor, indices: Indices, values: torch.Tensor, accumulate: bool) -> torch.Tensor:
    """`x` with `values` put, or added, there."""
    if (only := _only(indices)) is None:
        return aten.index_put.default(x, _as_positions(indices), values, accumulate)
    first, mask = only
    behind = x.dim() - first - mask.dim()
    along = values.dim() - behind - 1
    if along < 0 or (isinstance(values.shape[along], int) and values.shape[along] == 1):
        # The same for all places, of which there may be none: torch-mlir would write one.
        truth = mask.view([*mask.shape, *[1] * behind])
        if along >= 0:
            values = values.view([*values.shape[:along], *[1] * mask.dim(), *values.shape[along + 1 :]])
        values = values.to(x.dtype)
        return torch.where(truth, x + values if accumulate else values, x)
    flat = _joined(x, first, mask.dim())
    return aten.index_put.default(flat, [*[None] * first, _places(mask)], values, accumulate).view(x.shape)


@decomposes(aten.masked_select.default)
def selected(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The elements of `x` where the mask is true."""
    x, mask = torch.broadcast_tensors(x, mask)
    return read(x, [mask])


@decomposes(aten.masked_scatter.default)
def scattered(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """The elements of `source` in turn where the mask is true; torch-mlir has this of one shape."""
    if x.shape == mask.shape:
        return NotImplemented
    x, mask = torch.broadcast_tensors(x, mask)
    return aten.masked_scatter.default(x.contiguous(), mask.contiguous(), source)


def _only(indices: Indices) -> tuple[int, torch.Tensor] | None:
    """A mask beside which is no other index, and its first axis."""
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    return given[0] if len(given) == 1 else None


def _joined(x: torch.Tensor, first: int, count: int) -> torch.Tensor:
    """`x` with `count` of its axes as one."""
    return x if count == 1 else torch.ops.prims.collapse.default(x, first, first + count - 1)


def _places(mask: torch.Tensor) -> torch.Tensor:
    return torch.nonzero(_joined(mask, 0, mask.dim()))[:, 0]


def _as_positions(indices: Indices) -> list[torch.Tensor | None]:
    """The same indices, a mask of several axes as one index for each of them."""
    found: list[torch.Tensor | None] = []
    for each in indices:
        if each is None or each.dtype != torch.bool or not each.dim():
            found.append(each)
        else:
            found += columns(each)
    return found


@decomposes(aten.nonzero_numpy.default, aten.where.default)
def columns(mask: torch.Tensor) -> list[torch.Tensor]:
    """`torch.nonzero` by axes, all of one list of positions, so that their sizes are one."""
    if mask.dim() < 2:
        return [torch.nonzero(torch.atleast_1d(mask))[:, 0]]
    place = _places(mask)
    found = []
    for size in reversed(mask.shape):
        found.append(place % size)
        place = torch.div(place, size, rounding_mode="trunc")
    return found[::-1]


@decomposes(aten.nonzero.default)
def places(x: torch.Tensor) -> torch.Tensor:
    """`torch.nonzero` of a number, of complex ones, or of no elements."""
    if x.is_complex():
        return torch.nonzero(x != 0)
    if not x.dim():
        return torch.nonzero(x.view(1))[:, :0]
    if any(type(size) is int and size == 0 for size in x.shape):
        return torch.zeros((0, x.dim()), dtype=torch.int64, device=x.device)
    return NotImplemented


@decomposes(aten.nonzero_static.default)
def first_places(x: torch.Tensor, *, size: int, fill_value: int = -1) -> torch.Tensor:
    """`torch.nonzero_static`: as many rows as are asked for."""
    if any(type(each) is not int or each == 0 for each in (*x.shape, size)) or not x.dim():
        return NotImplemented
    counts = torch.cumsum((x != 0).reshape(-1).long(), 0)
    number = torch.arange(size, device=x.device)
    place, found = torch.searchsorted(counts, number + 1), []
    for length in reversed(x.shape):
        found.append(place % length)
        place = torch.div(place, length, rounding_mode="trunc")
    return torch.where((number < counts[-1]).unsqueeze(1), torch.stack(found[::-1], 1), fill_value)
