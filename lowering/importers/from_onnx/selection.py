"""Rewrite NonZero, Compress and Unique, whose results are as long as the elements say.

Each result is computed at its largest size, and one Slice by the number of selected elements is the only operation of
a size that depends on data.
"""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import NodeProto, TensorProto

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.layers import static_shape
from mlirtri.lowering.importers.from_onnx.nodes import FLOATS, Nodes, Rewrite, Values, attribute_of

INT64 = TensorProto.INT64
MOST_COMPARED = 2**24
"""The most elements that are compared for the distinct slices along an axis, every pair of slices."""


class Selection:
    """The true elements of a mask of rank 1, in order."""

    def __init__(self, add: Nodes, mask: str, length: int):
        self.add = add
        flags, axis = add("Cast", mask, to=INT64, part="flags"), add.constant(np.array([0]))
        self.count = add("ReduceSum", flags, axis, keepdims=1, part="count")
        self.order = add(
            "Sub", add("CumSum", flags, add.constant(np.array(0))), add.constant(np.array(1)), part="order"
        )
        """How many true elements come before each true element."""
        # What is not selected is written to one position more, which is never read.
        position = add("Where", mask, self.order, add.constant(np.array(length)), part="position")
        empty, each = add.constant(np.zeros(length + 1, np.int64)), add.constant(np.arange(length))
        buffer = add("ScatterElements", empty, position, each, axis=0)
        self.indices = add("Slice", buffer, axis, add.constant(np.array([length])), part="indices")
        """The indices of the true elements, of the mask's length; zeros past the last one."""

    def first(self, buffer: str, axis: int = 0, result: int | None = None) -> str:
        """Return as many elements along `axis` as there are true elements."""
        zero, where = self.add.constant(np.array([0])), self.add.constant(np.array([axis]))
        return self.add("Slice", buffer, zero, self.count, where, result=result)


def _nonzero(node: NodeProto, values: Values) -> list[NodeProto]:
    """Return the indices of the elements that are not zero, a row per axis."""
    shape = values.static_shape(node.input[0])
    if shape is None:
        return [node]
    if not shape or 0 in shape:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a NonZero of a tensor of shape {shape}",
            help="give it axes, and elements along them",
        )
    add, line = Nodes(node), np.array([-1])
    flat = add("Reshape", add("Cast", node.input[0], to=TensorProto.BOOL), add.constant(line))
    selection = Selection(add, flat, prod(shape))
    rows = []
    for axis, size in enumerate(shape):
        row = add("Div", selection.indices, add.constant(np.array(prod(shape[axis + 1 :]))))
        row = add("Mod", row, add.constant(np.array(size))) if axis else row
        rows.append(add("Unsqueeze", row, add.constant(np.array([0]))))
    selection.first(add("Concat", *rows, axis=0), axis=1, result=0)
    return add.nodes


def _compressed(node: NodeProto, values: Values) -> list[NodeProto]:
    """Gather along an axis, or from all elements, what a condition selects; it may be shorter than the axis."""
    shape, (length,) = (static_shape(node, name, values) for name in node.input)
    add, source, axis = Nodes(node), node.input[0], attribute_of(node, "axis", None)
    if axis is None:
        source, axis, shape = add("Reshape", source, add.constant(np.array([-1]))), 0, [prod(shape)]
    axis %= len(shape)
    if length > shape[axis] or not length:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a Compress of {shape[axis]} elements by a condition of {length}",
            help="give a condition of 1 to as many elements as the axis has",
        )
    selection = Selection(add, node.input[1], length)
    selection.first(add("Gather", source, selection.indices, axis=axis), axis, result=0)
    return add.nodes


def _unique(node: NodeProto, values: Values) -> list[NodeProto]:
    """Return the distinct elements, or slices along an axis, with first indices, inverse indices and counts."""
    shape = static_shape(node, node.input[0], values)
    if 0 in shape:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a Unique of a tensor without elements", help="leave it out"
        )
    axis = attribute_of(node, "axis", None)
    is_sorted = bool(attribute_of(node, "sorted", 1))
    add = Nodes(node)
    source = node.input[0]
    if axis is None or len(shape) == 1:
        source = add("Reshape", source, add.constant(np.array([-1])))
        groups, axis = _Groups.of_elements(add, source, prod(shape), values.element_type(node.input[0])), 0
    else:
        axis %= len(shape)
        groups = _Groups.of_slices(add, node, shape, axis, values.element_type(node.input[0]) in FLOATS)
    groups.give(source, axis, is_sorted)
    return add.nodes


