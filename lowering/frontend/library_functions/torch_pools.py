"""Pools of torch that say where their values were, and their inverses, in the kernel language.

Python never runs them, but those of `COMPILE_TIME`. Like `torch_functions.py` they are written with NumPy's spellings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse, size_of
from mlirtri.lowering.frontend.library_functions.random_generator import require_value

# --- windows of one size ---------------------------------------------------------------------------------------------


def _max_pool(input, axes, kernel_size, stride, padding, dilation, ceil_mode):
    """Return the largest elements of windows, and their positions in the axes of the image, the first of equal ones."""
    windows, steps, pads, reaches = [
        value if isinstance(value, (tuple, list)) else [value] * axes
        for value in (kernel_size, kernel_size if stride is None else stride, padding, dilation)
    ]
    sizes = input.shape[input.ndim - axes :]
    for window, step, pad, reach in zip(windows, steps, pads, reaches, strict=True):
        if window < 1 or step < 1 or reach < 1:
            refuse("kernel_size=, stride= and dilation= are 1 or more")
        if pad < 0 or 2 * pad > reach * (window - 1) + 1:
            refuse("padding= is at most half of what a window reaches over")
    plans = [pool_axis(*numbers, ceil_mode) for numbers in zip(sizes, windows, steps, pads, reaches, strict=True)]
    counts = [count for count, _ in plans]
    for count in counts:
        if count < 1:
            refuse("a window is larger than the padded image")
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


def _max_pool_of(axes: int) -> Callable[..., Any]:
    def max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True):
        return _max_pool(input, axes, kernel_size, stride, padding, dilation, ceil_mode)

    return max_pool


# --- windows that cover the image ------------------------------------------------------------------------------------


def _adaptive_max_pool(input, axes, output_size):
    """Return the largest elements of windows that cover the image, and their positions in it."""
    outs = output_size if isinstance(output_size, (tuple, list)) else [output_size] * axes
    sizes = input.shape[input.ndim - axes :]
    if not is_known(sizes, outs):
        refuse("it takes images of known sizes")
    lines = [adaptive_axis(*sides) for sides in zip(sizes, outs, strict=True)]
    widths = [len(line) for line in lines]
    empty = [*input.shape[: input.ndim - axes], *[len(line[0]) if line else 0 for line in lines]]
    values: Any = np.zeros(empty, input.dtype) if product(widths) == 0 else None
    numbers: Any = np.zeros(empty, np.int64)
    for offset in tuple(range(product(widths))):
        places, part, number = offset_in(offset, widths), input, 0
        for axis in tuple(range(axes)):
            positions = np.array(lines[axis][places[axis]])
            part = np.take(part, positions, axis=axis - axes)
            number = number * sizes[axis] + positions.reshape([-1 if k == axis else 1 for k in range(axes)])
        if values is None:
            values, numbers = part, np.broadcast_to(number, part.shape)
        else:
            is_larger = (part > values) | (part != part)
            values, numbers = np.where(is_larger, part, values), np.where(is_larger, number, numbers)
    return values, numbers


def _adaptive_max_pool_of(axes: int) -> Callable[..., Any]:
    def adaptive_max_pool(input, output_size, return_indices=True):
        return _adaptive_max_pool(input, axes, output_size)

    return adaptive_max_pool


def is_known(sizes: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Return whether all sizes of an image are known while compiling; None of `outs` keeps an axis as it is."""
    return all(isinstance(size, int) for size in sizes) and all(isinstance(out, (int, type(None))) for out in outs)


def adaptive_axis(size: int, out: int | None) -> list[list[int]]:
    """Return the position of the k-th element of each of `out` windows that cover an axis, for each k.

    Window i is from floor(i * size / out) to ceil((i + 1) * size / out); of a shorter one the last element repeats.
    """
    count = size if out is None else out
    windows = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    longest = max((end - start for start, end in windows), default=0)
    return [[min(start + k, end - 1) for start, end in windows] for k in range(longest)]


# --- the inverse -----------------------------------------------------------------------------------------------------


def _max_unpool(input, indices, axes, kernel_size, stride, padding, output_size):
    """Return zeros with the elements of `input` at `indices`, positions in the axes of the image."""
    windows, steps, pads = [
        value if isinstance(value, (tuple, list)) else [value] * axes
        for value in (kernel_size, kernel_size if stride is None else stride, padding)
    ]
    sides = zip(input.shape[input.ndim - axes :], windows, steps, pads, strict=True)
    sizes = [(size - 1) * step - 2 * pad + window for size, window, step, pad in sides]
    if output_size is not None:
        given = [extent for extent in output_size][-axes:]
        for size, step, extent in zip(sizes, steps, given, strict=True):
            if not size - step < extent < size + step:
                refuse(f"output_size= has an axis of {extent}, which is no more than a step of {step} from {size}")
        sizes = given
    area = size_of(sizes)
    require_value(np.all((indices >= 0) & (indices < area)), "an index of max_unpool is outside of its output")
    rows = indices.reshape([-1, size_of(indices.shape[indices.ndim - axes :])])
    flat = np.zeros(rows.shape[0] * area, input.dtype)
    flat[(rows + np.arange(rows.shape[0]).reshape(-1, 1) * area).reshape(-1)] = input.reshape(-1)
    return flat.reshape([*input.shape[: input.ndim - axes], *sizes])


def _max_unpool_of(axes: int) -> Callable[..., Any]:
    def max_unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        return _max_unpool(input, indices, axes, kernel_size, stride, padding, output_size)

    return max_unpool


COMPILE_TIME = (product, offset_in, pool_axis, is_known, adaptive_axis)
"""What Python runs while a kernel compiles."""
_WITH_INDICES: dict[str, Callable[..., Any]] = {
    f"torch.nn.functional.{name}{axes}d": make(axes)
    for name, make in (("max_pool", _max_pool_of), ("adaptive_max_pool", _adaptive_max_pool_of))
    for axes in (1, 2, 3)
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **_WITH_INDICES,
    **{f"{name}_with_indices": function for name, function in _WITH_INDICES.items()},
    **{f"torch.nn.functional.max_unpool{axes}d": _max_unpool_of(axes) for axes in (1, 2, 3)},
}
"""Inlined functions of torch by qualified name."""
