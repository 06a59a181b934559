"""Decide whether a reshape of a view is a view again or a copy, as NumPy and torch do: by the strides of its axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.dialect.builder import KernelValue

Layout = list[tuple[int, int]]
"""The size and the stride, in elements, of each axis."""
Step = tuple[str, Mapping[str, Any], bool]
"""A view operation, its attributes, and whether it is a reshape that does more than add and drop axes of size 1."""
_RESHAPES = ("reshape", "dynamic_reshape")


def keeps_memory(
    shape: Sequence[KernelValue], axes: tuple[int, ...] | None, steps: Sequence[Step], contiguous: bool = False
) -> bool | None:
    """Return whether a chain of view operations on an array copies nothing; None where only the run shows it.

    `axes` are those of the array from the outermost one in memory on: none for a row-major one, None where not known.
    With `contiguous`, the result has to be row-major as well.
    """
    layout = None if axes is None or any(map(is_dynamic, shape)) else laid_out(shape, axes)
    is_whole = axes == ()
    for op, attributes, moves_axes in steps:
        if op in _RESHAPES and moves_axes and layout is None and not is_whole:
            return None
        is_whole = is_whole and op in _RESHAPES
        if layout is None or _has_run_time_sizes(attributes):
            layout = None
            continue
        layout = stepped(layout, op, attributes)
        if layout is None:
            return False
    if not contiguous or is_whole:
        return True
    return None if layout is None else _is_row_major(layout)


def steps_along_last_axis(shape: Sequence[KernelValue], axes: tuple[int, ...] | None, steps: Sequence[Step]) -> bool:
    """Return whether elements of a chain of views are known to lie apart along the last axis."""
    layout: Layout | None = None if axes is None or any(map(is_dynamic, shape)) else laid_out(shape, axes)
    for op, attributes, _ in steps:
        if layout is None or _has_run_time_sizes(attributes):
            return False
        layout = stepped(layout, op, attributes)
    return bool(layout) and layout[-1][0] > 1 and layout[-1][1] != 1


def row_major(shape: Sequence[int]) -> Layout:
    """Return the sizes of a shape with their row-major strides in elements."""
    layout: Layout = []
    stride = 1
    for size in reversed(shape):
        layout.insert(0, (size, stride))
        stride *= size
    return layout


def laid_out(shape: Sequence[int], axes: tuple[int, ...]) -> Layout:
    """Return the sizes of a new array with its strides in elements; without axes, it is row-major."""
    if not axes:
        return row_major(shape)
    strides = dict(zip(axes, row_major([shape[axis] for axis in axes]), strict=True))
    return [strides[axis] for axis in range(len(shape))]


def _is_row_major(layout: Layout) -> bool:
    right = row_major([size for size, _ in layout])
    return all(size == 1 or stride == other for (size, stride), (_, other) in zip(layout, right, strict=True))


def _has_run_time_sizes(attributes: Mapping[str, Any]) -> bool:
    values = [attributes.get(name, ()) for name in ("shape", "sizes", "strides")]
    return any(is_dynamic(size) or not isinstance(size, int) or size < 0 for value in values for size in value)


def stepped(layout: Layout, op: str, attributes: Mapping[str, Any]) -> Layout | None:
    """Return the layout after a view operation; None where it copies."""
    if op == "extract_slice":
        pairs = zip(layout, attributes["sizes"], attributes["strides"], strict=True)
        cut = [(size, stride * step) for (_, stride), size, step in pairs]
        return [axis for position, axis in enumerate(cut) if position not in attributes.get("drop", ())]
    if op == "transpose":
        return [layout[axis] for axis in attributes["permutation"]]
    if op == "flip":
        axes = {axis % len(layout) for axis in attributes["axes"]}
        return [(size, -stride if axis in axes else stride) for axis, (size, stride) in enumerate(layout)]
    if op in ("broadcast_to", "dynamic_broadcast"):
        shape = attributes["shape"]
        padded = [(1, 0)] * (len(shape) - len(layout)) + layout
        return [(size, stride if size == old else 0) for size, (old, stride) in zip(shape, padded, strict=True)]
    return reshaped(layout, attributes["shape"]) if op in _RESHAPES else layout


def reshaped(layout: Layout, shape: Sequence[int]) -> Layout | None:
    """Return the layout of a reshape without a copy; None where there is none.

    Neighbouring axes whose strides fit are one chunk; the new axes have to part the chunks, from the last one on.
    """
    if 0 in shape:
        return row_major(shape)
    chunks: Layout = []
    for size, stride in layout:
        if size == 1:
            continue
        if chunks and chunks[-1][1] == size * stride:
            chunks[-1] = (chunks[-1][0] * size, stride)
        else:
            chunks.append((size, stride))
    remaining, stride, result = 1, 1, []
    for size in reversed(shape):
        if size > 1 and remaining == 1:
            remaining, stride = chunks.pop()
        if remaining % size:
            return None
        result.insert(0, (size, stride))
        remaining, stride = remaining // size, stride * size
    return result
