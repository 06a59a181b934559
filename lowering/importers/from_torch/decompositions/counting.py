"""Decompose counts: bincount, histc and repeat_interleave.

Results of data-dependent, unbounded size are slices of a tensor of `LARGEST_RESULT` elements; a larger result fails a
run-time assertion.
"""

from __future__ import annotations

from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import decomposes

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
def histc(x: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:  # noqa: A002 - torch's names
    """Count elements in `bins` equal ranges from `min` to `max`, or over the elements' range where these are equal."""
    if x.numel() == 0:
        return torch.zeros(bins, dtype=x.dtype, device=x.device)
    low, high = (torch.full((), float(operand), dtype=x.dtype, device=x.device) for operand in (min, max))
    if min == max:
        low, high = x.amin(), x.amax()
        is_one = low == high
        low, high = torch.where(is_one, low - 1, low), torch.where(is_one, high + 1, high)
    iota = torch.arange(bins + 1, device=x.device)
    step = (high - low) / bins
    edges = torch.where(iota < (bins + 1) // 2, low + step * iota, high - step * (bins - iota))
    flat = x.flatten().unsqueeze(-1)
    index = torch.clamp((flat >= edges).long().sum(-1) - 1, max=bins - 1)
    in_range = (flat >= low) & (flat <= high)
    return ((index.unsqueeze(-1) == iota[:bins]) & in_range).long().sum(0).to(x.dtype)
