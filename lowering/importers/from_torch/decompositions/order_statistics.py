"""What is said of elements in their order: medians, modes, histograms, extremes so far, and elements without repeats.

torch-mlir sorts with NaN last, as eager does. Indices of equal elements are eager's where it promises any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
Tensor = torch.Tensor
LONGEST = 1 << 12
"""Elements of a row whose mode is found by comparing each with each."""


@decomposes(aten.median.dim)
def median_along(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower median; of a row with NaN that is NaN."""
    if not x.dim() or not isinstance(x.shape[dim], int) or not x.shape[dim]:
        return NotImplemented
    values, places = torch.sort(x, dim)
    middle = (x.shape[dim] - 1) // 2
    value, place = values.narrow(dim, middle, 1), places.narrow(dim, middle, 1)
    if x.is_floating_point():
        is_nan = torch.isnan(values.narrow(dim, x.shape[dim] - 1, 1))
        value = torch.where(is_nan, float("nan"), value)
        place = torch.where(is_nan, torch.isnan(x).int().argmax(dim, True), place)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@decomposes(aten.nanmedian.dim)
def median_without_nan_along(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower median of what is no NaN, where there is any."""
    if not x.is_floating_point():
        return median_along(x, dim, keepdim)
    if not x.dim() or not isinstance(x.shape[dim], int) or not x.shape[dim]:
        return NotImplemented
    values, places = torch.sort(x, dim)
    count = torch.logical_not(torch.isnan(x)).long().sum(dim, True)
    middle = torch.clamp(torch.div(count - 1, 2, rounding_mode="trunc"), min=0)
    value, place = values.gather(dim, middle), places.gather(dim, middle)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@decomposes(aten.kthvalue.default)
def smallest_but(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """`torch.kthvalue`; torch-mlir's loses elements beside NaN."""
    if not x.dim() or not isinstance(x.shape[dim], int):
        return NotImplemented
    value, place = (each.narrow(dim, k - 1, 1) for each in torch.sort(x, dim))
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def of_all(along: Callable[..., Any]) -> Callable[[Tensor], Any]:
    """The same of all elements, without a place."""

    def apply(x: Tensor) -> Any:
        found = along(x.flatten(), 0)
        return found if found is NotImplemented else found[0]

    return apply


@decomposes(aten.mode.default)
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent elements, and where it is last."""
    if not x.dim() or not isinstance(x.shape[dim], int) or not 0 < x.shape[dim] <= LONGEST:
        return NotImplemented
    rows = x.movedim(dim, -1)
    is_same = rows.unsqueeze(-1) == rows.unsqueeze(-2)
    counts = is_same.long().sum(-1)
    is_most = counts == counts.amax(-1, True)
    order = torch.sort(rows, -1)[1]
    first = is_most.gather(-1, order).long().argmax(-1, True)
    value = rows.gather(-1, order.gather(-1, first))
    number = torch.arange(x.shape[dim], device=x.device)
    place = torch.where(rows == value, number, -1).amax(-1, True)
    value, place = value.movedim(-1, dim), place.movedim(-1, dim)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@decomposes(aten.histc.default)
def histogram(x: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:  # noqa: A002 - torch's names
    """How many elements lie in each of `bins` ranges of one length; all of them, where no limits are given."""
    if x.numel() == 0:
        return torch.zeros(bins, dtype=x.dtype, device=x.device)
    low, high = (torch.full((), float(each), dtype=x.dtype, device=x.device) for each in (min, max))
    if min == max:
        low, high = x.amin(), x.amax()
        is_one = low == high
        low, high = torch.where(is_one, low - 1, low), torch.where(is_one, high + 1, high)
    number = torch.arange(bins + 1, device=x.device)
    step = (high - low) / bins
    edges = torch.where(number < (bins + 1) // 2, low + step * number, high - step * (bins - number))
    flat = x.flatten().unsqueeze(-1)
    place = torch.clamp((flat >= edges).long().sum(-1) - 1, max=bins - 1)
    inside = (flat >= low) & (flat <= high)
    return ((place.unsqueeze(-1) == number[:bins]) & inside).long().sum(0).to(x.dtype)


def extreme_so_far(is_beyond: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """`cummax` or `cummin`, and the last place of each; NaN is beyond all numbers."""

    def scan(x: Tensor, dim: int) -> Any:
        if not x.dim():
            return x.clone(), torch.zeros_like(x, dtype=torch.int64)
        count = x.shape[dim]
        if not isinstance(count, int):
            return NotImplemented
        shape = [count if axis == dim % x.dim() else 1 for axis in range(x.dim())]
        places = torch.arange(count, device=x.device).view(shape).expand(x.shape)
        step = 1
        while step < count:
            x, places = _joined(x, places, dim, step)
            step *= 2
        return x, places.clone()

    def _joined(x: Tensor, places: Tensor, dim: int, step: int) -> tuple[Tensor, Tensor]:
        left = x.shape[dim] - step
        before, after = x.narrow(dim, 0, left), x.narrow(dim, step, left)
        is_later = is_beyond(after, before)
        if x.is_floating_point():
            is_later = torch.isnan(after) | (torch.logical_not(torch.isnan(before)) & is_later)
        values = torch.where(is_later, after, before)
        found = torch.where(is_later, places.narrow(dim, step, left), places.narrow(dim, 0, left))
        return (
            torch.cat([x.narrow(dim, 0, step), values], dim),
            torch.cat([places.narrow(dim, 0, step), found], dim),
        )

    return scan


@decomposes(aten._unique2.default)
def unique(x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:  # noqa: A002
    """The elements without repeats, in order."""
    if x.numel() == 0:
        return NotImplemented
    values, order = torch.sort(x.flatten())
    found, inverse, counts = _without_repeats(values, return_inverse, return_counts)
    if return_inverse:
        inverse = torch.zeros_like(order).scatter(0, order, inverse).view(x.shape)
    return found, inverse, counts


@decomposes(aten.unique_consecutive.default)
def without_repeats(x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
    """`torch.unique_consecutive`"""
    if x.numel() == 0 or dim is not None:
        return NotImplemented
    found, inverse, counts = _without_repeats(x.flatten(), return_inverse, return_counts)
    return found, inverse.view(x.shape) if return_inverse else inverse, counts


def _without_repeats(x: Tensor, return_inverse: bool, return_counts: bool) -> tuple[Tensor, Tensor, Tensor]:
    is_new = torch.cat([torch.ones(1, dtype=torch.bool, device=x.device), x[1:] != x[:-1]])
    places = torch.nonzero(is_new)[:, 0]
    none = torch.empty(0, dtype=torch.int64, device=x.device)
    number = is_new.long().cumsum(0) - 1
    inverse = number if return_inverse else none
    if not return_counts:
        return x[places], inverse, none
    # One size that only a run knows, and not its difference with another one.
    counts = torch.zeros_like(number).scatter_add(0, number, torch.ones_like(number))
    return x[places], inverse, counts[number[places]]


def truth_of_bytes(operator: Any) -> Callable[..., Any]:
    """`any` or `all`, whose result of uint8 is uint8."""

    def apply(x: Tensor, *arguments: Any, **options: Any) -> Any:
        if x.dtype != torch.uint8:
            return NotImplemented
        return operator(x != 0, *arguments, **options).to(torch.uint8)

    return apply


decomposes(aten.median.default)(of_all(median_along))
decomposes(aten.nanmedian.default)(of_all(median_without_nan_along))
decomposes(aten.cummax.default)(extreme_so_far(torch.ge))
decomposes(aten.cummin.default)(extreme_so_far(torch.le))
for _operator in (aten.any.default, aten.any.dim, aten.all.default, aten.all.dim):
    decomposes(_operator)(truth_of_bytes(_operator))