class _Groups:
    """The elements or slices that are equal to one another."""

    def __init__(self, add: Nodes, first: str, rank: str, length: int):
        self.add, self.length = add, length
        self.first = first
        """Of each element: the smallest index of one that is equal to it."""
        self.rank = rank
        """Of each element: how many distinct ones are less than it."""
        self.each = add.constant(np.arange(length))

    @classmethod
    def of_elements(cls, add: Nodes, source: str, length: int, kind: int) -> _Groups:
        """Sort the elements, and number the runs of equal ones."""
        ordered, order = add.several(
            "TopK", source, add.constant(np.array([length])), count=2, axis=0, largest=0, sorted=1
        )
        zero = np.array([0])
        is_new = add.constant(np.array([True]))
        if length > 1:
            here = add("Slice", ordered, add.constant(np.array([1])), add.constant(np.array([length])))
            before = add("Slice", ordered, add.constant(zero), add.constant(np.array([length - 1])))
            differs = add("Not", add("Equal", here, before))
            if kind in FLOATS:
                # NaNs come last, and count as one.
                differs = add("And", differs, add("Not", add("IsNaN", before)))
            is_new = add("Concat", is_new, differs, axis=0)
        runs = Selection(add, is_new, length)
        # The sort is stable, so that a run begins with its first element.
        starts = add("Gather", runs.indices, runs.order)
        firsts = add("Gather", order, starts)
        empty = add.constant(np.zeros(length, np.int64))
        first, rank = (add("ScatterElements", empty, order, numbers, axis=0) for numbers in (firsts, runs.order))
        return cls(add, first, rank, length)

    @classmethod
    def of_slices(cls, add: Nodes, node: NodeProto, shape: list[int], axis: int, is_float: bool) -> _Groups:
        """Compare each two slices at the first element in which they differ.

        NaN is the largest element, and a slice with one equals no other, as in ``numpy.unique``.
        """
        length, size = shape[axis], prod(shape) // shape[axis]
        if length * length * size > MOST_COMPARED:
            raise UnsupportedOperationError(
                f"node {node.name!r} is a Unique of {length} slices of {size} elements each",
                help=f"compare fewer: {MOST_COMPARED} elements at most for all pairs of slices",
            )
        axes = [axis, *(other for other in range(len(shape)) if other != axis)]
        rows = add("Reshape", add("Transpose", node.input[0], perm=axes), add.constant(np.array([length, size])))
        is_same, is_less = _compared_rows(add, rows, length, size, is_float)
        first = add("ArgMax", add("Cast", is_same, to=TensorProto.INT32), axis=1, keepdims=0)
        counted = add("And", is_less, add("Equal", first, add.constant(np.arange(length))))
        rank = add("ReduceSum", add("Cast", counted, to=INT64), add.constant(np.array([1])), keepdims=0)
        return cls(add, first, rank, length)

    def give(self, source: str, axis: int, is_sorted: bool) -> None:
        """Create the results of the node that is replaced."""
        add, outputs = self.add, [*self.add.node.output, "", "", ""]
        is_first = add("Equal", self.first, self.each)
        selection = Selection(add, is_first, self.length)
        number = self.rank if is_sorted else add("Gather", selection.order, self.first)
        empty = add.constant(np.zeros(self.length, np.int64))
        indices = add("ScatterElements", empty, number, self.first, axis=0)
        if outputs[0]:
            selection.first(add("Gather", source, indices, axis=axis), axis, result=0)
        if outputs[1]:
            selection.first(indices, result=1)
        if outputs[2]:
            add("Identity", number, result=2)
        if outputs[3]:
            ones = add.constant(np.ones(self.length, np.int64))
            selection.first(add("ScatterElements", empty, number, ones, axis=0, reduction="add"), result=3)


def _compared_rows(add: Nodes, rows: str, length: int, size: int, is_float: bool) -> tuple[str, str]:
    """Return for each pair of rows, of shape (length, length), whether the second is the same, and whether less."""
    here, other = (add("Unsqueeze", rows, add.constant(np.array([position]))) for position in (1, 0))
    is_equal, last = add("Equal", here, other), add.constant(np.array([2]))
    if is_float:
        is_equal = add("Or", is_equal, add("And", add("IsNaN", here), add("IsNaN", other)))
    differs = add("Cast", add("Not", is_equal), to=TensorProto.INT32)
    where, pairs = add("ArgMax", differs, axis=2, keepdims=1), add.constant(np.array([length, length, size]))
    mine, its = (
        add("Squeeze", add("GatherElements", add("Expand", value, pairs), where, axis=2), last)
        for value in (here, other)
    )
    is_same = add("Equal", add("ReduceMax", differs, last, keepdims=0), add.constant(np.int32(0)))
    is_less = add("Less", its, mine)
    if is_float:
        is_less = add("Or", is_less, add("And", add("IsNaN", mine), add("Not", add("IsNaN", its))))
    is_less = add("And", is_less, add("Not", is_same))
    if not is_float:
        return is_same, is_less
    # Slices with NaN that look the same are distinguished by their positions.
    nans = add("ReduceMax", add("Cast", add("IsNaN", here), to=TensorProto.INT32), last, keepdims=0)
    is_odd = add("And", is_same, add("Cast", nans, to=TensorProto.BOOL))
    diagonal, before = add.constant(np.eye(length, dtype=bool)), add.constant(np.tri(length, k=-1, dtype=bool))
    is_same = add("Or", add("And", is_same, add("Not", is_odd)), diagonal)
    return is_same, add("Or", is_less, add("And", is_odd, before))


SELECTION: dict[str, Rewrite] = {
    "NonZero": _nonzero, "Compress": _compressed, "Unique": _unique,
}  # fmt: skip
