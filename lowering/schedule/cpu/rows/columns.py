"""The loops of several rows at once that are interleaved in memory, such as softmax over the channels of images.

Takes a `RowPlan` whose operands are contiguous across rows, not along them (`columns_of`). Gives the statements that
compute neighbouring rows: each pass runs along the rows, for a strip of rows at a time, in vectors with one row per
lane.

    softmax over c of x[n, c, w]:  for c: m[0:64] = max(m[0:64], x[n, c, w : w + 64]);  …
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.lowering.codegen.targets import vector_bits
from mlirtri.lowering.schedule.cpu.rows.passes import ROW, VALUE, RowWriter
from mlirtri.lowering.schedule.rows.plan import RowPlan, Step, are_neighbours
from mlirtri.lowering.tir.statements import index, plus
from mlirtri.lowering.tir.vectors import INFINITY_BITS, in_order, integers_of, loaded, stored, vectorizable
from mlirtri.lowering.toolchain.tvm_names import tirx


def columns_of(plan: RowPlan) -> range | None:
    """Return the innermost row axes that memory is contiguous along; None where reductions do not read across them."""
    extents = plan.rows.extents
    last = next((at for at in reversed(range(len(extents))) if extents[at] > 1), None)
    if last is None or not all(_reads_across(plan, at, last) for at in plan.reducers):
        return None
    first = last
    while first > 0 and _are_one(plan, first - 1, first):
        first -= 1
    return range(first, last + 1)


def _reads_across(plan: RowPlan, at: int, row: int) -> bool:
    """Whether all loads of a nest that vary along this row axis are contiguous along it."""
    nest, axis = plan.nests[at], plan.rows.axes[at][row]
    places = [nest.plain(load.indices) for load in nest.loads]
    return any(axis in each for each in places) and all(each[-1] == axis for each in places if axis in each)


def _are_one(plan: RowPlan, outer: int, inner: int) -> bool:
    """Whether two of the rows' axes can be fused in all buffers."""
    for nest, rows in zip(plan.nests, plan.rows.axes, strict=True):
        for buffer, indices in (
            (nest.target, nest.store.indices),
            *((each.source, each.indices) for each in nest.loads),
        ):
            if not are_neighbours(nest.axes[rows[inner]], rows[outer], rows[inner], nest.plain(indices), buffer.shape):
                return False
    return True


