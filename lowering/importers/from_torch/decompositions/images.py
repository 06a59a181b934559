"""Pooling and grid sampling of images.

torch-mlir ignores NaN in max pools; torch's decomposition of grid samples rounds coordinates differently from eager.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from typing import Any

import torch
from torch._decomp.decompositions import grid_sampler_2d

from mlirtri.lowering.importers.from_torch.decomposition_rules import decomposes
from mlirtri.lowering.importers.from_torch.decompositions.integers import NARROW_INTEGERS
from mlirtri.lowering.importers.from_torch.decompositions.reductions import in_float32

aten = torch.ops.aten
Tensor = torch.Tensor


def adaptive_max_pool(operator: Any, rank: int) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return the rule of adaptive max pools along the last `rank` axes: -inf pads windows to the longest one."""

    def pool(x: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
        if x.dim() == rank + 1:
            values, indices = pool(x.unsqueeze(0), counts)
            return values.squeeze(0), indices.squeeze(0)
        sizes = x.shape[2:]
        if all(isinstance(size, int) and size and size % count == 0 for size, count in zip(sizes, counts, strict=True)):
            window = [size // count for size, count in zip(sizes, counts, strict=True)]
            return operator(x, window, window)
        elements, indices = _window_elements(x, counts)
        index = _first_largest(elements)
        return torch.amax(elements, -1), indices.expand(elements.shape).gather(-1, index).squeeze(-1)

    return pool


def _window_elements(x: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    rank = len(counts)
    indices = torch.zeros([1] * x.dim(), dtype=torch.int64, device=x.device)
    for i, count in enumerate(counts):
        axis, size = 2 + 2 * i, x.shape[2 + 2 * i]
        position, is_inside = _windows(size, count, x.device)
        along = [*[1] * axis, *position.shape, *[1] * (x.dim() - axis - 1)]
        x = x.index_select(axis, position.flatten()).view([*x.shape[:axis], *position.shape, *x.shape[axis + 1 :]])
        x = torch.where(is_inside.view(along), x, float("-inf"))
        indices = indices.unsqueeze(axis) * size + position.view(along)
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]
    return _collapse_last(x.permute(order), rank), _collapse_last(indices.permute(order), rank)


def _collapse_last(x: Tensor, count: int) -> Tensor:
    return torch.ops.prims.collapse.default(x, x.dim() - count, x.dim() - 1) if count > 1 else x


def _windows(size: Any, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    longest = (size + count - 1) // count + 1
    iota = torch.arange(count, device=device).unsqueeze(1)
    start = torch.div(iota * size, count, rounding_mode="trunc")
    end = torch.div((iota + 1) * size + (count - 1), count, rounding_mode="trunc")
    position = start + torch.arange(longest, device=device)
    return torch.minimum(position, torch.full_like(position, size - 1)), position < end


def _first_largest(elements: Tensor) -> Tensor:
    """Return the index of the last NaN along the last axis, else of the first maximum."""
    count = elements.shape[-1]
    iota = torch.arange(count, dtype=torch.int32, device=elements.device)
    is_largest = elements == torch.amax(elements, -1, True)
    rank = torch.where(is_largest, torch.neg(iota) + count, torch.zeros_like(iota))
    return torch.argmax(torch.where(torch.isnan(elements), iota + (count + 1), rank), -1, True)


def max_pool_with_indices(operator: Any, rank: int) -> Callable[..., Any]:
    """Return the rule of max pools along the last `rank` axes, with the index of the last NaN or first maximum."""

    def pool(x: Tensor, *window: Any, **options: Any) -> Any:
        if x.dtype in NARROW_INTEGERS:
            values, indices = operator(x.double(), *window, **options)
            return values.to(x.dtype), indices
        if getattr(_REENTRY, "inside", False) or not x.dtype.is_floating_point:
            return NotImplemented
        if x.dim() == rank + 1:
            values, indices = pool(x.unsqueeze(0), *window, **options)
            return values.squeeze(0), indices.squeeze(0)

        def once(y: Tensor) -> Any:
            _REENTRY.inside = True
            try:
                return operator(y, *window, **options)
            finally:
                _REENTRY.inside = False

        values, indices = once(x)
        sizes = x.shape[2:]
        count = 1
        for size in sizes:
            count = count * size
        # float64 represents all indices; a pool of integers has no minus infinity to pad with.
        iota = torch.arange(count, dtype=torch.float64, device=x.device).view(sizes).expand(x.shape)
        nan = once(torch.where(torch.isnan(x), iota, -1.0))[0].long()
        first = -once(-iota)[0].long()
        # A window of minus infinity alone has no element above the initial value of the pool.
        indices = torch.where(values == float("-inf"), first, indices)
        return values, torch.where(torch.isnan(values), nan, indices)

    return pool


_REENTRY = threading.local()


def avg_pool(operator: Any, rank: int) -> Callable[..., Tensor]:
    """Return the rule of average pools along the last `rank` axes; one number, misread by torch-mlir, is all axes."""

    def pool(x: Tensor, *window: Any, **options: Any) -> Tensor:
        full = tuple(
            [*operand] * rank if isinstance(operand, list) and len(operand) == 1 else operand for operand in window
        )
        if full != window:
            return operator(x, *full, **options)
        if x.dim() == rank + 1:
            return operator(x.unsqueeze(0), *window, **options).squeeze(0)
        return in_float32(operator)(x, *window, **options)

    return pool


@decomposes(aten.avg_pool2d_backward.default)
def avg_pool2d_backward(
    gradient: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    """Distribute each window's gradient over the window, by a transposed convolution with ones."""
    if x.dim() == 3:
        window = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        result = avg_pool2d_backward(gradient.unsqueeze(0), x.unsqueeze(0), *window)
        return result if result is NotImplemented else result.squeeze(0)
    sizes, counts = x.shape[-2:], gradient.shape[-2:]
    if not all(isinstance(size, int) for size in (*x.shape, *counts)):
        return NotImplemented
    kernel, padding = _pair(kernel_size), _pair(padding)
    steps = _pair(stride) if stride else kernel
    lengths = [
        _window_lengths(
            counts[position],
            sizes[position],
            kernel[position],
            steps[position],
            padding[position],
            count_include_pad,
            x.device,
        )
        for position in range(2)
    ]
    divisor = divisor_override or (lengths[0].unsqueeze(1) * lengths[1]).to(gradient.dtype)
    share = (gradient / divisor).reshape(-1, 1, *counts)
    spread = torch.conv_transpose2d(share, torch.ones(1, 1, *kernel, dtype=x.dtype, device=x.device), stride=steps)
    for axis, size, pad in zip((2, 3), sizes, padding, strict=True):
        missing = max(size + pad - spread.shape[axis], 0)
        spread = aten.constant_pad_nd(spread, [0, missing] if axis == 3 else [0, 0, 0, missing])
        spread = spread.narrow(axis, pad, size)
    return spread.reshape(x.shape)


def _window_lengths(
    count: int, size: int, kernel: int, step: int, padding: int, with_padding: bool, device: torch.device
) -> Tensor:
    start = torch.arange(count, device=device) * step - padding
    end = torch.clamp(start + kernel, max=size + padding)
    if with_padding:
        return end - start
    return torch.clamp(end, max=size) - torch.clamp(start, min=0)


def _pair(sizes: Sequence[int]) -> list[int]:
    return list(sizes) * 2 if len(sizes) == 1 else list(sizes)


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


def _nearest_pixel(position: Tensor, size: Any, padding: int, aligned: bool) -> tuple[Tensor, Tensor]:
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


def _source_coordinate(position: Tensor, size: Any, padding: int, aligned: bool) -> Tensor:
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


decomposes(aten.adaptive_max_pool2d.default)(adaptive_max_pool(aten.max_pool2d_with_indices.default, 2))
decomposes(aten.adaptive_max_pool3d.default)(adaptive_max_pool(aten.max_pool3d_with_indices.default, 3))
decomposes(aten.max_pool2d_with_indices.default)(max_pool_with_indices(aten.max_pool2d_with_indices.default, 2))
decomposes(aten.max_pool3d_with_indices.default)(max_pool_with_indices(aten.max_pool3d_with_indices.default, 3))
for _operator in (
    aten.mean.default,
    aten.prod.default,
    aten.prod.dim_int,
    aten.linalg_vector_norm.default,
    aten.norm.Scalar,
    aten.norm.ScalarOpt_dim,
    aten._adaptive_avg_pool3d.default,
):
    decomposes(_operator)(in_float32(_operator))
decomposes(aten.avg_pool2d.default)(avg_pool(aten.avg_pool2d.default, 2))
decomposes(aten.avg_pool3d.default)(avg_pool(aten.avg_pool3d.default, 3))
