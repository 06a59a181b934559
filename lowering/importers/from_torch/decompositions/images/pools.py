"""Pooling of images along the last axes.

torch-mlir ignores NaN in max pools.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import (
    Operator,
    Results,
    Scalar,
    decomposes,
    in_float32,
    is_without_rules,
    without_rules,
)

aten = torch.ops.aten
Tensor = torch.Tensor


def adaptive_max_pool(operator: Operator, rank: int) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return the rule of adaptive max pools along the last `rank` axes: -inf pads windows to the longest one."""

    def pool(x: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
        if x.dim() == rank + 1:
            values, indices = pool(x.unsqueeze(0), counts)
            return values.squeeze(0), indices.squeeze(0)
        sizes = x.shape[2:]
        if all(isinstance(size, int) and size and size % count == 0 for size, count in zip(sizes, counts, strict=True)):
            window = [size // count for size, count in zip(sizes, counts, strict=True)]
            return operator(x, window, window)
        windows = [_windows(size, count, x.device) for size, count in zip(sizes, counts, strict=True)]
        elements, indices = _elements_of(windows, x, float("-inf"))
        index = _first_largest(elements)
        return torch.amax(elements, -1), indices.expand(elements.shape).gather(-1, index).squeeze(-1)

    return pool


def _elements_of(windows: Sequence[tuple[Tensor, Tensor]], x: Tensor, outside: float) -> tuple[Tensor, Tensor]:
    """Return the elements of each window along a new last axis, and their indices among all elements of an image.

    `windows` has positions along each axis, [windows, elements], and which of them are inside of a window; `outside`
    stands for the others.
    """
    rank, lead = len(windows), x.dim() - len(windows)
    indices = torch.zeros([1] * x.dim(), dtype=torch.int64, device=x.device)
    for axis, (position, is_inside) in zip(range(lead, lead + 2 * rank, 2), windows, strict=True):
        along = [*[1] * axis, *position.shape, *[1] * (x.dim() - axis - 1)]
        indices = indices.unsqueeze(axis) * x.shape[axis] + position.view(along)
        x = x.index_select(axis, position.flatten()).view([*x.shape[:axis], *position.shape, *x.shape[axis + 1 :]])
        x = torch.where(is_inside.view(along), x, outside)
    order = [*range(lead), *range(lead, lead + 2 * rank, 2), *range(lead + 1, lead + 2 * rank, 2)]
    return _collapse_last(x.permute(order), rank), _collapse_last(indices.permute(order), rank)


def _collapse_last(x: Tensor, count: int) -> Tensor:
    return torch.ops.prims.collapse.default(x, x.dim() - count, x.dim() - 1) if count > 1 else x


def _windows(size: Scalar, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
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


def max_pool_with_indices(operator: Operator, rank: int) -> Callable[..., Results]:
    """Return the rule of max pools along the last `rank` axes, with the index of the last NaN or first maximum."""

    def pool(x: Tensor, *window: Any, **options: Any) -> Results:
        if x.dtype == torch.int64:
            return pool_of_integers(x, rank, *window, **options)
        if not x.is_floating_point():
            values, indices = operator(x.double(), *window, **options)
            return values.to(x.dtype), indices
        if is_without_rules():
            return NotImplemented
        if x.dim() == rank + 1:
            values, indices = pool(x.unsqueeze(0), *window, **options)
            return values.squeeze(0), indices.squeeze(0)
        values, indices = without_rules(operator, x, *window, **options)
        sizes = x.shape[2:]
        # float64 represents all indices; a pool of integers has no minus infinity to pad with.
        iota = torch.arange(math.prod(sizes), dtype=torch.float64, device=x.device).view(sizes).expand(x.shape)
        nan = without_rules(operator, torch.where(torch.isnan(x), iota, -1.0), *window, **options)[0].long()
        first = -without_rules(operator, -iota, *window, **options)[0].long()
        # A window of minus infinity alone has no element above the initial value of the pool.
        indices = torch.where(values == float("-inf"), first, indices)
        return values, torch.where(torch.isnan(values), nan, indices)

    return pool


def pool_of_integers(
    x: Tensor,
    rank: int,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Results:
    """Return the maxima of windows of int64, which float64 does not hold, and their first indices."""
    if not all(isinstance(size, int) for size in x.shape):
        return NotImplemented
    kernel = _full(kernel, rank)
    steps, pads, gaps = _full(stride or kernel, rank), _full(padding, rank), _full(dilation, rank)
    windows = []
    for size, length, step, pad, gap in zip(x.shape[-rank:], kernel, steps, pads, gaps, strict=True):
        count = _count(size, length, step, pad, gap, ceil_mode)
        position = (torch.arange(count) * step - pad).unsqueeze(1) + torch.arange(length) * gap
        windows.append((torch.clamp(position, 0, size - 1), (position >= 0) & (position < size)))
    elements, indices = _elements_of(windows, x, torch.iinfo(x.dtype).min)
    values = torch.amax(elements, -1)
    index = torch.argmax((elements == values.unsqueeze(-1)).int(), -1, True)
    return values, indices.expand(elements.shape).gather(-1, index).squeeze(-1)


def _full(sizes: Sequence[int], rank: int) -> list[int]:
    return list(sizes) * rank if len(sizes) == 1 else list(sizes)


def _count(size: int, length: int, step: int, pad: int, gap: int, ceil_mode: bool) -> int:
    """Return the number of windows along an axis; the last one begins inside of the axis or its padding."""
    span = size + 2 * pad - gap * (length - 1) - 1
    count = -(-span // step) + 1 if ceil_mode else span // step + 1
    return count - 1 if ceil_mode and (count - 1) * step >= size + pad else count


def fractional_max_pool(rank: int) -> Callable[..., Results]:
    """Return the rule of max pools over windows at pseudo-random positions (Graham, Fractional max-pooling, 2014)."""

    def pool(x: Tensor, kernel: Sequence[int], counts: Sequence[int], samples: Tensor) -> Results:
        if not all(isinstance(size, int) for size in x.shape):
            return NotImplemented
        if x.dim() == rank + 1:
            values, indices = pool(x.unsqueeze(0), kernel, counts, samples)
            return values.squeeze(0), indices.squeeze(0)
        sizes, lengths, shape = x.shape[2:], _full(kernel, rank), [*x.shape[:2], *[1] * (2 * rank)]
        index = torch.zeros(shape, dtype=torch.int64, device=x.device)
        for i, (size, length, count) in enumerate(zip(sizes, lengths, _full(counts, rank), strict=True)):
            # Eager reads the samples of two axes in the order of width and height.
            sample = samples[..., rank - 1 - i if rank == 2 else i]
            starts = _starts(sample, size, length, count)
            position = starts.unsqueeze(-1) + torch.arange(length, device=x.device)
            along = [*x.shape[:2], *[1] * i, count, *[1] * (rank - 1), length, *[1] * (rank - 1 - i)]
            index = index * size + position.view(along)
        index = _collapse_last(index, rank)
        elements = x.flatten(2).gather(2, index.flatten(2)).view(index.shape)
        chosen = _first_largest(elements)
        return elements.gather(-1, chosen).squeeze(-1), index.gather(-1, chosen).squeeze(-1)

    return pool


def _starts(sample: Tensor, size: int, length: int, count: int) -> Tensor:
    """Return where the windows begin along an axis, [batch, channels, count]; the last one ends with the axis."""
    last = torch.full((*sample.shape, 1), size - length, dtype=torch.int64, device=sample.device)
    if count == 1:
        return last
    sample = sample.unsqueeze(-1)
    step = (size - length) / (count - 1)
    iota = torch.arange(count - 1, device=sample.device).to(sample.dtype)
    return torch.cat([((sample + iota) * step).long() - (sample * step).long(), last], -1)


def avg_pool(operator: Operator, rank: int) -> Callable[..., Tensor]:
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
) -> Results:
    """Distribute each window's gradient over the window, by a transposed convolution with ones."""
    if x.dim() == 3:
        window = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        result = avg_pool2d_backward(gradient.unsqueeze(0), x.unsqueeze(0), *window)
        return result if result is NotImplemented else result.squeeze(0)
    sizes, counts = x.shape[-2:], gradient.shape[-2:]
    if not all(isinstance(size, int) for size in (*x.shape, *counts)):
        return NotImplemented
    kernel, padding = _full(kernel_size, 2), _full(padding, 2)
    steps = _full(stride, 2) if stride else kernel
    axes = zip(counts, sizes, kernel, steps, padding, strict=True)
    lengths = [_window_lengths(*axis, count_include_pad, x.device) for axis in axes]
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


decomposes(aten.adaptive_max_pool2d.default)(adaptive_max_pool(aten.max_pool2d_with_indices.default, 2))
decomposes(aten.adaptive_max_pool3d.default)(adaptive_max_pool(aten.max_pool3d_with_indices.default, 3))
decomposes(aten.max_pool2d_with_indices.default)(max_pool_with_indices(aten.max_pool2d_with_indices.default, 2))
decomposes(aten.max_pool3d_with_indices.default)(max_pool_with_indices(aten.max_pool3d_with_indices.default, 3))
decomposes(aten.avg_pool2d.default)(avg_pool(aten.avg_pool2d.default, 2))
decomposes(aten.avg_pool3d.default)(avg_pool(aten.avg_pool3d.default, 3))
decomposes(aten.fractional_max_pool2d.default)(fractional_max_pool(2))
decomposes(aten.fractional_max_pool3d.default)(fractional_max_pool(3))