def lanes_of_rows(plan: RowPlan) -> int:
    """Return the rows of a vector: the lanes of the widest element."""
    bits = [32]
    for nest in plan.nests:
        bits += [int(nest.target.dtype.bits), *(int(load.source.dtype.bits) for load in nest.loads)]
    return max(1, vector_bits() // max(bits))


class ColumnWriter(RowWriter):
    """Writes the statements of `count` rows; `row` maps the number of a row to its indices."""

    def __init__(self, plan: RowPlan, row: Callable[[Any], list[Any]], count: int, parameters: Sequence[Any]):
        super().__init__(plan, row(index(0)), parameters)
        self.row_at, self.count, self.wide = row, count, lanes_of_rows(plan)

    def _of_all(self, make: Callable[[int, Any], list[Any]]) -> Any:
        """Return the statements of ``make(lanes, lane)`` for all rows of the strip."""
        whole, rest = divmod(self.count, self.wide)
        statements = [] if not whole else [self._vectors(make, whole)]
        return in_order([*statements, *([self._vector_from(make, index(whole * self.wide), rest)] if rest else [])])

    def _vectors(self, make: Callable[[int, Any], list[Any]], whole: int) -> Any:
        if whole == 1:
            return self._vector_from(make, index(0), self.wide)
        vector = tirx.Var("vector", "int64")
        body = self._vector_from(make, vector * index(self.wide), self.wide)
        return tirx.For(vector, index(0), index(whole), tirx.ForKind.UNROLLED, body)

    def _vector_from(self, make: Callable[[int, Any], list[Any]], start: Any, lanes: int) -> Any:
        lane = tirx.Var("lane", "int64") if lanes > 1 else index(0)
        self.lane = plus(start, lane)
        self.row = self.row_at(self.lane)
        body = in_order(make(lanes, lane))
        return tirx.For(lane, index(0), index(lanes), tirx.ForKind.VECTORIZED, body) if lanes > 1 else body

    def _values(self, step: Step) -> list[Any]:
        for at in step.nests:
            self._value_of(at)
        return [self._of_all(lambda lanes, lane: [each for at in step.nests for each in self._value(at, lanes, lane)])]

    def _value(self, at: int, lanes: int, lane: Any) -> list[Any]:
        nest, point = self.plan.nests[at], self._point(at, (), index(0))
        statements = self._prepared(nest, point, lanes, lane)
        statements.append(stored(self.places[at].buffer, [self.lane], self.expression(self.row_value(at), point)))
        return [*statements, *self._result(at, point)]

    def _pass(self, step: Step) -> list[Any]:
        reductions = [at for at in step.nests if self.plan.nests[at].is_reduction]
        self._allocate_elements(step, self.count)
        for at in reductions:
            dtype = str(self.plan.nests[at].target.dtype)
            self._value_of(at)
            if self.plan.reducers[at].extremum is not None and dtype in INFINITY_BITS:
                name = f"{self.plan.nests[at].target.name}_magnitudes"
                self.magnitudes[at] = self._allocate(name, [self.count], integers_of(dtype))
        variables = [tirx.Var(f"o{at}", "int64") for at in range(len(step.extents))]
        loops = self._of_all(
            lambda lanes, lane: [each for at in step.nests for each in self._along(at, variables, lanes, lane)]
        )
        for variable, extent in reversed(list(zip(variables, step.extents, strict=True))):
            loops = tirx.For(variable, index(0), index(extent), tirx.ForKind.SERIAL, loops)
        starts = [self._of_all(lambda lanes, lane, at=at: self._first(at)) for at in reductions]
        finished = [at for at in reductions if at in self.magnitudes or self.is_result(at)]
        ends = [self._of_all(lambda lanes, lane, at=at: self._last(at)) for at in finished]
        self.registers.clear()
        return [*starts, loops, *ends]

    def _first(self, at: int) -> list[Any]:
        statements = [stored(self.places[at].buffer, [self.lane], self.plan.nests[at].init)]
        if at in self.magnitudes:
            largest = self.magnitudes[at]
            statements.append(stored(largest, [self.lane], tirx.const(0, str(largest.dtype))))
        return statements

    def _along(self, at: int, variables: Sequence[Any], lanes: int, lane: Any) -> list[Any]:
        """Return the statements of one nest for one element of one row."""
        nest, place = self.plan.nests[at], [self.lane]
        point = self._point(at, variables[:-1], variables[-1])
        if not nest.is_reduction:
            return self._element_of(at, point, lanes, lane)
        reducer, buffer = self.plan.reducers[at], self.places[at].buffer
        term = self.expression(reducer.term, point)
        own = loaded(buffer, place, nest.target.dtype)
        if at not in self.magnitudes:
            return [stored(buffer, place, vectorizable(reducer.combine(own, term)))]
        bits = tirx.reinterpret(integers_of(nest.target.dtype), tirx.abs(term))
        largest = tirx.max(tirx.BufferLoad(self.magnitudes[at], place), bits)
        return [stored(self.magnitudes[at], place, largest), stored(buffer, place, reducer.extremum(own, term))]

    def _last(self, at: int) -> list[Any]:
        """Return the row's results, with NaN for extrema of rows that contain NaN."""
        nest, statements = self.plan.nests[at], []
        if at in self.magnitudes:
            buffer = self.places[at].buffer
            total = self._kept(at, loaded(buffer, [self.lane], nest.target.dtype), [self.lane])
            statements.append(stored(buffer, [self.lane], total))
        return [*statements, *self._result(at, self._point(at, (), index(0)))]

    def _value_shape(self) -> list[int]:
        return [self.count]

    def row_shape(self, at: int) -> list[int]:
        return [*super().row_shape(at), self.count]

    def _at_place(self, at: int, indices: list[Any]) -> list[Any]:
        kind = self.places[at].kind
        if kind == VALUE:
            return [self.lane]
        found = super()._at_place(at, indices)
        return [*found, self.lane] if kind == ROW else found
