"""Windows and images of torch in the kernel language: unfolding, pixel shuffles, interpolation, sampling at a grid.

Python never runs them, but those of `COMPILE_TIME`. Like `torch_functions.py` they are written with NumPy's spellings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlirtri.lowering.frontend.library_functions.array_functions import tolist
from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse
from mlirtri.lowering.special_functions.definitions import keys_filter

_KINDS = {
    "nearest": "nearest", "nearest-exact": "nearest-exact", "linear": "linear", "bilinear": "linear",
    "trilinear": "linear", "bicubic": "cubic", "area": "area",
}  # fmt: skip


def _resampled_axis(size: int, out: int, scale: float | None, mode: str | None, align_corners: bool) -> list[Any]:
    """Return the same as arrays; the coordinates are those of `torch.nn.functional.interpolate`."""
    target = np.arange(out)
    ratio = np.float32(size / out if scale is None else 1 / scale)
    if mode == "nearest":
        return [(np.minimum(np.floor(target * ratio), size - 1).astype(np.int64), None)]
    if mode == "nearest-exact":
        return [(np.minimum(np.floor((target + np.float32(0.5)) * ratio), size - 1).astype(np.int64), None)]
    if align_corners:
        source = target * ((size - 1) / (out - 1) if out > 1 else 0.0)
    else:
        source = (target + 0.5) * float(ratio) - 0.5
    if mode == "cubic":
        low = np.floor(source)
        offsets = [-1, 0, 1, 2]
        return [
            (np.clip(low + offset, 0, size - 1).astype(np.int64), keys_filter(np, source - low - offset, -0.75))
            for offset in offsets
        ]
    source = np.maximum(source, 0.0)
    low = np.minimum(np.floor(source), size - 1)
    weight = source - low
    return [(low.astype(np.int64), 1 - weight), (np.minimum(low + 1, size - 1).astype(np.int64), weight)]


def resampled_axis(size: int, out: int, scale: float | None, mode: str | None, align_corners: bool) -> list[Any]:
    """Return what each of `out` elements of an axis reads: lists of indices and of their weights, None for 1.

    `scale` is the ratio that the caller gave; without one it is the ratio of the sizes.
    """
    parts = _resampled_axis(size, out, scale, mode, align_corners)
    return [(indices.tolist(), None if weights is None else weights.tolist()) for indices, weights in parts]


def interpolation(mode: str, sizes: Sequence[int], size: Any, scale_factor: Any) -> tuple[Any, Any]:
    """Return the kind of an interpolation, and of each spatial axis the size afterwards and the ratio that was given.

    The kind is None for what is not supported.
    """
    kind = _KINDS.get(mode)
    given = scale_factor if size is None else size
    values = list(given) if isinstance(given, (tuple, list)) else [given] * len(sizes)
    is_known = all(isinstance(extent, int) for extent in sizes) and len(values) == len(sizes)
    if kind is None or not is_known or (size is None) == (scale_factor is None):
        return None, ()
    if size is not None:
        return kind, [(int(value), None) for value in values]
    return kind, [(int(np.floor(extent * value)), float(value)) for extent, value in zip(sizes, values, strict=True)]


def area_weights(size: int, out: int) -> list[list[float]]:
    """Return the weights of the elements of an axis in each of `out` means over windows that cover it."""
    windows = [(k * size // out, -(-(k + 1) * size // out)) for k in range(out)]
    return [[1 / (end - start) if start <= i < end else 0.0 for i in range(size)] for start, end in windows]


def unfold_axis(input, dimension, size, step):
    windows = np.lib.stride_tricks.sliding_window_view(np.moveaxis(input, dimension, 0), size, axis=0)
    return np.moveaxis(windows[::step], 0, dimension if dimension >= 0 else input.ndim + dimension)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    kernel, dilated, pad, step = _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride)
    if input.ndim == 3:
        return unfold(input[None], kernel_size, dilation, padding, stride)[0]
    x = np.pad(input, ((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])))
    rows = (x.shape[2] - dilated[0] * (kernel[0] - 1) - 1) // step[0] + 1
    columns = (x.shape[3] - dilated[1] * (kernel[1] - 1) - 1) // step[1] + 1
    parts = [
        x[
            :,
            :,
            i * dilated[0] : i * dilated[0] + (rows - 1) * step[0] + 1 : step[0],
            j * dilated[1] : j * dilated[1] + (columns - 1) * step[1] + 1 : step[1],
        ]
        for i in range(kernel[0])
        for j in range(kernel[1])
    ]
    return np.stack(parts, axis=2).reshape([x.shape[0], x.shape[1] * kernel[0] * kernel[1], rows * columns])


def _pair(value):
    return value if isinstance(value, (tuple, list)) else (value, value)


# --- pools and where their values were -------------------------------------------------------------------------------


def _max_pool(input, axes, kernel_size, stride, padding, dilation, ceil_mode):
    """Return the largest elements of windows, and their positions in the axes of the image, the first of equal ones."""
    windows, steps, pads, reaches = [
        value if isinstance(value, (tuple, list)) else [value] * axes
        for value in (kernel_size, kernel_size if stride is None else stride, padding, dilation)
    ]
    sizes = input.shape[input.ndim - axes :]
    plans = [pool_axis(*numbers, ceil_mode) for numbers in zip(sizes, windows, steps, pads, reaches, strict=True)]
    counts = [count for count, _ in plans]
    lowest = float("-inf") if input.dtype.is_float else np.iinfo(input.dtype).min
    ends = [(0, 0)] * (input.ndim - axes) + [(pad, high) for pad, (_, high) in zip(pads, plans, strict=True)]
    image = np.pad(input, ends, constant_values=lowest)
    values: Any = None
    numbers: Any = None
    for offset in tuple(range(product(windows))):
        places, cut, number, is_inside = offset_in(offset, windows), [slice(None)] * (input.ndim - axes), 0, True
        for axis in tuple(range(axes)):
            start = places[axis] * reaches[axis]
            cut = [*cut, slice(start, start + (counts[axis] - 1) * steps[axis] + 1, steps[axis])]
            line = [-1 if other == axis else 1 for other in range(axes)]
            position = (np.arange(counts[axis]) * steps[axis] - pads[axis] + start).reshape(line)
            number = number * sizes[axis] + position
            is_inside = is_inside & (position >= 0) & (position < sizes[axis])
        part = image[tuple(cut)]
        if values is None:
            values, numbers = part, np.broadcast_to(np.where(is_inside, number, -1), part.shape)
        else:
            is_larger = (part > values) | (part != part) | (numbers < 0)
            values = np.where(is_inside & is_larger, part, values)  # type: ignore[arg-type]
            numbers = np.where(is_inside & is_larger, number, numbers)
    return values, numbers


def product(numbers: Sequence[int]) -> int:
    """Return the product of numbers that are known while compiling."""
    return int(np.prod(numbers, dtype=np.int64))


def offset_in(offset: int, window: Sequence[int]) -> tuple[int, ...]:
    """Return the position along each axis of an element of a window, by its number in row-major order."""
    return tuple(int(place) for place in np.unravel_index(offset, tuple(window)))


def pool_axis(size: int, window: int, step: int, pad: int, reach: int, rounds_up: bool) -> tuple[int, int]:
    """Return how many windows of a pool an axis has, and how many elements are missing behind it."""
    far = reach * (window - 1) + 1
    count = (size + 2 * pad - far + (step - 1 if rounds_up else 0)) // step + 1
    # A last window starts inside of the image or the padding before it.
    count -= bool(rounds_up) and (count - 1) * step >= size + pad
    return count, max(0, (count - 1) * step + far - size - pad)


def max_pool1d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True
):  # fmt: skip
    return _max_pool(input, 1, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True
):  # fmt: skip
    return _max_pool(input, 2, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True
):  # fmt: skip
    return _max_pool(input, 3, kernel_size, stride, padding, dilation, ceil_mode)


def pixel_shuffle(input, upscale_factor):
    r, lead, sizes = upscale_factor, input.shape[:-3], input.shape[-3:]
    count = input.ndim - 3
    split = input.reshape([*lead, sizes[0] // (r * r), r, r, sizes[1], sizes[2]])
    order = [*range(count), count, count + 3, count + 1, count + 4, count + 2]
    return np.transpose(split, order).reshape([*lead, sizes[0] // (r * r), sizes[1] * r, sizes[2] * r])


def pixel_unshuffle(input, downscale_factor):
    r, lead, sizes = downscale_factor, input.shape[:-3], input.shape[-3:]
    count = input.ndim - 3
    split = input.reshape([*lead, sizes[0], sizes[1] // r, r, sizes[2] // r, r])
    order = [*range(count), count, count + 2, count + 4, count + 1, count + 3]
    return np.transpose(split, order).reshape([*lead, sizes[0] * r * r, sizes[1] // r, sizes[2] // r])


def channel_shuffle(input, groups):
    split = input.reshape([input.shape[0], groups, input.shape[1] // groups, *input.shape[2:]])
    return np.swapaxes(split, 1, 2).reshape(input.shape)


def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    if antialias or recompute_scale_factor:
        refuse("antialias= and recompute_scale_factor= are for mlirtri.from_torch")
    kind, axes = interpolation(mode, input.shape[2:], size, scale_factor)
    if kind is None:
        refuse("it takes size= or scale_factor= for axes of known sizes, in the modes 'nearest', 'nearest-exact', "
               "'linear', 'bilinear', 'trilinear', 'bicubic' and 'area'")  # fmt: skip
    if kind not in ("nearest", "nearest-exact") and not input.dtype.is_float:
        refuse("it interpolates between floats")
    result = input
    if kind == "area":
        for axis in range(2, input.ndim):
            weights = np.array(area_weights(input.shape[axis], axes[axis - 2][0])).astype(input.dtype)
            result = np.swapaxes(np.matmul(np.swapaxes(result, axis, -1), weights.T), axis, -1)
        return result
    for axis in range(2, input.ndim):
        out, ratio = axes[axis - 2]
        parts = [
            np.take(result, np.array(positions), axis=axis) * _along(weights, axis, input)
            for positions, weights in resampled_axis(input.shape[axis], out, ratio, kind, bool(align_corners))
        ]
        result = sum(parts[1:], parts[0])
    return result


def _along(weights, axis, input):
    if weights is None:
        return 1
    return np.array(weights).astype(input.dtype).reshape([-1 if k == axis else 1 for k in range(input.ndim)])


# --- samples at a grid -----------------------------------------------------------------------------------------------


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        refuse("it samples in the modes 'bilinear' and 'nearest', with padding by 'zeros', 'border' and 'reflection'")
    sizes, count = input.shape[2:], input.ndim - 2
    # The last coordinate is that of the first axis.
    places = [
        _source(grid[..., count - 1 - axis], sizes[axis], padding_mode, bool(align_corners)) for axis in range(count)
    ]
    if mode == "nearest":
        return _pixels(input, [np.round(place) for place in places])
    firsts = [np.floor(place) for place in places]
    total: Any = None
    # Halves are rounded after each operation, as torch does, in the order of torch: the last axis is the fastest.
    for corner in tuple(range(2**count)):
        steps = [corner >> (count - 1 - axis) & 1 for axis in range(count)]
        weight: Any = None
        for axis in tuple(range(count - 1, -1, -1)):
            part = places[axis] - firsts[axis] if steps[axis] else firsts[axis] + 1 - places[axis]
            weight = part if weight is None else weight * part
        share = _pixels(input, [firsts[axis] + steps[axis] for axis in range(count)]) * weight[:, None]
        total = share if total is None else total + share
    return total.astype(input.dtype)


def _source(position, size, padding_mode, align_corners):
    """Return the index that a coordinate from -1 to 1 stands for, as torch's padding moves it inside."""
    index = (position + 1) / 2 * (size - 1) if align_corners else ((position + 1) * size - 1) / 2
    if padding_mode == "zeros":
        return index
    if padding_mode == "reflection":
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            return np.zeros_like(index)
        away = np.abs(index - low)
        rest, turns = np.fmod(away, span), np.floor(away / span)
        index = np.where(np.fmod(turns, 2.0) == 0, rest + low, span - rest + low)
    return np.clip(index, 0.0, size - 1.0)


