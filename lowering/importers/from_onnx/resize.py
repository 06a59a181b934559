"""Rewrite `Resize` as one gather per tap and axis: positions and weights of the taps are known when compiling.

    y[i] = sum over t of weight[t, i] * x[position[t, i]]

Source of coordinates and weights: the ONNX operator specification, Resize-19; the cubic is R. Keys, "Cubic Convolution
Interpolation for Digital Image Processing", 1981.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from onnx import NodeProto, TensorProto

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.nodes import FLOATS, Nodes, Rewrite, Values, attribute_of, operand


@dataclass(frozen=True)
class _Axis:
    """What resizes one axis."""

    axis: int
    length: int
    """Before it."""
    size: int
    """After it."""
    scale: float
    region: tuple[float, float] = (0.0, 1.0)
    """The part that `tf_crop_and_resize` takes."""


@dataclass(frozen=True)
class _Taps:
    positions: np.ndarray
    """Of shape (taps, size)."""
    weights: np.ndarray
    is_outside: np.ndarray
    """Which results are the extrapolation value."""
    length: int
    """The length of the axis in the operand."""

    @property
    def is_identity(self) -> bool:
        if len(self.positions) > 1 or self.is_outside.any() or (self.weights != 1).any():
            return False
        return np.array_equal(self.positions[0], np.arange(self.length))


def _resized(node: NodeProto, values: Values) -> list[NodeProto]:
    source = node.input[0]
    shape = values.static_shape(source)
    if shape is None:
        return _of_run_time(node)
    add = Nodes(node)
    kind = values.element_type(source)
    value, is_nearest = source, attribute_of(node, "mode", b"nearest") == b"nearest"
    if not is_nearest and kind != TensorProto.DOUBLE:
        value = add("Cast", value, to=TensorProto.FLOAT)
    dtype = values.dtype(source) if is_nearest or kind == TensorProto.DOUBLE else np.dtype(np.float32)
    for axis in _axes(node, values, shape):
        taps = _taps(node, axis)
        if taps.is_identity:
            continue
        value = _interpolated(add, value, axis.axis, len(shape), taps, dtype, is_nearest)
        if taps.is_outside.any():
            fill = add.constant(np.array(attribute_of(node, "extrapolation_value", 0.0), dtype))
            value = add("Where", add.constant(_along(taps.is_outside, axis.axis, len(shape))), fill, value)
    is_converted = not is_nearest and kind not in (TensorProto.FLOAT, TensorProto.DOUBLE)
    if is_converted and kind not in FLOATS:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a Resize of integers by mode {attribute_of(node, 'mode', b'').decode()!r}",
            help="cast to a float before it and back after it",
        )
    _ = add("Cast", value, to=kind, result=0) if is_converted else add("Identity", value, result=0)
    return add.nodes


def _of_run_time(node: NodeProto) -> list[NodeProto]:
    """Leave a tensor of run-time sizes to torch-mlir, but for the coordinates that it rounds."""
    if attribute_of(node, "coordinate_transformation_mode", b"half_pixel") == b"align_corners" and operand(node, 2):
        raise UnsupportedOperationError(
            f"node {node.name!r} is a Resize with aligned corners by scales that may give no whole size",
            help="give the sizes instead of the scales",
        )
    return [node]


def _axes(node: NodeProto, values: Values, shape: list[int]) -> list[_Axis]:
    rank = len(shape)
    axes = [axis % rank for axis in attribute_of(node, "axes", None) or range(rank)]
    arrays = [values.constants.get(operand(node, position)) for position in (1, 2, 3)]
    roi, scales, sizes = (None if array is None or not array.size else array.tolist() for array in arrays)
    lengths = [shape[axis] for axis in axes]
    if sizes is not None:
        sizes, scales = _sizes(sizes, lengths, attribute_of(node, "keep_aspect_ratio_policy", b"stretch"))
    elif scales is not None:
        sizes = [floor(length * scale) for length, scale in zip(lengths, scales, strict=True)]
    else:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a Resize to sizes that are computed at run time", help="make them constants"
        )
    regions = [(0.0, 1.0)] * len(axes) if roi is None else list(zip(roi, roi[len(axes) :], strict=False))
    parts = zip(axes, lengths, sizes, scales, regions, strict=True)
    return [_Axis(*part) for part in parts]


def _sizes(sizes: list[int], lengths: list[int], policy: bytes) -> tuple[list[int], list[float]]:
    scales = [size / length for size, length in zip(sizes, lengths, strict=True)]
    if policy == b"stretch":
        return sizes, scales
    scale = min(scales) if policy == b"not_larger" else max(scales)
    return [floor(scale * length + 0.5) for length in lengths], [scale] * len(lengths)


def _coordinates(mode: str, axis: _Axis) -> np.ndarray:
    """Return the coordinate in the operand of each position in the result."""
    index = np.arange(axis.size, dtype=np.float64)
    scaled, last = axis.scale * axis.length, axis.length - 1
    if mode == "align_corners":
        return np.zeros(axis.size) if scaled == 1 else index * last / (scaled - 1)
    if mode == "asymmetric":
        return index / axis.scale
    if mode == "tf_crop_and_resize":
        start, end = axis.region
        if scaled == 1:
            return np.full(axis.size, start * last + (end - start) * last / 2)
        return index * (end - start) * last / (scaled - 1) + start * last
    if mode == "pytorch_half_pixel" and scaled == 1:
        return np.full(axis.size, -0.5)
    centers = (index + 0.5) / axis.scale - 0.5
    return centers + axis.length / 2 * (1 - axis.size / scaled) if mode == "half_pixel_symmetric" else centers


def _taps(node: NodeProto, axis: _Axis) -> _Taps:
    mode = attribute_of(node, "coordinate_transformation_mode", b"half_pixel").decode()
    coordinates = _coordinates(mode, axis)
    is_outside = np.zeros(axis.size, bool)
    if mode == "tf_crop_and_resize":
        is_outside = (coordinates < 0) | (coordinates > axis.length - 1)
    kind = attribute_of(node, "mode", b"nearest").decode()
    if kind == "nearest":
        rounding = _ROUNDINGS[attribute_of(node, "nearest_mode", b"round_prefer_floor").decode()]
        positions, weights = rounding(coordinates)[None].astype(np.int64), np.ones((1, axis.size))
    else:
        positions, weights = _weights(node, kind, coordinates, axis.scale)
    inside = (positions >= 0) & (positions < axis.length)
    if attribute_of(node, "exclude_outside", 0):
        weights = weights * inside
        weights = weights / weights.sum(0)
    return _Taps(np.clip(positions, 0, axis.length - 1), weights, is_outside, axis.length)


_ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _weights(node: NodeProto, kind: str, coordinates: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions and weights of a linear or cubic kernel, stretched where it is to smooth."""
    stretch = min(scale, 1.0) if attribute_of(node, "antialias", 0) else 1.0
    reach = ceil((1 if kind == "linear" else 2) / stretch)
    positions = np.floor(coordinates)[None] + np.arange(1 - reach, reach + 1)[:, None]
    distance = np.abs(positions - coordinates) * stretch
    weights = (
        np.clip(1 - distance, 0, 1)
        if kind == "linear"
        else _cubic(distance, attribute_of(node, "cubic_coeff_a", -0.75))
    )
    used = weights.any(1)
    return positions[used].astype(np.int64), (weights / weights.sum(0))[used]


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _interpolated(add: Nodes, value: str, axis: int, rank: int, taps: _Taps, dtype: np.dtype, is_nearest: bool) -> str:
    terms = []
    for positions, weights in zip(taps.positions, taps.weights, strict=True):
        term = add("Gather", value, add.constant(positions), axis=axis)
        if not is_nearest:
            term = add("Mul", term, add.constant(_along(weights.astype(dtype), axis, rank)))
        terms.append(term)
    total = terms[0]
    for term in terms[1:]:
        total = add("Add", total, term)
    return total


def _along(vector: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return vector.reshape([-1 if position == axis else 1 for position in range(rank)])


RESIZES: dict[str, Rewrite] = {"Resize": _resized}
