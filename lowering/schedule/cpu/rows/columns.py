"""The loops of several rows at once that are interleaved in memory, such as softmax over the channels of images.

Each pass runs along the rows, for a strip of neighbouring rows at a time, in vectors with one row per lane.

    softmax over c of x[n, c, w]:  for c: m[0:64] = max(m[0:64], x[n, c, w : w + 64]);  …
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_in_register
from mlirtri.lowering.schedule.cpu.rows.row_loops import ROW, VALUE, RowWriter
from mlirtri.lowering.schedule.rows.plan import RowPlan, Step, are_neighbours
from mlirtri.lowering.tir.statements import index, plus
from mlirtri.lowering.tir.vectors import INFINITY_BITS, in_order, integers_of, loaded, stored, vectorizable
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, tirx


def columns_of(plan: RowPlan) -> range | None:
    """Return the innermost row axes that memory is contiguous along; None where reductions do not read across them."""
    extents = plan.rows.extents
    last = next((axis for axis in reversed(range(len(extents))) if extents[axis] > 1), None)
    if last is None or not all(_reads_across(plan, n, last) for n in plan.reducers):
        return None
    first = last
    while first > 0 and _are_one(plan, first - 1, first):
        first -= 1
    return range(first, last + 1)


def _reads_across(plan: RowPlan, n: int, row: int) -> bool:
    """Return whether all loads of a nest that vary along this row axis are contiguous along it."""
    nest, axis = plan.nests[n], plan.rows.axes[n][row]
    loaded_axes = [nest.plain(load.indices) for load in nest.loads]
    return any(axis in axes for axes in loaded_axes) and all(axes[-1] == axis for axes in loaded_axes if axis in axes)


def _are_one(plan: RowPlan, outer: int, inner: int) -> bool:
    for nest, rows in zip(plan.nests, plan.rows.axes, strict=True):
        for buffer, indices in (
            (nest.target, nest.store.indices),
            *((load.source, load.indices) for load in nest.loads),
        ):
            if not are_neighbours(nest.axes[rows[inner]], rows[outer], rows[inner], nest.plain(indices), buffer.shape):
                return False
    return True


def lanes_of_rows(plan: RowPlan) -> int:
    """Return the rows of a vector: the lanes of the widest element."""
    bits: list[int] = []
    for nest in plan.nests:
        bits += [int(nest.target.dtype.bits), *(int(load.source.dtype.bits) for load in nest.loads)]
    return lanes_in_register(*bits, least_bits=32)


class ColumnWriter(RowWriter):
    """Writes the statements of `count` rows; `row` maps the number of a row to its indices."""

    def __init__(self, plan: RowPlan, row: Callable[[Expr], list[Expr]], count: int, parameters: Sequence[Buffer]):
        super().__init__(plan, row(index(0)), parameters)
        self.row_of, self.count, self.wide = row, count, lanes_of_rows(plan)

    def _of_all(self, make: Callable[[int, Any], list[Any]]) -> Any:
        full, remaining = divmod(self.count, self.wide)
        statements = [] if not full else [self._row_vectors(make, full)]
        return in_order(
            [*statements, *([self._vector_from(make, index(full * self.wide), remaining)] if remaining else [])]
        )

    def _row_vectors(self, make: Callable[[int, Any], list[Any]], count: int) -> Any:
        if count == 1:
            return self._vector_from(make, index(0), self.wide)
        vector = tirx.Var("vector", "int64")
        body = self._vector_from(make, vector * index(self.wide), self.wide)
        return tirx.For(vector, index(0), index(count), tirx.ForKind.UNROLLED, body)

    def _vector_from(self, make: Callable[[int, Any], list[Any]], start: Any, lanes: int) -> Any:
        lane = tirx.Var("lane", "int64") if lanes > 1 else index(0)
        self.lane = plus(start, lane)
        self.row = self.row_of(self.lane)
        body = in_order(make(lanes, lane))
        return tirx.For(lane, index(0), index(lanes), tirx.ForKind.VECTORIZED, body) if lanes > 1 else body

    def _values(self, step: Step) -> list[Any]:
        for n in step.nests:
            self._value_of(n)
        return [
            self._of_all(
                lambda lanes, lane: [statement for n in step.nests for statement in self._value(n, lanes, lane)]
            )
        ]

    def _value(self, n: int, lanes: int, lane: Any) -> list[Any]:
        nest, point = self.plan.nests[n], self._point(n, (), index(0))
        statements = self._prepared(nest, point, lanes, lane)
        statements.append(stored(self.storage[n].buffer, [self.lane], self.expression(self.row_value(n), point)))
        return [*statements, *self._result(n, point)]

    def _pass(self, step: Step) -> list[Any]:
        reductions = [n for n in step.nests if self.plan.nests[n].is_reduction]
        self._allocate_elements(step, self.count)
        for n in reductions:
            dtype = str(self.plan.nests[n].target.dtype)
            self._value_of(n)
            if self.plan.reducers[n].extremum is not None and dtype in INFINITY_BITS:
                name = f"{self.plan.nests[n].target.name}_magnitudes"
                self.magnitudes[n] = self._allocate(name, [self.count], integers_of(dtype))
        variables = [tirx.Var(f"o{axis}", "int64") for axis in range(len(step.extents))]
        loops = self._of_all(
            lambda lanes, lane: [statement for n in step.nests for statement in self._along(n, variables, lanes, lane)]
        )
        for variable, extent in reversed(list(zip(variables, step.extents, strict=True))):
            loops = tirx.For(variable, index(0), index(extent), tirx.ForKind.SERIAL, loops)
        starts = [self._of_all(lambda lanes, lane, n=n: self._first(n)) for n in reductions]
        finished = [n for n in reductions if n in self.magnitudes or self.is_result(n)]
        ends = [self._of_all(lambda lanes, lane, n=n: self._last(n)) for n in finished]
        self.registers.clear()
        return [*starts, loops, *ends]

    def _first(self, n: int) -> list[Any]:
        statements = [stored(self.storage[n].buffer, [self.lane], self.plan.nests[n].init)]
        if n in self.magnitudes:
            largest = self.magnitudes[n]
            statements.append(stored(largest, [self.lane], tirx.const(0, str(largest.dtype))))
        return statements

    def _along(self, n: int, variables: Sequence[Any], lanes: int, lane: Any) -> list[Any]:
        nest, indices = self.plan.nests[n], [self.lane]
        point = self._point(n, variables[:-1], variables[-1])
        if not nest.is_reduction:
            return self._element_of(n, point, lanes, lane)
        reducer, buffer = self.plan.reducers[n], self.storage[n].buffer
        term = self.expression(reducer.term, point)
        current = loaded(buffer, indices, nest.target.dtype)
        if n not in self.magnitudes:
            return [stored(buffer, indices, vectorizable(reducer.combine(current, term)))]
        bits = tirx.reinterpret(integers_of(nest.target.dtype), tirx.abs(term))
        largest = tirx.max(tirx.BufferLoad(self.magnitudes[n], indices), bits)
        return [stored(self.magnitudes[n], indices, largest), stored(buffer, indices, reducer.extremum(current, term))]

    def _last(self, n: int) -> list[Any]:
        """Return the row's results, with NaN for extrema of rows that contain NaN."""
        nest, statements = self.plan.nests[n], []
        if n in self.magnitudes:
            buffer = self.storage[n].buffer
            value = self._extremum_or_nan(n, loaded(buffer, [self.lane], nest.target.dtype), [self.lane])
            statements.append(stored(buffer, [self.lane], value))
        return [*statements, *self._result(n, self._point(n, (), index(0)))]

    def _value_shape(self) -> list[int]:
        return [self.count]

    def row_shape(self, n: int) -> list[int]:
        return [*super().row_shape(n), self.count]

    def _stored_indices(self, n: int, indices: list[Any]) -> list[Any]:
        kind = self.storage[n].kind
        if kind == VALUE:
            return [self.lane]
        row_indices = super()._stored_indices(n, indices)
        return [*row_indices, self.lane] if kind == ROW else row_indices
