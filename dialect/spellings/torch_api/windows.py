"""Convolutions, pools and padding of `torch.nn.functional`, with torch's signatures, defaults and refusals.

Sizes of windows, strides and paddings are known at compile time. In-place variants and indices of maxima are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.ops.windows import windows
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.shapes import TAKEN, known_int, padded_indices, taken

FLOAT32 = DTYPES["float32"]

# --- arguments by axis ------------------------------------------------------------------------------------------


def _per_axis(b: Builder, value: Value, axes: int, subject: str, least: int = 1) -> tuple[int, ...]:
    """Return one int per axis, from one for all or one for each."""
    numbers = tuple(known_int(b, number, subject) for number in helpers.as_tuple(value))
    numbers = numbers * axes if len(numbers) == 1 else numbers
    if len(numbers) != axes or any(number < least for number in numbers):
        b.fail(f"{subject} is a number of {least} or more, or {axes} of them, not {value!r}")
    return numbers


def _batched(b: Builder, input: Value, axes: int, function: str) -> tuple[Any, Callable[[Any], Any]]:
    """Return the input with a batch axis, and the function that removes the axis where it was added."""
    helpers.require_tensor(b, f"the input of {function}", input)
    helpers.require_rank(b, f"the input of {function}", input, (axes + 1, axes + 2))
    if helpers.rank_of(b, input) == axes + 2:
        return input, lambda result: result
    return b.unsqueeze(input, 0), lambda result: b.squeeze(result, 0)


# --- convolutions --------------------------------------------------------------------------------------------------

CONVOLUTION = "convolution add reshape unsqueeze squeeze"


def _with_bias(b: Builder, value: Value, bias: Argument, channels: int, axes: int) -> Value:
    if bias is None:
        return value
    if helpers.shape_of(b, bias) != (channels,):
        b.fail(f"the bias has one element for each of {channels} channels; it is {b.type_of(bias)}")
    return b.add(value, b.reshape(bias, (channels, *(1 for _ in range(axes)))))


def _check_dtypes(b: Builder, *tensors: Value) -> None:
    dtypes = [b.type_of(tensor).dtype for tensor in tensors if tensor is not None]
    if len(set(dtypes)) > 1:
        b.fail(
            f"input, weight and bias have one dtype, not {', '.join(map(str, dtypes))}", help="cast them with .to(…)"
        )
    if dtypes[0].is_bool or dtypes[0].is_complex:
        b.fail(f"convolutions take real numbers, not {dtypes[0]}")


def _padding(
    b: Builder, padding: Argument, window: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if padding == "valid":
        return (0,) * len(window), (0,) * len(window)
    if padding == "same":
        if any(step != 1 for step in stride):
            b.fail("padding='same' is for a stride of 1", help="give the padding as numbers")
        widths = [step * (size - 1) for size, step in zip(window, dilation, strict=True)]
        return tuple(width // 2 for width in widths), tuple(width - width // 2 for width in widths)
    if isinstance(padding, str):
        b.fail(f"padding is 'same', 'valid' or numbers, not {padding!r}")
    numbers = _per_axis(b, padding, len(window), "padding", 0)
    return numbers, numbers


def _fits(b: Builder, image: tuple[int, ...], window: tuple[int, ...], dilation: tuple[int, ...]) -> None:
    extent = tuple(step * (size - 1) + 1 for size, step in zip(window, dilation, strict=True))
    if any(size < reach for size, reach in zip(image, extent, strict=True)):
        b.fail(f"a kernel that reaches over {extent} is larger than the padded input, {image}")


def _convolution(axes: int):
    def function(b, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        name = f"conv{axes}d"
        input, unbatched = _batched(b, input, axes, name)
        helpers.require_rank(b, f"the weight of {name}", weight, (axes + 2,))
        _check_dtypes(b, input, weight, bias)
        shape, kernel = helpers.shape_of(b, input), helpers.shape_of(b, weight)
        groups = _groups(b, groups, shape[1], kernel[0])
        if shape[1] != kernel[1] * groups:
            b.fail(f"{name} of {b.type_of(input)}: the weight takes {kernel[1] * groups} channels, not {shape[1]}")
        stride, dilation = _per_axis(b, stride, axes, "stride"), _per_axis(b, dilation, axes, "dilation")
        low, high = _padding(b, padding, kernel[2:], stride, dilation)
        _fits(b, tuple(map(sum, zip(low, shape[2:], high, strict=True))), kernel[2:], dilation)
        value = b.convolution(input, weight, stride, dilation, low, high, (1,) * axes, groups)
        return unbatched(_with_bias(b, value, bias, kernel[0], axes))

    return function


def _groups(b: Builder, groups: Argument, *channels: int) -> int:
    number = known_int(b, groups, "groups")
    if number < 1 or any(count % number for count in channels):
        b.fail(f"channels are in groups of one size: {' and '.join(map(str, channels))} are not, in {number} groups")
    return number


def _transposed(axes: int):
    def function(b, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        name = f"conv_transpose{axes}d"
        input, unbatched = _batched(b, input, axes, name)
        helpers.require_rank(b, f"the weight of {name}", weight, (axes + 2,))
        _check_dtypes(b, input, weight, bias)
        shape, kernel = helpers.shape_of(b, input), helpers.shape_of(b, weight)
        groups = _groups(b, groups, shape[1])
        if shape[1] != kernel[0]:
            b.fail(f"{name} of {b.type_of(input)}: the weight takes {kernel[0]} channels, not {shape[1]}")
        stride, dilation = _per_axis(b, stride, axes, "stride"), _per_axis(b, dilation, axes, "dilation")
        padding = _per_axis(b, padding, axes, "padding", 0)
        more = _per_axis(b, output_padding, axes, "output_padding", 0)
        if any(extra >= max(pair) for extra, *pair in zip(more, stride, dilation, strict=True)):
            b.fail("output_padding is smaller than the stride or the dilation")
        reach = [step * (size - 1) for size, step in zip(kernel[2:], dilation, strict=True)]
        ends = [(far - pad, far - pad + extra) for far, pad, extra in zip(reach, padding, more, strict=True)]
        low, high = (tuple(max(0, width) for width in side) for side in zip(*ends, strict=True))
        value = b.convolution(
            input, _as_convolution_kernel(b, weight, groups), (1,) * axes, dilation, low, high, stride, groups
        )
        for axis, (low_end, high_end) in enumerate(ends, 2):
            # Padding larger than the kernel crops the result.
            if low_end < 0 or high_end < 0:
                size = helpers.shape_of(b, value)[axis]
                value = b.cut(value, axis, slice(max(0, -low_end), max(0, size + min(0, high_end))))
        return unbatched(_with_bias(b, value, bias, kernel[1] * groups, axes))

    return function


def _as_convolution_kernel(b: Builder, weight: Value, groups: int) -> Value:
    """Return the kernel of a transposed convolution as that of a convolution: flipped, with channels exchanged."""
    channels, group_outputs, *window = helpers.shape_of(b, weight)
    weight = b.flip(weight, tuple(range(2, 2 + len(window))))
    if groups == 1:
        return helpers.swapped(b, weight, 0, 1)
    grouped = helpers.swapped(b, b.reshape(weight, (groups, channels // groups, group_outputs, *window)), 1, 2)
    return b.reshape(grouped, (groups * group_outputs, channels // groups, *window))


for _axes in (1, 2, 3):
    _name = f"conv{_axes}d"
    register(f"torch.nn.functional.{_name} torch.{_name}", _convolution(_axes), CONVOLUTION)
    _name = f"conv_transpose{_axes}d"
    register(f"torch.nn.functional.{_name} torch.{_name}", _transposed(_axes), f"{CONVOLUTION} flip transpose cut")


# --- pools ---------------------------------------------------------------------------------------------------------


def _pool_sizes(
    b: Builder,
    shape: tuple[int, ...],
    kernel_size: Argument,
    stride: Argument,
    padding: Argument,
    dilation: Argument,
    rounds_up: Argument,
) -> tuple[tuple[int, ...], ...]:
    """Return windows, strides, dilations, and the padding before and after each axis."""
    axes = len(shape)
    window, dilation = _per_axis(b, kernel_size, axes, "kernel_size"), _per_axis(b, dilation, axes, "dilation")
    stride = window if stride is None or stride == () else _per_axis(b, stride, axes, "stride")
    low, high = _per_axis(b, padding, axes, "padding", 0), []
    reach = [step * (size - 1) + 1 for size, step in zip(window, dilation, strict=True)]
    if any(2 * pad > size for pad, size in zip(low, window if set(dilation) == {1} else reach, strict=True)):
        b.fail(f"padding is at most half of kernel_size, not {padding!r} of {kernel_size!r}")
    for size, far, step, pad in zip(shape, reach, stride, low, strict=True):
        count = windows(size + 2 * pad, far, step, 1)
        # One more window for the remainder, if it starts inside the input or the padding before it.
        over = bool(rounds_up) and size + 2 * pad > (count - 1) * step + far and count * step < size + pad
        if count + over < 1:
            b.fail(f"a pool that reaches over {tuple(reach)} is larger than the input, {shape}")
        high.append(max(0, (count + over - 1) * step + far - size - pad))
    return window, stride, dilation, low, tuple(high)


def _max_pool(axes: int, has_indices: bool):
    def pool(b, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        input, unbatched = _batched(b, input, axes, f"max_pool{axes}d")
        shape, dtype = helpers.shape_of(b, input), b.type_of(input).dtype
        window, stride, dilation, low, high = _pool_sizes(
            b, shape[2:], kernel_size, stride, padding, dilation, ceil_mode
        )
        if dtype.is_bool or dtype.is_complex:
            b.fail(f"max_pool{axes}d takes real numbers, not {dtype}")
        smallest = float("-inf") if dtype.is_float else int(numpy.iinfo(dtype.numpy).min)
        ends = ((0, 0), (0, 0), *zip(low, high, strict=True))
        return unbatched(b.pool(b.pad(input, ends, smallest), "max", window, stride, dilation))

    if not has_indices:
        return pool

    def function(
        b, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
        return_indices=unsupported(False),
    ):  # fmt: skip
        return pool(b, input, kernel_size, stride, padding, dilation, ceil_mode)

    return function


def _counts(size: int, window: int, stride: int, low: int, high: int, padded: bool) -> list[int]:
    """Return how many elements of an axis each window averages; with `padded` padding elements count too."""
    start, end = (-low, size + low) if padded else (0, size)
    count = windows(low + size + high, window, stride, 1)
    firsts = [index * stride - low for index in range(count)]
    return [max(1, min(first + window, end) - max(first, start)) for first in firsts]


def _average_pool(axes: int, has_divisor: bool):
    def pool(b, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        input, unbatched = _batched(b, input, axes, f"avg_pool{axes}d")
        shape, dtype = helpers.shape_of(b, input)[2:], b.type_of(input).dtype
        window, stride, dilation, low, high = _pool_sizes(b, shape, kernel_size, stride, padding, 1, ceil_mode)
        if not dtype.is_float:
            b.fail(f"avg_pool{axes}d takes floats, not {dtype}", help="cast the input with .to(torch.float32)")
        ends = ((0, 0), (0, 0), *zip(low, high, strict=True))
        wide = b.cast(input, FLOAT32) if dtype.is_half else input
        sums = b.pool(b.pad(wide, ends, 0), "sum", window, stride, dilation)
        if divisor_override is not None:
            divisor = known_int(b, divisor_override, "divisor_override")
            if not divisor:
                b.fail("divisor_override must not be zero")
            return unbatched(b.cast(b.divide(sums, divisor), dtype))
        axes_of_windows = zip(shape, window, stride, low, high, strict=True)
        counts = [_counts(*sizes, bool(count_include_pad)) for sizes in axes_of_windows]
        return unbatched(b.cast(_divided(b, sums, counts), dtype))

    def function(b, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        return pool(b, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)

    def with_divisor(
        b, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        return pool(b, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    return with_divisor if has_divisor else function


def _divided(b: Builder, sums: Value, counts: list[list[int]]) -> Value:
    """Return `sums` divided by the product of the axes' counts; by a scalar where all windows are alike."""
    distinct = [set(axis_counts) for axis_counts in counts]
    if all(len(axis_counts) <= 1 for axis_counts in distinct):
        return b.divide(sums, prod(axis_counts.pop() for axis_counts in distinct if axis_counts))
    divisors = prod(numpy.ix_(*(numpy.array(axis_counts, float) for axis_counts in counts)))
    return b.divide(sums, b.literal(divisors.ravel().tolist(), divisors.shape, b.type_of(sums).dtype))


