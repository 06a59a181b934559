"""Rewrite `GridSample` as a gather of all taps and a weighted sum; torch-mlir lowers two of its variants.

Source of coordinates, reflections and taps: the ONNX operator specification, GridSample-22; of the cubic: R. Keys,
"Cubic Convolution Interpolation for Digital Image Processing", 1981.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Rewrite, Values, attribute_of

_A = -0.75
"""The parameter of the cubic."""
_FIRST = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
"""The taps of each mode, counted from the coordinate's floor."""


def _sampled(node: NodeProto, values: Values) -> list[NodeProto]:
    source, grid = node.input
    shape, grid_shape = values.static_shape(source), values.static_shape(grid)
    mode = attribute_of(node, "mode", b"linear").decode().removeprefix("bi")
    padding = attribute_of(node, "padding_mode", b"zeros").decode()
    if shape is None or grid_shape is None:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a GridSample of tensors of run-time sizes",
            help="export the model with numbers for its sizes",
        )
    sampler = _Sampler(node, values, shape[2:], mode, padding)
    index, weight = sampler.taps(grid, prod(grid_shape[1:-1]), grid_shape[0])
    add = sampler.add
    batch, channels, points = shape[0], shape[1], prod(shape[2:])
    flat = add("Reshape", source, add.constant(np.array([batch, channels, points])))
    taps = len(_FIRST[mode]) ** len(shape[2:])
    queries = prod(grid_shape[1:-1])
    every = add("Expand", index, add.constant(np.array([batch, channels, taps * queries])))
    gathered = add("GatherElements", flat, every, axis=2)
    split = add("Reshape", gathered, add.constant(np.array([batch, channels, taps, queries])))
    weighted = add("Mul", split, add("CastLike", weight, source))
    total = add("ReduceSum", weighted, add.constant(np.array([2])), keepdims=0)
    add("Reshape", total, add.constant(np.array([batch, channels, *grid_shape[1:-1]])), result=0)
    return add.nodes


class _Sampler:
    """Builds the positions and weights of the taps, axis by axis."""

    def __init__(self, node: NodeProto, values: Values, lengths: list[int], mode: str, padding: str):
        self.add = Nodes(node)
        self.dtype = values.dtype(node.input[1])
        self.lengths, self.mode, self.padding = lengths, mode, padding
        self.is_aligned = bool(attribute_of(node, "align_corners", 0))

    def taps(self, grid: str, queries: int, batch: int) -> tuple[str, str]:
        """Return the flat positions, of shape (batch, 1, taps * queries), and weights, (batch, 1, taps, queries)."""
        add, index, weight, count = self.add, "", "", 1
        for axis, length in enumerate(self.lengths):
            component = add("Gather", grid, add.constant(np.array(len(self.lengths) - 1 - axis)), axis=-1)
            flat = add("Reshape", component, add.constant(np.array([batch, 1, 1, queries])))
            position, factor = self._axis_taps(flat, length)
            if not index:
                index, weight, count = position, factor, len(_FIRST[self.mode])
                continue
            scaled = add("Mul", index, self._number(length, np.int64))
            index = self._combined("Add", scaled, position, count, batch, queries)
            weight = self._combined("Mul", weight, factor, count, batch, queries)
            count *= len(_FIRST[self.mode])
        return add("Reshape", index, add.constant(np.array([batch, 1, -1]))), self._over_channels(
            weight, batch, queries
        )

    def _over_channels(self, weight: str, batch: int, queries: int) -> str:
        return self.add("Reshape", weight, self.add.constant(np.array([batch, 1, -1, queries])))

    def _combined(self, operator: str, one: str, other: str, count: int, batch: int, queries: int) -> str:
        """Combine all taps of the axes so far, (batch, count, 1, queries), with all of the next one."""
        add, taps = self.add, len(_FIRST[self.mode])
        left = add("Reshape", one, add.constant(np.array([batch, count, 1, queries])))
        right = add("Reshape", other, add.constant(np.array([batch, 1, taps, queries])))
        return add("Reshape", add(operator, left, right), add.constant(np.array([batch, count * taps, 1, queries])))

    def _axis_taps(self, coordinate: str, length: int) -> tuple[str, str]:
        """Return positions inside of the axis and weights, of shape (batch, taps, 1, queries)."""
        add = self.add
        location = self._location(coordinate, length)
        if self.mode == "nearest":
            location = add("Round", location)
        if self.mode != "cubic":
            location = self._padded(location, length)
        elif self.padding == "border":
            location = self._clamped(location, length)
        start = add("Round" if self.mode == "nearest" else "Floor", location)
        offsets = add.constant(np.array(_FIRST[self.mode], self.dtype).reshape(1, -1, 1, 1))
        taps = add("Add", start, offsets)
        factor = self._factor(add("Abs", add("Sub", location, taps)))
        low, high = self._number(0), self._number(length - 1)
        if self.padding == "zeros":
            inside = add("And", add("GreaterOrEqual", taps, low), add("LessOrEqual", taps, high))
            factor = add("Where", inside, factor, self._number(0))
        elif self.mode == "cubic":
            taps = self._padded(taps, length)
        return add("Cast", add("Clip", taps, low, high), to=7), factor

    def _location(self, coordinate: str, length: int) -> str:
        add, one, two = self.add, self._number(1), self._number(2)
        shifted = add("Add", coordinate, one)
        if self.is_aligned:
            return add("Mul", add("Div", shifted, two), self._number(length - 1))
        return add("Div", add("Sub", add("Mul", shifted, self._number(length)), one), two)

    def _clamped(self, location: str, length: int) -> str:
        """Clamp what lies beyond the edges of the image; between edge and border cubics are extrapolated."""
        add, edge = self.add, 0.0 if self.is_aligned else 0.5
        low, high = self._number(-edge), self._number(length - 1 + edge)
        outside = add("Or", add("Less", location, low), add("Greater", location, high))
        return add("Where", outside, self._padded(location, length), location)

    def _padded(self, location: str, length: int) -> str:
        """Clamp to the border, or reflect at the edges of the image."""
        add = self.add
        if self.padding == "border":
            return add("Clip", location, self._number(0), self._number(length - 1))
        if self.padding == "zeros":
            return location
        low, high = (0.0, length - 1.0) if self.is_aligned else (-0.5, length - 0.5)
        if high <= low:
            return add("Mul", location, self._number(0))
        span = self._number(high - low)
        distance = add("Abs", add("Sub", location, self._number(low)))
        turns = add("Floor", add("Div", distance, span))
        rest = add("Sub", distance, add("Mul", turns, span))
        is_odd = add("Equal", add("Mod", turns, self._number(2), fmod=1), self._number(1))
        return add("Add", add("Where", is_odd, add("Sub", span, rest), rest), self._number(low))

    def _factor(self, distance: str) -> str:
        add, number = self.add, self._number
        if self.mode == "nearest":
            return add("Add", add("Mul", distance, number(0)), number(1))
        if self.mode == "linear":
            return add("Sub", number(1), distance)
        near = self._polynomial(distance, (_A + 2, -(_A + 3), 0, 1))
        far = self._polynomial(distance, (_A, -5 * _A, 8 * _A, -4 * _A))
        return add("Where", add("LessOrEqual", distance, number(1)), near, far)

    def _polynomial(self, x: str, coefficients: tuple[float, ...]) -> str:
        value = self._number(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self.add("Add", self.add("Mul", value, x), self._number(coefficient))
        return value

    def _number(self, value: float, dtype: Any = None) -> str:
        return self.add.constant(np.array(value, dtype or self.dtype))


SAMPLES: dict[str, Rewrite] = {"GridSample": _sampled}
