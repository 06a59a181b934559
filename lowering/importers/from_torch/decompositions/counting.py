"""Decompose counts and reductions of segments: bincount, histograms, repeat_interleave and segment_reduce.

Results of data-dependent, unbounded size are slices of a tensor of `LARGEST_RESULT` elements; a larger result fails a
run-time assertion.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Results, Scalar, decomposes

aten = torch.ops.aten
Tensor = torch.Tensor


LARGEST_RESULT = 1 << 16


@decomposes(aten.bincount.default)
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Return how often each integer occurs (`torch.bincount`)."""
    if not x.shape[0]:
        return torch.zeros(minlength, dtype=torch.int64 if weights is None else torch.float64, device=x.device)
    bound = max(LARGEST_RESULT, minlength)
    values = x.long()
    length = torch.clamp(torch.amax(values) + 1, min=minlength).item()
    aten._assert_scalar(torch.amin(values).item() >= 0, "bincount counts numbers that are not negative")
    aten._assert_scalar(length <= bound, f"bincount counts numbers below {LARGEST_RESULT} here, or below minlength")
    torch._check(length >= 0)
    torch._check(length <= bound)
    kind = torch.int64 if weights is None else torch.float32 if weights.dtype == torch.float32 else torch.float64
    element = torch.ones_like(values) if weights is None else weights.to(kind)
    return torch.zeros(bound, dtype=kind, device=x.device).scatter_add(0, values, element)[:length]


@decomposes(aten.repeat_interleave.Tensor)
def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """Repeat each index of `repeats` as often as its element says."""
    kind, repeats = repeats.dtype, repeats.long()
    ends = torch.cumsum(repeats, 0)
    if output_size is not None:
        is_valid = (repeats >= 0).all() & (repeats.sum() == output_size)
        aten._assert_async.msg(is_valid, "repeat_interleave takes repeats that add up to output_size, none negative")
        return torch.searchsorted(ends, torch.arange(output_size, device=repeats.device), right=True).to(kind)
    if not repeats.shape[0]:
        return torch.zeros_like(repeats, dtype=kind)
    length = repeats.sum().item()
    aten._assert_scalar(torch.amin(repeats).item() >= 0, "repeat_interleave takes repeats that are not negative")
    aten._assert_scalar(
        length <= LARGEST_RESULT, f"repeat_interleave gives up to {LARGEST_RESULT} elements here without output_size"
    )
    torch._check(length >= 0)
    torch._check(length <= LARGEST_RESULT)
    marks = torch.zeros(LARGEST_RESULT + 1, dtype=torch.int64, device=repeats.device)
    marks = marks.scatter_add(0, torch.clamp(ends, 0, LARGEST_RESULT), torch.ones_like(ends))
    return torch.cumsum(marks, 0)[:length].to(kind)


@decomposes(aten.histc.default)
def histc(x: Tensor, bins: int = 100, min: Scalar = 0, max: Scalar = 0) -> Results:  # noqa: A002 - torch's names
    """Count elements in `bins` equal ranges from `min` to `max`, or over the elements' range where these are equal."""
    if x.numel() == 0:
        return torch.zeros(bins, dtype=x.dtype, device=x.device)
    low, high = (torch.full((), float(operand), dtype=x.dtype, device=x.device) for operand in (min, max))
    if min == max:
        low, high = x.amin(), x.amax()
    return _in_bins(x, _edges(low, high, bins, 1)).long().sum(0).to(x.dtype)


@decomposes(aten.histogram.bin_ct)
def histogram(
    x: Tensor,
    bins: int = 100,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,  # noqa: A002
) -> tuple[Tensor, Tensor]:
    """Return the counts, or sums of weights, in `bins` equal ranges, and the edges of the ranges."""
    if range is not None:
        low, high = (torch.full((), float(each), dtype=x.dtype, device=x.device) for each in range)
    elif x.numel() == 0:
        low, high = (torch.full((), each, dtype=x.dtype, device=x.device) for each in (0.0, 1.0))
    else:
        low, high = x.amin(), x.amax()
    return histogram_of_edges(x, _edges(low, high, bins, 0.5), weight=weight, density=density)


@decomposes(aten.histogram.bins_tensor)
def histogram_of_edges(
    x: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the counts, or sums of weights, between neighbouring edges, of which the last is inside; and the edges."""
    weights = torch.ones_like(x) if weight is None else weight
    sums = torch.where(_in_bins(x, bins), weights.reshape(-1, 1), 0.0).sum(0)
    if density:
        sums = sums / sums.sum() / (bins[1:] - bins[:-1])
    return sums, bins.clone()


def _edges(low: Tensor, high: Tensor, bins: int, margin: float) -> Tensor:
    """Return the edges of `bins` equal ranges from `low` to `high`, or around them where these are equal."""
    is_one = low == high
    low, high = torch.where(is_one, low - margin, low), torch.where(is_one, high + margin, high)
    iota = torch.arange(bins + 1, device=low.device)
    step = (high - low) / bins
    return torch.where(iota < (bins + 1) // 2, low + step * iota, high - step * (bins - iota))


def _in_bins(x: Tensor, edges: Tensor) -> Tensor:
    """Return, for each element and each range between neighbouring edges, whether the range has the element."""
    flat, count = x.reshape(-1, 1), edges.shape[0] - 1
    index = torch.clamp((flat >= edges).long().sum(1, True) - 1, max=count - 1)
    is_inside = (flat >= edges[0]) & (flat <= edges[-1])
    return (index == torch.arange(count, device=x.device)) & is_inside


_START = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}


@decomposes(aten.segment_reduce.default)
def segment_reduce(
    x: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Results:
    """Return a reduction of each of the segments along `axis`, which follow each other."""
    if indices is not None or (lengths is None and offsets is None):
        return NotImplemented
    if offsets is not None:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    else:
        assert lengths is not None
        ends = torch.cumsum(lengths, -1)
        starts = ends - lengths
        if not unsafe:
            is_valid = (lengths >= 0).all() & (ends[..., -1] == x.shape[axis]).all()
            aten._assert_async.msg(is_valid, "segment_reduce takes lengths that add up to the size of the axis")
    position = torch.arange(x.shape[axis], device=x.device)
    is_inside = (position >= starts.unsqueeze(-1)) & (position < ends.unsqueeze(-1))
    is_inside = is_inside.view(*is_inside.shape, *[1] * (x.dim() - axis - 1))
    start = _START[reduce] if initial is None else initial
    elements = torch.where(is_inside, x.unsqueeze(axis), _START[reduce])
    if reduce in ("max", "min"):
        extreme, join = (torch.amax, torch.maximum) if reduce == "max" else (torch.amin, torch.minimum)
        return join(extreme(elements, axis + 1), torch.full((), start, dtype=x.dtype, device=x.device))
    if reduce == "prod":
        return torch.prod(elements, axis + 1) * start
    total = torch.sum(elements, axis + 1) + start
    if reduce == "sum":
        return total
    count = is_inside.long().sum(axis + 1)
    mean = torch.where(count > 0, total / torch.clamp(count, min=1).to(x.dtype), total)
    return mean if initial is not None else torch.where(count > 0, mean, math.nan)
