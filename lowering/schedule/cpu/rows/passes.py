"""The loops of one row: the steps of a `RowPlan`, as TIR.

Takes a `RowPlan` and the indices of a row. Gives the statements that compute the row, and the buffers that they need. A
pass runs in strips of several vectors, then single vectors, then one shorter vector; reductions keep as many partial
results, which are combined as a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.codegen.targets import vector_bits
from mlirtri.lowering.schedule.rows.nests import Nest
from mlirtri.lowering.schedule.rows.plan import EXPENSIVE, RowPlan, Step
from mlirtri.lowering.schedule.rows.writer import Element, NestWriter, Point, axis_values
from mlirtri.lowering.tir.statements import index, plus
from mlirtri.lowering.tir.vectors import (
    INFINITY_BITS,
    Joined,
    doubled_up_to,
    fetch,
    in_one,
    in_order,
    integers_of,
    is_same_number,
    joined_by,
    lanewise,
    loaded,
    stored,
    together,
    vectorizable,
)
from mlirtri.lowering.toolchain.tvm_names import tirx

STRIP_VECTORS = 4
"""Vectors of partial results: as many additions as are in flight in a core."""


def unit_of_bounds() -> int:
    """Return the number of elements that bounds of passes are multiples of: the widest strip."""
    return STRIP_VECTORS * vector_bits() // 32


TARGET, ROW, VALUE = "target", "row", "value"


@dataclass(frozen=True)
class _Place:
    """The buffer for a nest's result: all of its target, this row of it, or one value."""

    buffer: Any
    kind: str
    """``target`` is indexed as the target is, ``row`` without the rows' dimensions, ``value`` by 0."""


@dataclass(frozen=True)
class _Strip:
    """`lanes` elements from `start` on, in part `part` of the partial results; `outer` are the indices of the other
    loops.
    """

    outer: tuple[Any, ...]
    start: Any
    lane: Any
    lanes: int
    part: Any


