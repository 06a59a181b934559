"""Samples of images at places between pixels, where rounding decides which pixel it is."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch._decomp.decompositions import grid_sampler_2d

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

NEAREST, ZEROS, BORDER = 1, 0, 1
"""torch's numbers of a mode and of two paddings."""


@decomposes(torch.ops.aten.grid_sampler_2d.default)
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


@decomposes(torch.ops.aten.grid_sampler_3d.default)
def sampled_in_space(x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, aligned: bool) -> torch.Tensor:
    """`grid_sampler_3d`: of the nearest element, or of the eight around a place, by their distances."""
    sizes = x.shape[2:]
    places = [_place(grid[..., 2 - axis], sizes[axis], padding, aligned) for axis in range(3)]
    if mode == NEAREST:
        return _element(x, [torch.round(place) for place in places])
    firsts = [torch.floor(place) for place in places]
    total = None
    for corner in product((0, 1), repeat=3):
        at = [first + step for first, step in zip(firsts, corner, strict=True)]
        parts = [
            place - first if step else first + 1 - place
            for place, first, step in zip(places, firsts, corner, strict=True)
        ]
        found = _element(x, at) * (parts[2] * parts[1] * parts[0]).unsqueeze(1)
        total = found if total is None else total + found
    return total


def _element(x: torch.Tensor, at: list[torch.Tensor]) -> torch.Tensor:
    """Of all channels the element at whole places, 0 outside of the image."""
    number, is_inside = torch.zeros_like(at[0]).long(), torch.ones_like(at[0], dtype=torch.bool)
    for place, size in zip(at, x.shape[2:], strict=True):
        inside = (place >= 0) & (place < size)
        number = number * size + torch.where(inside, place, 0.0).long()
        is_inside = is_inside & inside
    shape = (*x.shape[:2], *number.shape[1:])
    number = torch.where(is_inside, number, 0).flatten(1).unsqueeze(1).expand(*x.shape[:2], -1)
    return torch.where(is_inside.unsqueeze(1), x.flatten(2).gather(2, number).view(shape), 0.0).to(x.dtype)


def _place(at: torch.Tensor, size: Any, padding: int, aligned: bool) -> torch.Tensor:
    """The place along an axis of what is from -1 to 1."""
    place = (at + 1) / 2 * (size - 1) if aligned else ((at + 1) * size - 1) / 2
    if padding == ZEROS:
        return place
    if padding != BORDER:
        low, span = (0.0, size - 1.0) if aligned else (-0.5, float(size))
        if span == 0:
            return torch.zeros_like(place)
        away = torch.abs(place - low)
        extra, is_even = torch.fmod(away, span), torch.remainder(torch.floor(away / span), 2) == 0
        place = torch.where(is_even, extra + low, span - extra + low)
    return torch.clamp(place, 0, size - 1)
