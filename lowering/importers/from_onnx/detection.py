"""Rewrite the operators of object detection: NonMaxSuppression and RoiAlign, as loops over boxes and over samples."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from mlirtri.lowering.importers.from_onnx.layers import static_shape
from mlirtri.lowering.importers.from_onnx.loops import for_loop
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Rewrite, Values, attribute_of, operand
from mlirtri.lowering.importers.from_onnx.selection import Selection

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
SCALAR = np.array([], np.int64)
"""The shape of a scalar."""


def _suppressed(node: NodeProto, values: Values) -> list[NodeProto]:
    """Select boxes by falling score, each unless one that was selected before overlaps it.

    Source: the ONNX operator specification, NonMaxSuppression-11.
    """
    batches, count, _ = static_shape(node, node.input[0], values)
    classes = static_shape(node, node.input[1], values)[1]
    add, shape = Nodes(node), [batches, classes, count]
    scores, order = add.several("TopK", node.input[1], add.constant(np.array([count])), count=2, axis=2)
    index = add("Expand", add("Unsqueeze", order, add.constant(np.array([3]))), add.constant(np.array([*shape, 4])))
    every = add("Unsqueeze", node.input[0], add.constant(np.array([1])))
    boxes = add("GatherElements", add("Expand", every, add.constant(np.array([*shape, 4]))), index, axis=2)
    over = _overlapping(add, boxes, shape, _scalar(add, operand(node, 3), np.float32(0)))
    alive = add.constant(np.ones(shape, bool))
    if operand(node, 4):
        alive = add("Greater", scores, _scalar(add, node.input[4], np.float32(0)))
    positions = add.constant(np.arange(count))

    def step(inner: Nodes, box: str, alive: str) -> list[str]:
        # Axes are constants of the body: a loop's graph does not see the elements of those around it.
        mine = inner("Unsqueeze", inner("Gather", alive, box, axis=2), inner.constant(np.array([2])))
        hit = inner("And", inner("Gather", over, box, axis=2), inner("Greater", positions, box))
        return [inner("And", alive, inner("Not", inner("And", hit, mine)))]

    [alive] = for_loop(add, count, [alive], [(BOOL, shape)], step)
    # The most boxes are those of each class; without the operand there are none.
    most = _scalar(add, operand(node, 2), np.int64(0))
    number = add("CumSum", add("Cast", alive, to=INT64), add.constant(np.array(2)))
    alive = add("And", alive, add("LessOrEqual", number, most))
    line = add.constant(np.array([-1]))
    selection = Selection(add, add("Reshape", alive, line), prod(shape))
    pairs = np.stack(np.meshgrid(np.arange(batches), np.arange(classes), indexing="ij"), -1).reshape(-1, 2)
    column = add("Reshape", order, add.constant(np.array([-1, 1])))
    rows = add("Concat", add.constant(np.repeat(pairs, count, 0)), column, axis=1)
    selection.first(add("Gather", rows, selection.indices, axis=0), result=0)
    return add.nodes


def _scalar(add: Nodes, name: str, default: Any) -> str:
    return add("Reshape", name, add.constant(SCALAR)) if name else add.constant(default)


def _overlapping(add: Nodes, boxes: str, shape: list[int], threshold: str) -> str:
    """Return for each pair of boxes whether their intersection over union is above the threshold."""
    parts = add.several("Split", boxes, add.constant(np.ones(4, np.int64)), count=4, axis=3, part="corner")
    sides = []
    for axis in (0, 1):
        if attribute_of(add.node, "center_point_box", 0):
            half = add("Div", parts[axis + 2], add.constant(np.float32(2)))
            sides.append((add("Sub", parts[axis], half), add("Add", parts[axis], half)))
        else:
            pair = (parts[axis], parts[axis + 2])
            sides.append((add("Min", *pair), add("Max", *pair)))
    zero, row = add.constant(np.float32(0)), add.constant(np.array([*shape[:2], 1, shape[2]]))
    lengths, areas = [], []
    for low, high in sides:
        other_low, other_high = add("Reshape", low, row), add("Reshape", high, row)
        shared = add("Sub", add("Min", high, other_high), add("Max", low, other_low))
        lengths.append(add("Max", shared, zero))
        areas.append(add("Sub", high, low))
    area, shared = add("Mul", *areas), add("Mul", *lengths)
    union = add("Sub", add("Add", area, add("Reshape", area, row)), shared)
    has_area = add("Greater", area, zero)
    is_proper = add("And", has_area, add("Reshape", has_area, row))
    is_proper = add("And", is_proper, add("And", add("Greater", shared, zero), add("Greater", union, zero)))
    ratio = add("Div", shared, add("Where", is_proper, union, add.constant(np.float32(1))))
    return add("And", is_proper, add("Greater", ratio, threshold))


def _aligned(node: NodeProto, values: Values) -> list[NodeProto]:
    """Average, or take the maximum of, samples between the pixels, one sample of each bin after the other.

    Source: the ONNX operator specification, RoiAlign-16, and its reference implementation for the maximum, which is
    that of the four weighted pixels around each sample.
    """
    regions, channels = static_shape(node, node.input[1], values)[0], static_shape(node, node.input[0], values)[1]
    add, kind = Nodes(node), values.element_type(node.input[0])
    sampler = _Sampler(add, values, regions)
    result = [regions, channels, *sampler.bins]
    is_max = attribute_of(node, "mode", b"avg") == b"max"
    start = add.constant(np.full(result, -inf if is_max else 0, sampler.dtype))

    def step(inner: Nodes, sample: str, total: str) -> list[str]:
        terms, is_used = sampler.terms(inner, sample)
        combine = "Max" if is_max else "Add"
        value = inner(combine, inner(combine, *terms[:2]), inner(combine, *terms[2:]))
        value = inner(combine, total, inner("Reshape", value, inner.constant(np.array(result))))
        return [inner("Where", is_used, value, total)]

    [total] = for_loop(add, sampler.trips, [start], [(kind, result)], step)
    one = add.constant(np.array(1, sampler.dtype))
    count = add("Reshape", add("Mul", *sampler.counts), add.constant(np.array([-1, 1, 1, 1])))
    if is_max:
        has_samples = add("GreaterOrEqual", count, one)
        add("Where", has_samples, total, add.constant(np.array(0, sampler.dtype)), result=0)
    else:
        add("Div", total, add("Max", count, one), result=0)
    return add.nodes


class _Sampler:
    """The samples of all regions: a grid of the same number in each bin of a region."""

    def __init__(self, add: Nodes, values: Values, regions: int):
        node = add.node
        self.dtype, self.regions = values.dtype(node.input[0]), regions
        self.image = static_shape(node, node.input[0], values)
        self.bins = [attribute_of(node, f"output_{side}", 1) for side in ("height", "width")]
        shift = 0.5 if attribute_of(node, "coordinate_transformation_mode", b"half_pixel") == b"half_pixel" else 0.0
        scale = add.constant(np.array(attribute_of(node, "spatial_scale", 1.0), self.dtype))
        scaled = add("Sub", add("Mul", node.input[1], scale), add.constant(np.array(shift, self.dtype)))
        left, top, right, bottom = add.several(
            "Split", scaled, add.constant(np.ones(4, np.int64)), count=4, axis=1, part="side"
        )
        one = add.constant(np.array(1, self.dtype))
        self.starts, self.steps, self.counts, limits = [top, left], [], [], []
        for low, high, bins in zip(self.starts, (bottom, right), self.bins, strict=True):
            length = add("Sub", high, low)
            length = length if shift else add("Max", length, one)
            self.steps.append(add("Div", length, add.constant(np.array(bins, self.dtype))))
            limits.append(self._count(add, self.steps[-1]))
        self.rows = limits[1]
        self.trips = add("Mul", *limits)
        pixels = add.constant(np.array([regions, self.image[1], prod(self.image[2:])]))
        self.pixels = add("Reshape", add("Gather", node.input[0], node.input[2], axis=0), pixels)

    def _count(self, add: Nodes, step: str) -> str:
        """Note how many samples the bins of each region have along an axis, and return the largest such number."""
        ratio = attribute_of(add.node, "sampling_ratio", 0)
        if ratio > 0:
            self.counts.append(add.constant(np.full((self.regions, 1), ratio, self.dtype)))
            return add.constant(np.array(ratio))
        zero = add.constant(np.array(0, self.dtype))
        self.counts.append(add("Max", add("Ceil", step), zero))
        largest = add("ReduceMax", self.counts[-1], add.constant(np.array([0, 1])), keepdims=0)
        return add("Cast", largest, to=INT64)

    def terms(self, inner: Nodes, sample: str) -> tuple[list[str], str]:
        """Return the four weighted pixels around a sample of each bin, and whether the region has that sample."""
        axes, used = [], []
        one = inner.constant(np.array(1))
        # A grid of no columns has no samples, but the remainder is computed.
        columns = inner("Max", self.rows, one)
        for axis, position in enumerate((inner("Div", sample, columns), inner("Mod", sample, columns))):
            number = inner("CastLike", position, inner.constant(np.zeros(1, self.dtype)))
            used.append(inner("Less", number, self.counts[axis]))
            axes.append(self._neighbours(inner, axis, number))
        terms, size = [], [self.regions, 1, prod(self.bins)]
        every = inner.constant(np.array([self.regions, self.image[1], prod(self.bins)]))
        for row, row_weight in axes[0]:
            for column, column_weight in axes[1]:
                row_start = inner("Mul", self._spread(inner, row, 2), inner.constant(np.array(self.image[3])))
                index = inner("Add", row_start, self._spread(inner, column, 1))
                weight = inner("Mul", self._spread(inner, row_weight, 2), self._spread(inner, column_weight, 1))
                index, weight = (inner("Reshape", value, inner.constant(np.array(size))) for value in (index, weight))
                pixel = inner("GatherElements", self.pixels, inner("Expand", index, every), axis=2)
                terms.append(inner("Mul", pixel, weight))
        return terms, inner("Reshape", inner("And", *used), inner.constant(np.array([-1, 1, 1, 1])))

    def _neighbours(self, inner: Nodes, axis: int, number: str) -> list[tuple[str, str]]:
        """Return the indices of the pixels before and after the sample of each bin along an axis, with weights."""
        length, bins = self.image[2 + axis], inner.constant(np.arange(self.bins[axis], dtype=self.dtype).reshape(1, -1))
        zero, one, half, last, size = (
            inner.constant(np.array(value, self.dtype)) for value in (0, 1, 0.5, length - 1, length)
        )
        within = inner("Div", inner("Mul", inner("Add", number, half), self.steps[axis]), self.counts[axis])
        position = inner("Add", inner("Add", self.starts[axis], inner("Mul", bins, self.steps[axis])), within)
        is_inside = inner(
            "And", inner("GreaterOrEqual", position, inner("Neg", one)), inner("LessOrEqual", position, size)
        )
        position = inner("Min", inner("Max", position, zero), last)
        low = inner("Floor", position)
        share = inner("Sub", position, low)
        pairs = ((low, inner("Sub", one, share)), (inner("Min", inner("Add", low, one), last), share))
        return [(inner("Cast", pixel, to=INT64), inner("Where", is_inside, weight, zero)) for pixel, weight in pairs]

    def _spread(self, inner: Nodes, value: str, axis: int) -> str:
        return inner("Unsqueeze", value, inner.constant(np.array([axis])))


DETECTION: dict[str, Rewrite] = {"NonMaxSuppression": _suppressed, "RoiAlign": _aligned}
