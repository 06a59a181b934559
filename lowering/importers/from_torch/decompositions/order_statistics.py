"""Decompose argmax/argmin, medians, modes, cumulative extrema, and searches.

Indices of equal elements are eager's where eager specifies them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Operand, Operator, Results, Scalar, decomposes

aten = torch.ops.aten
Tensor = torch.Tensor


def arg_extremum(best: Operator) -> Callable[..., Tensor]:
    """Return the rule of `argmax` or `argmin`, given `amax` or `amin`: the first NaN, else the first extremum."""

    def index(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        if not x.dtype.is_floating_point or x.dim() == 0:
            return NotImplemented
        flat, axis = (x.flatten(), 0) if dim is None else (x, dim)
        is_best = (flat == best(flat, axis, True)) | torch.isnan(flat)
        result = torch.argmax(is_best.to(torch.int32), axis, keepdim and dim is not None)
        return result.view([1] * x.dim()) if keepdim and dim is None else result

    return index


def extremum_with_index(best: Operator, index: Callable[..., Tensor]) -> Callable[..., Results]:
    """Return the rule of `max` or `min` along an axis."""

    def apply(x: Tensor, dim: int, keepdim: bool = False) -> Results:
        if not x.dtype.is_floating_point or x.dim() == 0:
            return NotImplemented
        return best(x, dim, keepdim), index(x, dim, keepdim)

    return apply


argmax, argmin = arg_extremum(torch.amax), arg_extremum(torch.amin)


LONGEST_MODE_ROW = 1 << 12
"""The longest row whose mode is found by comparing all pairs of elements."""


@decomposes(aten.topk.default)
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Results:  # noqa: A002
    """Return the largest or smallest elements in order, which is one of the orders that `sorted=False` allows."""
    return NotImplemented if sorted else torch.topk(x, k, dim, largest)


@decomposes(aten.median.dim)
def median(x: Tensor, dim: int = -1, keepdim: bool = False) -> Results:
    """Return the lower median and its index; NaN if any element is NaN."""
    if not x.dim() or not isinstance(x.shape[dim], int) or not x.shape[dim]:
        return NotImplemented
    values, indices = torch.sort(x, dim)
    middle = (x.shape[dim] - 1) // 2
    value, index = values.narrow(dim, middle, 1), indices.narrow(dim, middle, 1)
    if x.is_floating_point():
        is_nan = torch.isnan(values.narrow(dim, x.shape[dim] - 1, 1))
        value = torch.where(is_nan, float("nan"), value)
        index = torch.where(is_nan, torch.isnan(x).int().argmax(dim, True), index)
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


@decomposes(aten.nanmedian.dim)
def nanmedian(x: Tensor, dim: int = -1, keepdim: bool = False) -> Results:
    """Return the lower median of the elements that are not NaN, and its index."""
    if not x.is_floating_point():
        return median(x, dim, keepdim)
    if not x.dim() or not isinstance(x.shape[dim], int) or not x.shape[dim]:
        return NotImplemented
    values, indices = torch.sort(x, dim)
    count = torch.logical_not(torch.isnan(x)).long().sum(dim, True)
    middle = torch.clamp(torch.div(count - 1, 2, rounding_mode="trunc"), min=0)
    value, index = values.gather(dim, middle), indices.gather(dim, middle)
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


@decomposes(aten.kthvalue.default)
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Results:
    """Return the k-th smallest element and its index; torch-mlir's lowering loses elements next to NaN."""
    if not x.dim() or not isinstance(x.shape[dim], int):
        return NotImplemented
    value, index = (operand.narrow(dim, k - 1, 1) for operand in torch.sort(x, dim))
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


def over_all_elements(along: Callable[..., Any]) -> Callable[[Tensor], Any]:
    """Return the rule over all elements, without an index, given the one along an axis."""

    def apply(x: Tensor) -> Results:
        result = along(x.flatten(), 0)
        return result if result is NotImplemented else result[0]

    return apply


