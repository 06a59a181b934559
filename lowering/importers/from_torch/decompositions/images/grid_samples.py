"""Sampling of images and volumes at the coordinates of a grid.

torch's decomposition of grid samples rounds coordinates differently from eager.
"""

from __future__ import annotations

from functools import reduce
from itertools import product

import torch
from torch._decomp.decompositions import grid_sampler_2d

from mlirtri.lowering.importers.from_torch.decomposition_rules import Scalar, decomposes

Tensor = torch.Tensor

NEAREST, ZEROS, BORDER = 1, 0, 1
"""torch's codes of a mode and of two paddings."""


@decomposes(torch.ops.aten.grid_sampler_2d.default)
def sample_2d(x: Tensor, grid: Tensor, mode: int, padding: int, aligned: bool) -> Tensor:
    """Sample the image at the grid's coordinates, which torch's decomposition rounds differently from eager."""
    if mode != NEAREST or padding not in (ZEROS, BORDER):
        return grid_sampler_2d(x, grid, mode, padding, aligned)
    batch, channels, height, width = x.shape
    column, column_is_inside = _nearest_pixel(grid[..., 0], width, padding, aligned)
    row, row_is_inside = _nearest_pixel(grid[..., 1], height, padding, aligned)
    is_inside = (column_is_inside & row_is_inside).unsqueeze(1)
    index = (row * width + column).flatten(1).unsqueeze(1)
    result = x.flatten(2).gather(2, index.expand(batch, channels, index.shape[2]))
    result = result.view(batch, channels, grid.shape[1], grid.shape[2])
    return torch.where(is_inside, result, torch.zeros((), dtype=x.dtype, device=x.device))


def _nearest_pixel(position: Tensor, size: Scalar, padding: int, aligned: bool) -> tuple[Tensor, Tensor]:
    index = (position + 1) * (size - 1) * 0.5 if aligned else ((position + 1) * size - 1) * 0.5
    if padding == BORDER:
        last = torch.full((), size - 1, dtype=position.dtype, device=position.device)
        index = torch.minimum(torch.clamp(index, min=0), last)
    index = torch.round(index)
    is_inside = (index >= 0) & (index < size)
    return torch.where(
        is_inside, index, torch.zeros((), dtype=position.dtype, device=position.device)
    ).long(), is_inside


@decomposes(torch.ops.aten.grid_sampler_3d.default)
def sample_3d(x: Tensor, grid: Tensor, mode: int, padding: int, aligned: bool) -> Tensor:
    """Sample a volume (`grid_sampler_3d`): the nearest element, or the eight around, weighted by distance."""
    sizes = x.shape[2:]
    indices = [_source_coordinate(grid[..., 2 - axis], sizes[axis], padding, aligned) for axis in range(3)]
    if mode == NEAREST:
        return _gather_pixels(x, [torch.round(index) for index in indices])
    firsts = [torch.floor(index) for index in indices]
    samples = []
    for corner in product((0, 1), repeat=3):
        position = [first + step for first, step in zip(firsts, corner, strict=True)]
        parts = [
            index - first if step else first + 1 - index
            for index, first, step in zip(indices, firsts, corner, strict=True)
        ]
        samples.append(_gather_pixels(x, position) * (parts[2] * parts[1] * parts[0]).unsqueeze(1))
    return reduce(torch.add, samples)


def _gather_pixels(x: Tensor, position: list[Tensor]) -> Tensor:
    flat_index, is_inside = torch.zeros_like(position[0]).long(), torch.ones_like(position[0], dtype=torch.bool)
    for index, size in zip(position, x.shape[2:], strict=True):
        in_bounds = (index >= 0) & (index < size)
        flat_index = flat_index * size + torch.where(in_bounds, index, 0.0).long()
        is_inside = is_inside & in_bounds
    shape = (*x.shape[:2], *flat_index.shape[1:])
    flat_index = torch.where(is_inside, flat_index, 0).flatten(1).unsqueeze(1).expand(*x.shape[:2], -1)
    return torch.where(is_inside.unsqueeze(1), x.flatten(2).gather(2, flat_index).view(shape), 0.0).to(x.dtype)


def _source_coordinate(position: Tensor, size: Scalar, padding: int, aligned: bool) -> Tensor:
    index = (position + 1) / 2 * (size - 1) if aligned else ((position + 1) * size - 1) / 2
    if padding == ZEROS:
        return index
    if padding != BORDER:
        low, span = (0.0, size - 1.0) if aligned else (-0.5, float(size))
        if span == 0:
            return torch.zeros_like(index)
        away = torch.abs(index - low)
        extra, is_even = torch.fmod(away, span), torch.remainder(torch.floor(away / span), 2) == 0
        index = torch.where(is_even, extra + low, span - extra + low)
    return torch.clamp(index, 0, size - 1)