class RowWriter(NestWriter):
    """Writes the statements of one row."""

    def __init__(
        self, plan: RowPlan, row: Sequence[Any], parameters: Sequence[Any], ahead: Sequence[Any] = (),
        bounds: tuple[Any, Any] | None = None,
    ):  # fmt: skip
        super().__init__(plan, parameters)
        self.row, self.ahead, self.bounds = list(row), list(ahead), bounds
        """First and end element of the passes, in whole `unit_of_bounds`; the end may be the row's, too."""
        self.memory: list[Any] = []
        self.places: dict[int, _Place] = {}
        self.registers: dict[int, Any] = {}
        self.partial: dict[int, Any] = {}
        self.magnitudes: dict[int, Any] = {}
        """Per extremum, the bits of the largest magnitudes of partial results: NaN is larger than infinity."""
        self.lane: Any = index(0)
        self.joined: list[Joined] = []
        self.fetching = self._fetching_step() if ahead else None
        """The step during which the next row is prefetched."""

    def written(self) -> Any:
        """Return the statements of all steps of the row, in order."""
        statements: list[Any] = []
        for step in self.plan.steps:
            statements += self._pass(step) if step.extents else self._values(step)
        return in_order(statements)

    def _fetching_step(self) -> Step | None:
        """Return a step after the first one along the same elements that is compute-bound; None where there is none."""
        first, *later = (step for step in self.plan.steps if step.extents)
        later = [step for step in later if step.extents == first.extents]
        expensive = (step for step in later if any(self.plan.cost(at) >= EXPENSIVE for at in step.nests))
        return next(expensive, later[0] if later else None)

    def _fetches(self, outer: tuple, start: Any) -> list[Any]:
        """Return prefetches of one vector of the first step's operands in the next row."""
        first = next(step for step in self.plan.steps if step.extents)
        statements, seen = [], []
        for at in first.nests:
            nest = self.plan.nests[at]
            inner = {axis for group in self.plan.inside[at].groups for axis in group}
            rows = {axis for axis in self.plan.rows.axes[at] if nest.axes[axis].extent > 1}
            for load in nest.loads:
                axes = set(nest.plain(load.indices))
                is_new = not any(load.source.same_as(each) for each in seen)
                if load.source in self.writers or not is_new or not (rows | inner <= axes):
                    continue
                seen.append(load.source)
                point = self._point(at, outer, start, self.ahead)
                place = tirx.BufferLoad(load.source, [self.expression(each, point) for each in load.indices])
                statements.append(fetch(place))
        return statements

    def _allocate(self, name: str, shape: Sequence[int], dtype: str) -> Any:
        # TVM loses bf16 buffers when it widens them to fp32, and stores bools as bytes, but not vectors of them.
        dtype = {"bfloat16": "float32", "bool": "int8"}.get(dtype, dtype)
        buffer = tirx.decl_buffer([index(size) for size in shape], dtype, name, layout=None)
        self.memory.append(buffer)
        return buffer

    def _value_of(self, at: int) -> Any:
        """Return the buffer of one value per row."""
        nest = self.plan.nests[at]
        buffer = self._allocate(f"{nest.target.name}_of_row", self._value_shape(), str(nest.target.dtype))
        self.places[at] = _Place(buffer, VALUE)
        return buffer

    def _value_shape(self) -> list[int]:
        return [1]

    def _values(self, step: Step) -> list[Any]:
        statements = []
        for at in step.nests:
            nest = self.plan.nests[at]
            buffer = self._value_of(at)
            point = self._point(at, (), index(0))
            statements += self._prepared(nest, point, 1, index(0))
            statements.append(stored(buffer, [index(0)], self.expression(self.row_value(at), point)))
            statements += self._result(at, point)
        return statements

    def _result(self, at: int, point: Point) -> list[Any]:
        """Return the store of a row's value where it is a result."""
        nest = self.plan.nests[at]
        if not self.is_result(at):
            return []
        value = loaded(self.places[at].buffer, self._at_place(at, []), nest.target.dtype)
        return [stored(nest.target, [self.expression(each, point) for each in nest.store.indices], value)]

    def _pass(self, step: Step) -> list[Any]:
        reductions = [at for at in step.nests if self.plan.nests[at].is_reduction]
        length, lanes = step.extents[-1], self._lanes(step)
        vectors = min(self._vectors(step, bool(reductions)), max(1, length // lanes))
        wide = min(lanes, length)
        self._allocate_elements(step, wide)
        room = doubled_up_to(wide)
        for at in reductions:
            target = self.plan.nests[at].target
            self.partial[at] = self._allocate(f"{target.name}_partial", [vectors * room], str(target.dtype))
            if self.plan.reducers[at].extremum is not None and str(target.dtype) in INFINITY_BITS:
                integers = integers_of(target.dtype)
                self.magnitudes[at] = self._allocate(f"{target.name}_magnitudes", [vectors * room], integers)
        outer = tuple(tirx.Var(f"o{at}", "int64") for at in range(len(step.extents) - 1))
        loops = self._strips(step, outer, vectors, wide)
        for variable, extent in reversed(list(zip(outer, step.extents[:-1], strict=True))):
            loops = tirx.For(variable, index(0), index(extent), tirx.ForKind.SERIAL, loops)
        starts = [self._started(at, vectors, room) for at in reductions]
        ends = [each for at in reductions for each in self._combined(at, vectors, room)]
        self.registers.clear()
        return [*starts, loops, *ends]

    def _lanes(self, step: Step) -> int:
        """Return the lanes of a register of the widest element in the pass."""
        bits = [32]
        for at in step.nests:
            nest = self.plan.nests[at]
            bits += [] if nest.is_reduction else [int(nest.target.dtype.bits)]
            inner = {axis for group in self.plan.inside[at].groups for axis in group}
            bits += [int(load.source.dtype.bits) for load in nest.loads if inner & set(nest.plain(load.indices))]
        return max(1, vector_bits() // max(bits))

    def _vectors(self, step: Step, reduces: bool) -> int:
        """Return the vectors of a strip: fewer where their work hides the latency of additions."""
        if not reduces:
            return 1
        return 2 if any(self.plan.cost(at) >= EXPENSIVE for at in step.nests) else STRIP_VECTORS

    def _allocate_elements(self, step: Step, lanes: int) -> None:
        """Allocate registers for elements used within the pass, and memory for what a later pass reads."""
        for at in step.nests:
            nest = self.plan.nests[at]
            if nest.is_reduction:
                continue
            self.registers[at] = self._allocate(f"{nest.target.name}_lanes", [lanes], str(nest.target.dtype))
            if self.is_result(at):
                self.places[at] = _Place(nest.target, TARGET)
            elif at in self.plan.kept:
                name, dtype = f"{nest.target.name}_row", str(nest.target.dtype)
                self.places[at] = _Place(self._allocate(name, self.row_shape(at), dtype), ROW)

    def _strips(self, step: Step, outer: tuple, vectors: int, lanes: int) -> Any:
        length, done, statements = step.extents[-1], 0, []
        for count in sorted({vectors, 1}, reverse=True):
            strips = (length - done) // (count * lanes)
            if strips:
                statements.append(self._strip_loop(step, outer, done, strips, count, lanes))
                done += strips * count * lanes
        if done < length:
            statements.append(self._vector(step, outer, index(done), index(0), length - done))
        if self.bounds is None or len(statements) == 1:
            return in_order(statements)
        # Bounds are multiples of the widest strip: the remainder is included only where the end is the row's.
        first, *rest = statements
        return in_order([first, tirx.IfThenElse(tirx.EQ(self.bounds[1], index(length)), in_order(rest), None)])

    def _strip_loop(self, step: Step, outer: tuple, done: int, strips: int, count: int, lanes: int) -> Any:
        strip, vector = tirx.Var("strip", "int64"), tirx.Var("vector", "int64")
        start, extent = plus(index(done), strip * index(count * lanes)), index(strips)
        if self.bounds is not None and done == 0:
            first, end = (tirx.floordiv(each, index(count * lanes)) for each in self.bounds)
            start, extent = (first + strip) * index(count * lanes), end - first
        if count == 1:
            body = self._vector(step, outer, start, index(0), lanes)
        else:
            part = vector * index(lanes)
            body = self._vector(step, outer, start + part, part, lanes)
            body = tirx.For(vector, index(0), index(count), tirx.ForKind.UNROLLED, body)
        return tirx.For(strip, index(0), extent, tirx.ForKind.SERIAL, body)

    def _vector(self, step: Step, outer: tuple, start: Any, part: Any, lanes: int) -> Any:
        lane = tirx.Var("lane", "int64") if lanes > 1 else index(0)
        strip = _Strip(outer, start, lane, lanes, part)
        self.lane = lane
        body = in_order([each for at in step.nests for each in self._element(at, strip)])
        if lanes > 1:
            body = tirx.For(lane, index(0), index(lanes), tirx.ForKind.VECTORIZED, body)
        return in_order([*(self._fetches(outer, start) if step is self.fetching else ()), body])

    def _element(self, at: int, strip: _Strip) -> list[Any]:
        """Return the statements of one nest for one element, which is a lane."""
        nest = self.plan.nests[at]
        point = self._point(at, strip.outer, plus(strip.start, strip.lane))
        if nest.is_reduction:
            place = [plus(strip.part, strip.lane)]
            term = self.expression(self.plan.reducers[at].term, point)
            own = loaded(self.partial[at], place, nest.target.dtype)
            if at in self.magnitudes:
                largest = tirx.BufferLoad(self.magnitudes[at], place)
                largest = tirx.max(largest, tirx.reinterpret(integers_of(nest.target.dtype), tirx.abs(term)))
                extremum = self.plan.reducers[at].extremum(own, term)
                return [stored(self.magnitudes[at], place, largest), stored(self.partial[at], place, extremum)]
            return [stored(self.partial[at], place, vectorizable(self.plan.reducers[at].combine(own, term)))]
        return self._element_of(at, point, strip.lanes, strip.lane)

    def _element_of(self, at: int, point: Point, lanes: int, lane: Any) -> list[Any]:
        """Compute an element, and store it where others read it."""
        nest, register = self.plan.nests[at], self.registers[at]
        statements = self._prepared(nest, point, lanes, lane)
        statements.append(stored(register, [self.lane], self.expression(nest.store.value, point)))
        if at in self.places:
            value = loaded(register, [self.lane], nest.target.dtype)
            indices = [self.expression(each, point) for each in nest.store.indices]
            statements.append(stored(self.places[at].buffer, self._at_place(at, indices), value))
        return statements

    def _prepared(self, nest: Nest, point: Point, lanes: int, lane: Any) -> list[Any]:
        """Return the statements before a nest's store, whose scratch elements become vectors."""
        for buffer in nest.scratch:
            wide = self._allocate(buffer.name, [lanes], str(buffer.dtype))
            point[buffer] = (wide, [lane])
        return self.before(nest, point)

    def _started(self, at: int, vectors: int, lanes: int) -> Any:
        starts = [(self.partial[at], self.start_of(at))]
        if at in self.magnitudes:
            starts.append((self.magnitudes[at], tirx.const(0, integers_of(self.plan.nests[at].target.dtype))))
        return in_order([
            lanewise(buffer, first * lanes, lanes, lambda _, value=value: value)
            for first in range(vectors) for buffer, value in starts
        ])  # fmt: skip

    def _combined(self, at: int, vectors: int, lanes: int) -> list[Any]:
        """Return the statements that combine the partial results, and store the row's value."""
        reducer, nest, partial = self.plan.reducers[at], self.plan.nests[at], self.partial[at]
        magnitudes = self.magnitudes.get(at)
        combine = reducer.combine if magnitudes is None else reducer.extremum
        halved = [(partial, nest.target.dtype, combine)]
        halved += [] if magnitudes is None else [(magnitudes, magnitudes.dtype, tirx.Max)]
        statements = together(halved, vectors, lanes)
        total = loaded(partial, [index(0)], nest.target.dtype)
        if magnitudes is not None:
            total = self._kept(at, total, [index(0)])
        if reducer.neutral is not None and not is_same_number(nest.init, reducer.neutral):
            total = reducer.combine(nest.init, total)
        statements.append(stored(self._value_of(at), [index(0)], vectorizable(total)))
        return [*statements, *self._result(at, self._point(at, (), index(0)))]

    def _kept(self, at: int, total: Any, place: list[Any]) -> Any:
        """Return an extremum, or the NaN that is among its terms."""
        largest, dtype = tirx.BufferLoad(self.magnitudes[at], place), str(self.plan.nests[at].target.dtype)
        is_undefined = tirx.GT(largest, tirx.const(INFINITY_BITS[dtype], integers_of(dtype)))
        return tirx.Select(is_undefined, tirx.reinterpret(dtype, largest), total)

    def _point(self, at: int, outer: Sequence[Any], last: Any, row: Sequence[Any] = ()) -> Point:
        """Return the value of each axis of a nest, from the row and the loops of a pass."""
        nest, inside = self.plan.nests[at], self.plan.inside[at]
        point = self.origin(at)
        for axis, value in zip(self.plan.rows.axes[at], row or self.row, strict=True):
            point[nest.axes[axis].variable] = value
        for group, loop in zip(inside.groups, [*outer, last], strict=False):
            axes = [nest.axes[axis] for axis in group]
            point.update(axis_values(axes, loop))
            self.joined += joined_by(axes, point, loop)
        return point

    def expression(self, value: Any, point: Point) -> Any:
        return vectorizable(super().expression(value, point))

    def load(self, load: Any) -> Any:
        return tirx.BufferLoad(load.source, in_one(load.source, list(load.indices), self.joined))

    def element_of(self, at: int, indices: list[Any]) -> Element:
        if at in self.registers:
            return self.registers[at], [self.lane]
        return self.places[at].buffer, self._at_place(at, indices)

    def _at_place(self, at: int, indices: list[Any]) -> list[Any]:
        kind = self.places[at].kind
        if kind == VALUE:
            return [index(0)]
        return in_one(self.places[at].buffer, indices, self.joined) if kind == TARGET else self.in_row(at, indices)