@decomposes(aten.mode.default)
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Results:
    """Return the smallest of the most frequent elements, and its last index."""
    if not x.dim() or not isinstance(x.shape[dim], int) or not 0 < x.shape[dim] <= LONGEST_MODE_ROW:
        return NotImplemented
    rows = x.movedim(dim, -1)
    is_same = rows.unsqueeze(-1) == rows.unsqueeze(-2)
    counts = is_same.long().sum(-1)
    is_most = counts == counts.amax(-1, True)
    order = torch.sort(rows, -1)[1]
    first = is_most.gather(-1, order).long().argmax(-1, True)
    value = rows.gather(-1, order.gather(-1, first))
    iota = torch.arange(x.shape[dim], device=x.device)
    index = torch.where(rows == value, iota, -1).amax(-1, True)
    value, index = value.movedim(-1, dim), index.movedim(-1, dim)
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


def cumulative_extremum(is_beyond: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Results]:
    """Return the rule of `cummax` or `cummin` with the last index; NaN beats all other elements."""

    def scan(x: Tensor, dim: int) -> Results:
        if not x.dim():
            return x.clone(), torch.zeros_like(x, dtype=torch.int64)
        count = x.shape[dim]
        if not isinstance(count, int):
            return NotImplemented
        shape = [count if axis == dim % x.dim() else 1 for axis in range(x.dim())]
        positions = torch.arange(count, device=x.device).view(shape).expand(x.shape)
        step = 1
        while step < count:
            x, positions = _joined(x, positions, dim, step)
            step *= 2
        return x, positions.clone()

    def _joined(x: Tensor, indices: Tensor, dim: int, step: int) -> tuple[Tensor, Tensor]:
        length = x.shape[dim] - step
        earlier, later = x.narrow(dim, 0, length), x.narrow(dim, step, length)
        is_later = is_beyond(later, earlier)
        if x.is_floating_point():
            is_later = torch.isnan(later) | (torch.logical_not(torch.isnan(earlier)) & is_later)
        values = torch.where(is_later, later, earlier)
        result = torch.where(is_later, indices.narrow(dim, step, length), indices.narrow(dim, 0, length))
        return (
            torch.cat([x.narrow(dim, 0, step), values], dim),
            torch.cat([indices.narrow(dim, 0, step), result], dim),
        )

    return scan


@decomposes(aten.searchsorted.Tensor)
def searchsorted(
    boundaries: Tensor,
    values: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return the number of boundaries below each value, in the whole tensor or its row; NaN sorts last."""
    boundaries = boundaries if sorter is None else boundaries.gather(-1, sorter)
    boundaries = boundaries if boundaries.dim() == 1 else boundaries.unsqueeze(-2)
    values = values.unsqueeze(-1)
    is_below = boundaries <= values if right or side == "right" else boundaries < values
    if values.is_floating_point():
        is_below = is_below | torch.isnan(values)
    return is_below.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


@decomposes(aten.searchsorted.Scalar)
def searchsorted_scalar(boundaries: Tensor, number: Scalar, **options: object) -> Tensor:
    kind = torch.result_type(boundaries, number)
    return searchsorted(boundaries, torch.full((), number, dtype=kind, device=boundaries.device), **options)


@decomposes(aten.bucketize.Tensor, aten.bucketize.Scalar)
def bucketize(values: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    search = searchsorted if isinstance(values, Tensor) else searchsorted_scalar
    return search(boundaries, values, out_int32=out_int32, right=right)


@decomposes(aten.sort.stable)
def sort_stable(x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Results:
    """Return torch-mlir's sort, whose lowering is stable."""
    return aten.sort.default(x, dim, descending)


decomposes(aten.argmax.default)(argmax)
decomposes(aten.argmin.default)(argmin)
decomposes(aten.max.dim)(extremum_with_index(torch.amax, argmax))
decomposes(aten.min.dim)(extremum_with_index(torch.amin, argmin))
decomposes(aten.median.default)(over_all_elements(median))
decomposes(aten.nanmedian.default)(over_all_elements(nanmedian))
decomposes(aten.cummax.default)(cumulative_extremum(torch.ge))
decomposes(aten.cummin.default)(cumulative_extremum(torch.le))