for _axes in (1, 2, 3):
    _pools = "pool pad unsqueeze squeeze"
    register(f"torch.nn.functional.max_pool{_axes}d", _max_pool(_axes, True), _pools)
    register(f"torch.max_pool{_axes}d", _max_pool(_axes, False), _pools)
    _of = "torch.nn.functional.avg_pool1d torch.avg_pool1d" if _axes == 1 else f"torch.nn.functional.avg_pool{_axes}d"
    register(_of, _average_pool(_axes, _axes > 1), f"{_pools} cast divide literal")


# --- pools to a size -----------------------------------------------------------------------------------------------


def _adaptive(axes: int, kind: str, has_indices: bool):
    def function(b, input, output_size):
        name = f"adaptive_{'avg' if kind == 'mean' else kind}_pool{axes}d"
        helpers.require_tensor(b, f"the input of {name}", input)
        helpers.require_rank(b, f"the input of {name}", input, (axes + 1, axes + 2))
        dtype = b.type_of(input).dtype
        if not dtype.is_float:
            b.fail(f"{name} takes floats, not {dtype}", help="cast the input with .to(torch.float32)")
        shape = helpers.shape_of(b, input)[-axes:]
        output_sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * axes
        if len(output_sizes) != axes:
            b.fail(f"output_size is a number, or {axes} of them, not {output_size!r}")
        sizes = [
            size if output is None else known_int(b, output, "output_size")
            for size, output in zip(shape, output_sizes, strict=True)
        ]
        if 0 in shape or any(size < 1 for size in sizes):
            b.fail(f"{name} of {b.type_of(input)} to {tuple(sizes)}: sizes are 1 or more")
        return b.cast(_adapted(b, b.cast(input, FLOAT32) if dtype.is_half else input, kind, sizes), dtype)

    def with_indices(b, input, output_size, return_indices=unsupported(False)):
        return function(b, input, output_size)

    return with_indices if has_indices else function


