"""Max pools to a size that is given: windows of several lengths, which torch-mlir has in part, and wrong for NaN.

The elements of each window become an axis of their own, as long as the longest window, with minus infinity where a
window is shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
Tensor = torch.Tensor


def adaptively_pooled(operator: Any, rank: int) -> Callable[..., tuple[Tensor, Tensor]]:
    """Along the last `rank` axes; `operator` pools with windows of one size."""

    def pool(x: Tensor, wanted: Sequence[int]) -> tuple[Tensor, Tensor]:
        if x.dim() == rank + 1:
            values, places = pool(x.unsqueeze(0), wanted)
            return values.squeeze(0), places.squeeze(0)
        sizes = x.shape[2:]
        if all(isinstance(size, int) and size and size % count == 0 for size, count in zip(sizes, wanted, strict=True)):
            window = [size // count for size, count in zip(sizes, wanted, strict=True)]
            return operator(x, window, window)
        elements, places = _elements(x, wanted)
        which = _first_largest(elements)
        return torch.amax(elements, -1), places.expand(elements.shape).gather(-1, which).squeeze(-1)

    return pool


def _elements(x: Tensor, wanted: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The elements of each window as a last axis, and their places among all positions."""
    rank = len(wanted)
    places = torch.zeros([1] * x.dim(), dtype=torch.int64, device=x.device)
    for number, count in enumerate(wanted):
        axis, size = 2 + 2 * number, x.shape[2 + 2 * number]
        at, inside = _windows(size, count, x.device)
        along = [*[1] * axis, *at.shape, *[1] * (x.dim() - axis - 1)]
        x = x.index_select(axis, at.flatten()).view([*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]])
        x = torch.where(inside.view(along), x, float("-inf"))
        places = places.unsqueeze(axis) * size + at.view(along)
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]
    return _last_joined(x.permute(order), rank), _last_joined(places.permute(order), rank)


def _last_joined(x: Tensor, count: int) -> Tensor:
    return torch.ops.prims.collapse.default(x, x.dim() - count, x.dim() - 1) if count > 1 else x


def _windows(size: Any, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """For each of `count` windows the positions along an axis, and which of them are inside of it."""
    longest = (size + count - 1) // count + 1
    number = torch.arange(count, device=device).unsqueeze(1)
    start = torch.div(number * size, count, rounding_mode="trunc")
    end = torch.div((number + 1) * size + (count - 1), count, rounding_mode="trunc")
    at = start + torch.arange(longest, device=device)
    return torch.minimum(at, torch.full_like(at, size - 1)), at < end


def _first_largest(elements: Tensor) -> Tensor:
    """Where along the last axis the first largest element is; where NaN are among them, the last NaN."""
    count = elements.shape[-1]
    number = torch.arange(count, dtype=torch.int32, device=elements.device)
    is_largest = elements == torch.amax(elements, -1, True)
    rank = torch.where(is_largest, torch.neg(number) + count, torch.zeros_like(number))
    return torch.argmax(torch.where(torch.isnan(elements), number + (count + 1), rank), -1, True)


decomposes(aten.adaptive_max_pool2d.default)(adaptively_pooled(aten.max_pool2d_with_indices.default, 2))
decomposes(aten.adaptive_max_pool3d.default)(adaptively_pooled(aten.max_pool3d_with_indices.default, 3))
