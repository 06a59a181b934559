"""How often each integer occurs, in as many places as the largest one asks for; and numbers, each as often as told.

The size of the result is known to the run alone, and nothing bounds it: it is cut from an array of `MOST` places. More
of them are refused when the kernel runs.
"""

from __future__ import annotations

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
MOST = 1 << 16


@decomposes(aten.bincount.default)
def counted(x: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> torch.Tensor:
    """`torch.bincount`"""
    if not x.shape[0]:
        return torch.zeros(minlength, dtype=torch.int64 if weights is None else torch.float64, device=x.device)
    places = max(MOST, minlength)
    values = x.long()
    length = torch.clamp(torch.amax(values) + 1, min=minlength).item()
    aten._assert_scalar(torch.amin(values).item() >= 0, "bincount counts numbers that are not negative")
    aten._assert_scalar(length <= places, f"bincount counts numbers below {MOST} here, or below minlength")
    torch._check(length >= 0)
    torch._check(length <= places)
    kind = torch.int64 if weights is None else torch.float32 if weights.dtype == torch.float32 else torch.float64
    each = torch.ones_like(values) if weights is None else weights.to(kind)
    return torch.zeros(places, dtype=kind, device=x.device).scatter_add(0, values, each)[:length]


@decomposes(aten.repeat_interleave.Tensor)
def repeated(repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    """The places of `repeats`, each as often as its element says, of which `torch.repeat_interleave` reads."""
    kind, repeats = repeats.dtype, repeats.long()
    ends = torch.cumsum(repeats, 0)
    if output_size is not None:
        is_so = (repeats >= 0).all() & (repeats.sum() == output_size)
        aten._assert_async.msg(is_so, "repeat_interleave takes repeats that add up to output_size, none negative")
        return torch.searchsorted(ends, torch.arange(output_size, device=repeats.device), right=True).to(kind)
    if not repeats.shape[0]:
        return torch.zeros_like(repeats, dtype=kind)
    length = repeats.sum().item()
    aten._assert_scalar(torch.amin(repeats).item() >= 0, "repeat_interleave takes repeats that are not negative")
    aten._assert_scalar(length <= MOST, f"repeat_interleave gives up to {MOST} elements here without output_size")
    torch._check(length >= 0)
    torch._check(length <= MOST)
    marks = torch.zeros(MOST + 1, dtype=torch.int64, device=repeats.device)
    marks = marks.scatter_add(0, torch.clamp(ends, 0, MOST), torch.ones_like(ends))
    return torch.cumsum(marks, 0)[:length].to(kind)
