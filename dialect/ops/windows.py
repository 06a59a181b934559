"""Rows of the op table for sliding windows: convolutions with padding, strides and groups, and pools.

Images are ``(batch, channels, sizes…)``, kernels ``(channels out, channels in of a group, sizes…)``, as torch has them.
Kernels are not flipped. Products of fp16 and bf16 are accumulated in fp32 and rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.ops.op import Op, reference_dtype
from mlirtri.errors import KernelTypeError, KernelValueError

POOLS = {"max": np.maximum, "min": np.minimum, "sum": np.add}
"""The NumPy ufunc of each kind of `pool`."""


def windows(size: int, window: int, stride: int, dilation: int) -> int:
    """Return how many windows of `window` elements fit into `size`."""
    return max(0, (size - dilation * (window - 1) - 1) // stride + 1)


def spread_size(size: int, spread: int) -> int:
    """Return the length of an axis with ``spread - 1`` zeros inserted between its elements."""
    return max(0, (size - 1) * spread + 1)


def _convolution(types, attributes) -> TensorType:
    x, w = types
    if x.rank != w.rank or x.rank < 3 or x.dtype != w.dtype:
        raise KernelTypeError(f"a convolution takes an image and a kernel of one rank from 3 on, got {x} and {w}")
    if not (x.is_static and w.is_static) or x.dtype.is_complex or x.dtype.is_bool:
        raise KernelTypeError(f"a convolution takes real numbers with sizes known at compile time, got {x} and {w}")
    groups, axes = attributes["groups"], x.rank - 2
    if groups < 1 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise KernelTypeError(f"a convolution in {groups} groups of {x} and {w}: the channels do not fit")
    _check(attributes, axes, ("strides", "dilations", "spread"), ("low", "high"))
    axes_of = (x.shape[2:], w.shape[2:], *(attributes[name] for name in _CONVOLUTION[:-1]))
    sizes = [
        windows(spread_size(size, spread) + low + high, window, stride, dilation)
        for size, window, stride, dilation, low, high, spread in zip(*axes_of, strict=True)
    ]
    return x.with_shape((x.shape[0], w.shape[0], *sizes))


_CONVOLUTION = ("strides", "dilations", "low", "high", "spread", "groups")


def _check(attributes, axes: int, positive: Sequence[str], others: Sequence[str] = ()) -> None:
    for name in (*positive, *others):
        values, least = attributes[name], 1 if name in positive else 0
        if len(values) != axes or any(value < least for value in values):
            raise KernelValueError(f"{name} are {axes} numbers of {least} or more, not {values}")


def _pool(types, attributes) -> TensorType:
    [x] = types
    if attributes["kind"] not in POOLS:
        raise KernelValueError(f"a pool is one of {', '.join(POOLS)}, not {attributes['kind']!r}")
    if not x.is_static or x.dtype.is_complex or x.dtype.is_bool:
        raise KernelTypeError(f"a pool takes real numbers with sizes known at compile time, got {x}")
    axes = len(attributes["window"])
    if not 1 <= axes <= x.rank:
        raise KernelValueError(f"a pool of {x} has 1 to {x.rank} axes, not {axes}")
    _check(attributes, axes, ("window", "strides", "dilations"))
    parameters = (attributes[name] for name in ("window", "strides", "dilations"))
    sizes = [windows(*extents) for extents in zip(x.shape[-axes:], *parameters, strict=True)]
    return x.with_shape((*x.shape[:-axes], *sizes))


def _shifted(x: np.ndarray, sizes, window, strides, dilations) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Yield each offset into the window, with the elements of all windows at that offset."""
    for index in product(*map(range, window)):
        starts = [offset * dilation for offset, dilation in zip(index, dilations, strict=True)]
        axes = zip(starts, sizes, strides, strict=True)
        parts = [slice(start, start + max(0, (size - 1) * stride + 1), stride) for start, size, stride in axes]
        yield index, x[(..., *parts)]


def _reference_convolution(x, w, strides, dilations, low, high, spread, groups):
    wide = reference_dtype(x)
    axes = zip(x.shape[2:], spread, low, high, strict=True)
    sizes = [spread_size(size, step) + before + after for size, step, before, after in axes]
    padded = np.zeros([*x.shape[:2], *sizes], wide)
    interiors = zip(low, x.shape[2:], spread, strict=True)
    padded[(..., *(slice(a, a + spread_size(size, step), step) for a, size, step in interiors))] = x
    sizes = [windows(*lengths) for lengths in zip(padded.shape[2:], w.shape[2:], strides, dilations, strict=True)]
    kernel = w.astype(wide).reshape(groups, w.shape[0] // groups, *w.shape[1:])
    result = np.zeros((x.shape[0], groups, w.shape[0] // groups, *sizes), wide)
    for index, part in _shifted(padded, sizes, w.shape[2:], strides, dilations):
        part = part.reshape(x.shape[0], groups, w.shape[1], *sizes)
        result += np.einsum("ngc...,goc->ngo...", part, kernel[(..., *index)])
    return result.reshape(x.shape[0], w.shape[0], *sizes).astype(x.dtype)


def _reference_pool(x, kind, window, strides, dilations):
    sizes = [windows(*extents) for extents in zip(x.shape[-len(window) :], window, strides, dilations, strict=True)]
    wide = reference_dtype(x)
    parts = [part.astype(wide) for _, part in _shifted(x, sizes, window, strides, dilations)]
    result = parts[0].copy()
    for part in parts[1:]:
        result = POOLS[kind](result, part)
    return result.astype(x.dtype)


def rows() -> Iterator[Op]:
    integers = {name: "ints" for name in _CONVOLUTION[:-1]} | {"groups": "int"}
    yield Op("convolution", "window", ("x", "w"), integers, _convolution, _reference_convolution, structured=True)
    sizes = {"kind": "string", "window": "ints", "strides": "ints", "dilations": "ints"}
    yield Op("pool", "window", ("x",), sizes, _pool, _reference_pool, structured=True)
