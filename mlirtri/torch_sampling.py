"""Samples of images at places between pixels, where rounding decides which pixel it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp.decompositions import grid_sampler_2d

NEAREST, ZEROS, BORDER = 1, 0, 1
"""torch's numbers of a mode and of two paddings."""


def sampled(x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, aligned: bool) -> torch.Tensor:
    """torch's own spelling in simpler operators rounds the places of a grid otherwise than eager."""
    if mode != NEAREST or padding not in (ZEROS, BORDER):
        return grid_sampler_2d(x, grid, mode, padding, aligned)
    batch, channels, height, width = x.shape
    column, column_is_inside = _pixel(grid[..., 0], width, padding, aligned)
    row, row_is_inside = _pixel(grid[..., 1], height, padding, aligned)
    is_inside = (column_is_inside & row_is_inside).unsqueeze(1)
    place = (row * width + column).flatten(1).unsqueeze(1)
    found = x.flatten(2).gather(2, place.expand(batch, channels, place.shape[2]))
    found = found.view(batch, channels, grid.shape[1], grid.shape[2])
    return torch.where(is_inside, found, torch.zeros((), dtype=x.dtype, device=x.device))


def _pixel(at: torch.Tensor, size: Any, padding: int, aligned: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The pixel nearest to a place from -1 to 1 along an axis, and whether there is one; else pixel 0."""
    place = (at + 1) * (size - 1) * 0.5 if aligned else ((at + 1) * size - 1) * 0.5
    if padding == BORDER:
        last = torch.full((), size - 1, dtype=at.dtype, device=at.device)
        place = torch.minimum(torch.clamp(place, min=0), last)
    place = torch.round(place)
    is_inside = (place >= 0) & (place < size)
    return torch.where(is_inside, place, torch.zeros((), dtype=at.dtype, device=at.device)).long(), is_inside


SAMPLES: dict[Any, Callable[..., Any]] = {torch.ops.aten.grid_sampler_2d.default: sampled}
