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


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    if input.ndim == 2:
        return fold(input[None], output_size, kernel_size, dilation, padding, stride)[0]
    size, kernel, dilated = _pair(output_size), _pair(kernel_size), _pair(dilation)
    pad, step = _pair(padding), _pair(stride)
    rows = (size[0] + 2 * pad[0] - dilated[0] * (kernel[0] - 1) - 1) // step[0] + 1
    columns = (size[1] + 2 * pad[1] - dilated[1] * (kernel[1] - 1) - 1) // step[1] + 1
    batch, channels = input.shape[0], input.shape[1] // (kernel[0] * kernel[1])
    parts = input.reshape(batch, channels, kernel[0], kernel[1], rows, columns)
    result = np.zeros((batch, channels, size[0] + 2 * pad[0], size[1] + 2 * pad[1]), input.dtype)
    for i in tuple(range(kernel[0])):
        for j in tuple(range(kernel[1])):
            top, left = i * dilated[0], j * dilated[1]
            bottom, right = top + rows * step[0], left + columns * step[1]
            result[:, :, top : bottom : step[0], left : right : step[1]] += parts[:, :, i, j]
    return result[:, :, pad[0] : pad[0] + size[0], pad[1] : pad[1] + size[1]]


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


# --- pixels and interpolation ----------------------------------------------------------------------------------------


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
    for axis in range(2, input.ndim):
        if input.shape[axis] < 1 or axes[axis - 2][0] < 1:
            refuse("the sizes of images are 1 or more, before and after")
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
    if mode not in ("bilinear", "nearest", "bicubic") or padding_mode not in ("zeros", "border", "reflection"):
        refuse("it samples in the modes 'bilinear', 'nearest' and 'bicubic', with padding by 'zeros', 'border' and "
               "'reflection'")  # fmt: skip
    sizes, count, aligned = input.shape[2:], input.ndim - 2, bool(align_corners)
    # The last coordinate is that of the first axis.
    indices = [_index(grid[..., count - 1 - axis], sizes[axis], aligned) for axis in range(count)]
    if mode == "bicubic":
        return _cubic_samples(input, indices, padding_mode, aligned)
    places = [_inside(indices[axis], sizes[axis], padding_mode, aligned) for axis in range(count)]
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


def _cubic_samples(input, indices, padding_mode, align_corners):
    """Return the sums over 4 by 4 pixels around each place, weighted by Keys' filter; padding moves each pixel."""
    if len(indices) != 2:
        refuse("the mode 'bicubic' is for images of shape [batch, channels, height, width]")
    # The axes are the image, the channel, the row and the column of a pixel, and those of the place.
    offsets = np.array([-1, 0, 1, 2]).reshape(4, 1, 1)
    pixels, weights = [], []
    for axis in (0, 1):
        first = np.floor(indices[axis])[:, None]
        inside = _inside(first + offsets, input.shape[2 + axis], padding_mode, align_corners)
        pixels = [*pixels, inside[:, :, None] if axis == 0 else inside[:, None]]
        weights = [*weights, keys_filter(np, indices[axis][:, None] - first - offsets, -0.75)[:, None]]
    rows = np.sum(_pixels(input, pixels) * weights[1][:, :, None], axis=3)
    return np.sum(rows * weights[0], axis=2).astype(input.dtype)


def _index(position, size, align_corners):
    """Return the index that a coordinate from -1 to 1 stands for."""
    return (position + 1) / 2 * (size - 1) if align_corners else ((position + 1) * size - 1) / 2


def _inside(index, size, padding_mode, align_corners):
    """Return an index as torch's padding moves it inside the image."""
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


COMPILE_TIME = (resampled_axis, interpolation, area_weights)
"""What Python runs while a kernel compiles."""
_NAMED: tuple[Callable[..., Any], ...] = (pixel_shuffle, pixel_unshuffle, channel_shuffle)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"torch.{function.__name__}": function for function in _NAMED},
    **{
        f"torch.nn.functional.{function.__name__}": function
        for function in (*_NAMED, fold, unfold, interpolate, grid_sample, affine_grid)
    },
}
"""Inlined functions of torch by qualified name."""
METHODS: dict[str, Callable[..., Any]] = {"unfold": unfold_axis, "tolist": tolist}
"""Inlined methods of tensors by name; each takes the tensor first."""