def _pixels(input, places):
    """Return the elements of all channels at these places of each image, and 0 outside."""
    sizes = input.shape[2:]
    flat: Any = 0
    is_inside: Any = True
    for axis in range(len(places)):
        is_in = (places[axis] >= 0) & (places[axis] < sizes[axis])
        flat = flat * sizes[axis] + np.where(is_in, places[axis], 0.0).astype(np.int64)
        is_inside = is_inside & is_in
    index = flat.reshape([flat.shape[0], 1, -1])
    values = input.reshape([input.shape[0], input.shape[1], -1])
    picked = np.take_along_axis(values, np.broadcast_to(index, (*values.shape[:2], index.shape[2])), axis=2)
    return np.where(is_inside[:, None], picked.reshape([*input.shape[:2], *flat.shape[1:]]), 0.0)


def affine_grid(theta, size, align_corners=None):
    sizes = size[2:]
    count = len(sizes)
    places = []
    for axis in range(count - 1, -1, -1):
        extent = sizes[axis]
        # The centres of the outermost elements, or their outer edges, are at -1 and 1.
        last = max(extent - 1, 1) if align_corners else extent
        line = (np.arange(extent).astype(np.float64) * 2.0 + 1.0 - extent) / last
        shape = [extent if k == axis else 1 for k in range(count)]
        places.append(np.broadcast_to(line.astype(theta.dtype).reshape(shape), tuple(sizes)))
    homogeneous = np.stack([*places, np.ones(tuple(sizes), theta.dtype)], axis=-1).reshape([-1, count + 1])
    return np.matmul(homogeneous, np.swapaxes(theta, 1, 2)).reshape([theta.shape[0], *sizes, count])


COMPILE_TIME = (resampled_axis, interpolation, area_weights, product, offset_in, pool_axis)
"""What Python runs while a kernel compiles."""
_NAMED: tuple[Callable[..., Any], ...] = (pixel_shuffle, pixel_unshuffle, channel_shuffle)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"torch.{function.__name__}": function for function in _NAMED},
    **{
        f"torch.nn.functional.{function.__name__}": function
        for function in (*_NAMED, unfold, interpolate, grid_sample, affine_grid, max_pool1d, max_pool2d, max_pool3d)
    },
    **{
        f"torch.nn.functional.max_pool{n}d_with_indices": f
        for n, f in enumerate((max_pool1d, max_pool2d, max_pool3d), 1)
    },
}
"""Inlined functions of torch by qualified name."""
METHODS: dict[str, Callable[..., Any]] = {"unfold": unfold_axis, "tolist": tolist}
"""Inlined methods of tensors by name; each takes the tensor first."""