def _adapted(b: Builder, x: Value, kind: str, sizes: list[int]) -> Value:
    """Return one pool where all windows have one size, else pool axis by axis."""
    axes = len(sizes)
    shape = helpers.shape_of(b, x)[-axes:]
    if not any(size % count for size, count in zip(shape, sizes, strict=True)):
        window = tuple(size // count for size, count in zip(shape, sizes, strict=True))
        if kind == "max":
            return b.pool(x, "max", window, window, (1,) * axes)
        return b.divide(b.pool(x, "sum", window, window, (1,) * axes), prod(window))
    first = helpers.rank_of(b, x) - axes
    for axis, (size, count) in enumerate(zip(shape, sizes, strict=True), first):
        if count != size:
            bounds = [(index * size // count, -(-(index + 1) * size // count)) for index in range(count)]
            parts = [getattr(b, kind)(b.cut(x, axis, slice(*bound)), axis, True) for bound in bounds]
            x = parts[0] if count == 1 else b.concatenate(tuple(parts), axis)
    return x


for _axes in (1, 2, 3):
    _ops = "pool cast divide cut concatenate"
    _names = f"torch.nn.functional.adaptive_avg_pool{_axes}d"
    register(
        f"{_names} torch.adaptive_avg_pool1d" if _axes == 1 else _names, _adaptive(_axes, "mean", False), f"{_ops} mean"
    )
    register(f"torch.nn.functional.adaptive_max_pool{_axes}d", _adaptive(_axes, "max", True), f"{_ops} max")


# --- padding -------------------------------------------------------------------------------------------------------

_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""NumPy's name of each padding mode of torch."""


@spelling("torch.nn.functional.pad", ops=f"pad {TAKEN}")
def _(b, input, pad, mode="constant", value=None):
    helpers.require_tensor(b, "the input of pad", input)
    shape, pad = (
        helpers.shape_of(b, input),
        tuple(known_int(b, width, "a width of pad") for width in helpers.as_tuple(pad)),
    )
    if len(pad) % 2 or len(pad) > 2 * len(shape):
        b.fail(f"pad has two widths for each of the last axes of {b.type_of(input)}, not {pad}")
    widths = [(0, 0)] * (len(shape) - len(pad) // 2) + [*zip(pad[::2], pad[1::2], strict=True)][::-1]
    if any(min(low, 0) + size + min(high, 0) < 0 for (low, high), size in zip(widths, shape, strict=True)):
        b.fail(f"padding {b.type_of(input)} by {pad} leaves less than nothing of an axis")
    if mode == "constant":
        return _constant_pad(b, input, widths, 0 if value is None else value)
    if mode not in _MODES:
        b.fail(f"pad has the modes constant, {', '.join(_MODES)}, not {mode!r}")
    if value is not None:
        b.fail(f"a value is for the mode constant, not for {mode}")
    if len(shape) - len(pad) // 2 not in (1, 2):
        b.fail(f"mode {mode} pads all axes but the first one or two: {pad} does not, of {b.type_of(input)}")
    if mode == "circular":
        input, widths = _cropped(b, input, widths)
    for axis, (low, high) in enumerate(widths):
        size = helpers.shape_of(b, input)[axis]
        most = {"reflect": size - 1, "circular": size}.get(mode, max(low, high) if size else 0)
        if max(low, high) > most:
            b.fail(f"mode {mode} pads axis {axis} of {b.type_of(input)} by up to {most}, not by {max(low, high)}")
        indices = padded_indices(size, max(0, low), max(0, high), _MODES[mode])
        input = taken(b, input, indices[max(0, -low) : len(indices) - max(0, -high)], axis)
    return input


def _cropped(b: Builder, x: Value, widths: list[tuple[int, int]]) -> tuple[Value, list[tuple[int, int]]]:
    """Return the tensor cropped by the negative widths, and the other widths."""
    for axis, (low, high) in enumerate(widths):
        if low < 0 or high < 0:
            size = helpers.shape_of(b, x)[axis]
            x = b.cut(x, axis, slice(max(0, -low), size - max(0, -high)))
    return x, [(max(0, low), max(0, high)) for low, high in widths]


def _constant_pad(b: Builder, x: Value, widths: list[tuple[int, int]], value: Value) -> Value:
    if b.type_of(value) is not None:
        b.fail("the value of pad is a number known at compile time", help="write into a tensor of torch.full instead")
    x, widths = _cropped(b, x, widths)
    return b.pad(x, tuple(widths), value)
