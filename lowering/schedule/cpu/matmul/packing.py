"""Packed copies of a contraction's operands, in the order in which its tiles read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_for
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import MAX_VECTORS, parallel_loop
from mlirtri.lowering.schedule.cpu.common.register_transposes import load_transposed
from mlirtri.lowering.tir.contraction import Axis, Contraction, Values, Way, depends, lies_along, size_of
from mlirtri.lowering.tir.statements import index, loads_in, sequence
from mlirtri.lowering.tir.tiles import (
    axis_values,
    ceil_div,
    for_loop,
    in_lanes,
    in_vectors,
    linearized,
    loop_nest,
    quotient,
    ramp,
    remainder,
    replaced,
    sized,
    temporary,
    zero_of,
)
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, TensorLoad, tirx

VECTORS_TOGETHER = 8
"""Neighbouring vectors that are copied together: one cache line per memory page is too little."""

TRANSPOSED = ("float32", "float64", "int32", "int64")
"""Dtypes that are transposed in registers: gathering an element costs as much as a whole vector."""
MAX_ROWS_TRANSPOSED = 256
"""With more rows, the copy is less than a twentieth of the work: not enough to pay for the longer compilation."""


def packed_left(contraction: Contraction, target: Target) -> tuple[Contraction, list[Stmt]]:
    """Return the contraction that reads its left operand from a packed copy, and the statements of the copy.

    The copy is row by row, or in vectors of rows where rows are contiguous.
    """
    if contraction.way is not Way.MATRICES and _is_contiguous(contraction.left, contraction.rows):
        lanes = lanes_for(str(contraction.left.ty.dtype))
        copy = _VectorCopy(contraction, "left", contraction.left, contraction.rows, lanes)
        return replace(contraction, left=copy.load(), packs_left=False), copy.statements(target)
    load, statements = _copied_rows(
        contraction, "left", contraction.left, contraction.rows, target, contraction.simple_left
    )
    return replace(contraction, left=load, packs_left=False), statements


def transposed_right(contraction: Contraction, target: Target) -> tuple[Contraction, list[Stmt]]:
    """Return the contraction that reads its right operand from a copy along the sum, and the statements of the copy."""
    load, statements = _copied_rows(contraction, "right", contraction.right, contraction.columns, target)
    return replace(contraction, right=load), statements


def _copied_rows(
    contraction: Contraction,
    name: str,
    operand: Any,
    free_axes: Sequence[Axis],
    target: Target,
    simple: tuple[Any, Any] | None = None,
) -> tuple[Any, list[Any]]:
    """Return a load from a copy ``[batch and own axes, sum …]`` of an operand, and the statements of the copy.

    `simple` is an expression of the operand for that many elements along the innermost axis.
    """
    axes = [*(axis for axis in contraction.batch if depends(operand, [axis])), *free_axes]
    shape = [size_of(axes), *(axis.extent for axis in contraction.reduced)]
    buffer = temporary(name, str(operand.ty.dtype), shape)
    *outer, inner = contraction.reduced

    def row(position: Expr) -> Any:
        return loop_nest(outer, lambda values: along({**axis_values(axes, position), **values}))

    def along(values: Values) -> Any:
        if simple is None:
            return in_vectors(inner.extent, lanes_for("int32"), lambda position: store(operand, values, position))
        expression, count = simple
        # LLVM makes vectors of the loop: its elements are vectors of bytes already.
        whole = for_loop("word", count, lambda position: store(expression, values, position))
        rest = for_loop("last", inner.extent - count, lambda position: store(operand, values, sized(count) + position))
        return sequence(whole, rest)

    def store(value: Expr, values: Values, position: Expr) -> Any:
        values = {**values, inner.variable: position}
        indices = [linearized(axes, values), *(values[axis.variable] for axis in contraction.reduced)]
        return tirx.BufferStore(buffer, replaced(value, values), indices)

    work = size_of(axes) * ceil_div(size_of(contraction.reduced), lanes_for("int32"))
    copy = parallel_loop("row", size_of(axes), row, work * 4, target)
    variables = {axis.variable: axis.variable for axis in axes}
    indices = [linearized(axes, variables), *(axis.variable for axis in contraction.reduced)]
    return tirx.BufferLoad(buffer, indices), [tirx.AllocBuffer(buffer), copy]


def _is_contiguous(operand: Any, axes: Sequence[Axis]) -> bool:
    loads = loads_in(operand)
    return bool(axes) and bool(loads) and all(lies_along(load, axes[-1]) for load in loads)


def packed_right(contraction: Contraction, lanes: int, target: Target) -> tuple[Contraction, list[Stmt]]:
    """Return the contraction that reads its right operand from vectors of columns, and the statements of the copy."""
    copy = _VectorCopy(contraction, "right", contraction.right, contraction.columns, lanes)
    return replace(contraction, right=copy.load(), is_right_packed=True), copy.statements(target)


def is_transposed_in_registers(operand: Expr, contraction: Contraction, lanes: int) -> bool:
    """Return whether the copy of an operand, contiguous along the sum, in vectors across it is made in registers."""
    inner, dtype, rows = contraction.reduced[-1], str(operand.ty.dtype), size_of(contraction.rows)
    is_read = isinstance(operand, TensorLoad) and lies_along(operand, inner)
    if not is_read or dtype not in TRANSPOSED or not lanes_for(dtype) == lanes >= 4:
        return False
    if isinstance(rows, int) and rows > MAX_ROWS_TRANSPOSED:
        return False
    return isinstance(inner.extent, int) and inner.extent >= lanes


class _VectorCopy:
    """A copy ``[batch, vector, sum …, lane]`` of an operand: vectors along some axes, the last zero-padded."""

    def __init__(self, contraction: Contraction, name: str, operand: Any, axes: Sequence[Axis], lanes: int):
        self.operand, self.axes, self.lanes = operand, axes, lanes
        self.reduced = contraction.reduced
        self.batch = [axis for axis in contraction.batch if depends(operand, [axis])]
        self.total = size_of(axes)
        self.is_open = not isinstance(self.total, int)
        """Whether the number of vectors is dynamic."""
        self.vectors = ceil_div(self.total, lanes)
        self.transposes = not self.is_open and is_transposed_in_registers(operand, contraction, lanes)
        """Whether the operand is contiguous along the sum, so that it is transposed in registers."""
        most = VECTORS_TOGETHER if self.is_open else min(self.vectors, VECTORS_TOGETHER)
        self.group = most if _is_contiguous(operand, axes) else 1
        """Contiguous vectors that are copied together."""
        extents = [axis.extent for axis in self.reduced]
        # Tiles of dynamic columns keep their width at the end, and drop the results of the padding.
        padded = self.vectors + index(MAX_VECTORS - 1) if self.is_open else self.vectors
        self.buffer = temporary(name, str(operand.ty.dtype), [size_of(self.batch), padded, *extents, lanes])

    def load(self) -> Any:
        """Return the load of an element of the copy, in terms of the axes."""
        position = linearized(self.axes, {axis.variable: axis.variable for axis in self.axes})
        indices = [
            linearized(self.batch, {axis.variable: axis.variable for axis in self.batch}),
            tirx.floordiv(position, index(self.lanes)), *(axis.variable for axis in self.reduced),
            tirx.floormod(position, index(self.lanes)),
        ]  # fmt: skip
        return tirx.BufferLoad(self.buffer, indices)

    def statements(self, target: Target) -> list[Any]:
        panels = size_of(self.batch) * self.vectors
        groups = ceil_div(self.vectors, self.group)

        def of_group(position: Expr) -> Any:
            batch, first = quotient(position, groups), remainder(position, groups)
            first = first * index(self.group)
            count: Any = self.group
            if self.group > 1 and (self.is_open or self.vectors % self.group):
                count = tirx.min(index(self.group), sized(self.vectors) - first)
            if self.transposes:
                return self._transposed(batch, first)
            return loop_nest(
                self.reduced,
                lambda values: for_loop("vector", count, lambda number: self._vector(values, batch, first + number)),
            )

        work = panels * size_of(self.reduced) * 4
        loop = parallel_loop("group", size_of(self.batch) * groups, of_group, work, target)
        return [tirx.AllocBuffer(self.buffer), loop]

    def _transposed(self, batch: Any, vector: Any) -> Any:
        """Return the copy of one vector of the axes for the whole sum, in squares that are transposed in registers."""
        *outer, inner = self.reduced
        last = index(inner.extent - self.lanes)
        squares = -(-inner.extent // self.lanes)

        def square(values: Values, number: Any) -> Any:
            # The last square may overlap the one before.
            return self._square(values, batch, vector, inner, tirx.min(number * index(self.lanes), last))

        full = loop_nest(outer, lambda values: for_loop("square", squares, lambda number: square(values, number)))
        if not self.total % self.lanes:
            return full
        incomplete = loop_nest(self.reduced, lambda values: self._vector(values, batch, vector))
        if self.vectors == 1:
            return incomplete
        return tirx.IfThenElse(tirx.LT(vector, index(self.vectors - 1)), full, incomplete)

    def _square(self, values: Values, batch: Any, vector: Any, inner: Axis, start: Any) -> Any:
        statements: list[Stmt] = []
        first = tirx.Var("first", "int64")

        def element(row: int, lane: Expr) -> Expr:
            axes = axis_values(self.axes, vector * index(self.lanes) + index(row))
            positions = {**axis_values(self.batch, batch), **values, **axes}
            return replaced(self.operand, {**positions, inner.variable: first + lane})

        columns = load_transposed(element, str(self.buffer.dtype), self.lanes, statements)
        for number, column in enumerate(columns):
            target = [batch, vector, *(values[axis.variable] for axis in self.reduced[:-1]), first + index(number)]
            statements.append(tirx.BufferStore(self.buffer, column, [*target, ramp(index(0), self.lanes)]))
        return sequence(tirx.Bind(first, start), *statements)

    def _vector(self, values: Values, batch: Any, vector: Any) -> Any:
        indices = [batch, vector, *(values[axis.variable] for axis in self.reduced)]
        values = {**axis_values(self.batch, batch), **values}

        def at_lane(lane: Any) -> Any:
            positions = {**values, **axis_values(self.axes, vector * index(self.lanes) + lane)}
            return tirx.BufferStore(self.buffer, replaced(self.operand, positions), [*indices, lane])

        full, remaining = in_lanes(self.lanes, at_lane), self.total % self.lanes
        zero = tirx.Broadcast(zero_of(str(self.buffer.dtype)), self.lanes)
        zeros = tirx.BufferStore(self.buffer, zero, [*indices, ramp(index(0), self.lanes)])
        if self.is_open:
            incomplete = sequence(zeros, for_loop("lane", remaining, at_lane))
            return tirx.IfThenElse(tirx.LT(vector, quotient(self.total, self.lanes)), full, incomplete)
        if not remaining:
            return full
        incomplete = sequence(zeros, in_lanes(remaining, at_lane))
        if self.vectors == 1:
            return incomplete
        return tirx.IfThenElse(tirx.LT(vector, index(self.vectors - 1)), full, incomplete)


def packed_terms(contraction: Contraction, lanes: int, target: Target) -> tuple[Contraction, list[Stmt]]:
    """Return the contraction whose `column_terms`, if any, are precomputed vectors, and the statements for these."""
    if contraction.column_terms is None:
        return contraction, []
    terms, axes = contraction.column_terms
    batch = [axis for axis in contraction.batch if depends(terms, [axis])]
    columns = size_of(contraction.columns)
    is_open, vectors = not isinstance(columns, int), ceil_div(columns, lanes)
    padded = vectors + index(MAX_VECTORS - 1) if is_open else vectors
    buffer = temporary("terms", contraction.dtype, [size_of(batch), padded, lanes])

    def vector(position: Expr) -> Any:
        batch_index, number = quotient(position, vectors), remainder(position, vectors)
        indices, remaining = [batch_index, number], columns % lanes
        zero = tirx.Broadcast(zero_of(contraction.dtype), lanes)
        start = tirx.BufferStore(buffer, zero, [*indices, ramp(index(0), lanes)])

        def added(count: Any) -> Any:
            loop = in_lanes if isinstance(count, int) else partial(for_loop, "lane")
            return loop_nest(axes, lambda values: loop(count, partial(add, values)), axis_values(batch, batch_index))

        def add(values: Values, lane: Any) -> Any:
            values = {**values, **axis_values(contraction.columns, number * index(lanes) + lane)}
            sums = tirx.BufferLoad(buffer, [*indices, lane])
            return tirx.BufferStore(buffer, sums + replaced(terms, values), [*indices, lane])

        if is_open:
            is_whole = tirx.LT(number, quotient(columns, lanes))
            return sequence(start, tirx.IfThenElse(is_whole, added(lanes), added(remaining)))
        if not remaining or vectors == 1:
            return sequence(start, added(remaining or lanes))
        return sequence(start, tirx.IfThenElse(tirx.LT(number, index(vectors - 1)), added(lanes), added(remaining)))

    work = size_of(batch) * vectors * size_of(axes)
    statement = parallel_loop("panel", size_of(batch) * vectors, vector, work * 4, target)
    return _reading_terms(contraction, buffer, batch, lanes), [tirx.AllocBuffer(buffer), statement]


def _reading_terms(contraction: Contraction, buffer: Buffer, batch: Sequence[Axis], lanes: int) -> Contraction:
    position = linearized(contraction.columns, {axis.variable: axis.variable for axis in contraction.columns})
    indices = [
        linearized(batch, {axis.variable: axis.variable for axis in batch}),
        tirx.floordiv(position, index(lanes)), tirx.floormod(position, index(lanes)),
    ]  # fmt: skip
    return replace(contraction, column_terms=(tirx.BufferLoad(buffer, indices), ()))
