"""The loops of one row: the steps of a `RowPlan`, as TIR.

A pass runs in strips of several vectors, then single vectors, then one shorter vector; reductions keep as many partial
results, which are combined as a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_in_register
from mlirtri.lowering.schedule.rows.nests import BlockNest
from mlirtri.lowering.schedule.rows.plan import EXPENSIVE, RowPlan, Step
from mlirtri.lowering.schedule.rows.writer import Element, NestWriter, Point, axis_values
from mlirtri.lowering.tir.bfloat16_storage import wide_dtype
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
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, TensorLoad, tirx

STRIP_VECTORS = 4
"""Vectors of partial results: as many additions as are in flight in a core."""


def unit_of_bounds() -> int:
    """Return the number of elements that bounds of passes are multiples of: the widest strip."""
    return STRIP_VECTORS * lanes_in_register(32)


TARGET, ROW, VALUE = "target", "row", "value"


@dataclass(frozen=True)
class _Storage:
    """The buffer for a nest's result: all of its target, this row of it, or one value."""

    buffer: Any
    kind: str
    """``target`` is indexed as the target is, ``row`` without the rows' dimensions, ``value`` by 0."""


@dataclass(frozen=True)
class _Vector:
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
        self, plan: RowPlan, row: Sequence[Expr], parameters: Sequence[Buffer], ahead: Sequence[Any] = (),
        bounds: tuple[Expr, Expr] | None = None,
    ):  # fmt: skip
        super().__init__(plan, parameters)
        self.row, self.ahead, self.bounds = list(row), list(ahead), bounds
        """First and end element of the passes, in whole `unit_of_bounds`; the end may be the row's, too."""
        self.memory: list[Any] = []
        self.storage: dict[int, _Storage] = {}
        self.registers: dict[int, Any] = {}
        self.partial: dict[int, Any] = {}
        self.magnitudes: dict[int, Any] = {}
        """Per extremum, the bits of the largest magnitudes of partial results: NaN is larger than infinity."""
        self.lane: Any = index(0)
        self.joined: list[Joined] = []
        self.fetching = self._fetching_step() if ahead else None
        """The step during which the next row is prefetched."""

    def written(self) -> Stmt:
        """Return the statements of all steps of the row, in order."""
        statements: list[Any] = []
        for step in self.plan.steps:
            statements += self._pass(step) if step.extents else self._values(step)
        return in_order(statements)

    def _fetching_step(self) -> Step | None:
        """Return a step after the first one along the same elements that is compute-bound; None where there is none."""
        first, *later = (step for step in self.plan.steps if step.extents)
        later = [step for step in later if step.extents == first.extents]
        expensive = (step for step in later if any(self.plan.cost(n) >= EXPENSIVE for n in step.nests))
        return next(expensive, later[0] if later else None)

    def _prefetches(self, outer: tuple, start: Any) -> list[Any]:
        """Return prefetches of one vector of the first step's operands in the next row."""
        first = next(step for step in self.plan.steps if step.extents)
        statements, fetched = [], []
        for n in first.nests:
            nest = self.plan.nests[n]
            inner = {axis for group in self.plan.inside[n].groups for axis in group}
            rows = {axis for axis in self.plan.rows.axes[n] if nest.axes[axis].extent > 1}
            for load in nest.loads:
                axes = set(nest.plain(load.indices))
                is_new = not any(load.source.same_as(buffer) for buffer in fetched)
                if load.source in self.writers or not is_new or not (rows | inner <= axes):
                    continue
                fetched.append(load.source)
                point = self._point(n, outer, start, self.ahead)
                element = tirx.BufferLoad(load.source, [self.expression(position, point) for position in load.indices])
                statements.append(fetch(element))
        return statements

    def _allocate(self, name: str, shape: Sequence[int], dtype: str) -> Any:
        # TVM stores bools as bytes, but not vectors of them.
        dtype = "int8" if dtype == "bool" else wide_dtype(dtype)
        buffer = tirx.decl_buffer([index(size) for size in shape], dtype, name, layout=None)
        self.memory.append(buffer)
        return buffer

    def _value_of(self, n: int) -> Any:
        nest = self.plan.nests[n]
        buffer = self._allocate(f"{nest.target.name}_of_row", self._value_shape(), str(nest.target.dtype))
        self.storage[n] = _Storage(buffer, VALUE)
        return buffer

    def _value_shape(self) -> list[int]:
        return [1]

    def _values(self, step: Step) -> list[Any]:
        statements = []
        for n in step.nests:
            nest = self.plan.nests[n]
            buffer = self._value_of(n)
            point = self._point(n, (), index(0))
            statements += self._prepared(nest, point, 1, index(0))
            statements.append(stored(buffer, [index(0)], self.expression(self.row_value(n), point)))
            statements += self._result(n, point)
        return statements

    def _result(self, n: int, point: Point) -> list[Any]:
        nest = self.plan.nests[n]
        if not self.is_result(n):
            return []
        value = loaded(self.storage[n].buffer, self._stored_indices(n, []), nest.target.dtype)
        return [stored(nest.target, [self.expression(position, point) for position in nest.store.indices], value)]

    def _pass(self, step: Step) -> list[Any]:
        reductions = [n for n in step.nests if self.plan.nests[n].is_reduction]
        length, lanes = step.extents[-1], self._lanes(step)
        vectors = min(self._vectors(step, bool(reductions)), max(1, length // lanes))
        wide = min(lanes, length)
        self._allocate_elements(step, wide)
        padded = doubled_up_to(wide)
        for n in reductions:
            target = self.plan.nests[n].target
            self.partial[n] = self._allocate(f"{target.name}_partial", [vectors * padded], str(target.dtype))
            if self.plan.reducers[n].extremum is not None and str(target.dtype) in INFINITY_BITS:
                integers = integers_of(target.dtype)
                self.magnitudes[n] = self._allocate(f"{target.name}_magnitudes", [vectors * padded], integers)
        outer = tuple(tirx.Var(f"o{axis}", "int64") for axis in range(len(step.extents) - 1))
        loops = self._strips(step, outer, vectors, wide)
        for variable, extent in reversed(list(zip(outer, step.extents[:-1], strict=True))):
            loops = tirx.For(variable, index(0), index(extent), tirx.ForKind.SERIAL, loops)
        starts = [self._started(n, vectors, padded) for n in reductions]
        ends = [statement for n in reductions for statement in self._combined(n, vectors, padded)]
        self.registers.clear()
        return [*starts, loops, *ends]

    def _lanes(self, step: Step) -> int:
        bits: list[int] = []
        for n in step.nests:
            nest = self.plan.nests[n]
            bits += [] if nest.is_reduction else [int(nest.target.dtype.bits)]
            inner = {axis for group in self.plan.inside[n].groups for axis in group}
            bits += [int(load.source.dtype.bits) for load in nest.loads if inner & set(nest.plain(load.indices))]
        return lanes_in_register(*bits, least_bits=32)

    def _vectors(self, step: Step, reduces: bool) -> int:
        """Return the vectors of a strip: fewer where their work hides the latency of additions."""
        if not reduces:
            return 1
        return 2 if any(self.plan.cost(n) >= EXPENSIVE for n in step.nests) else STRIP_VECTORS

    def _allocate_elements(self, step: Step, lanes: int) -> None:
        """Allocate registers for elements used within the pass, and memory for what a later pass reads."""
        for n in step.nests:
            nest = self.plan.nests[n]
            if nest.is_reduction:
                continue
            self.registers[n] = self._allocate(f"{nest.target.name}_lanes", [lanes], str(nest.target.dtype))
            if self.is_result(n):
                self.storage[n] = _Storage(nest.target, TARGET)
            elif n in self.plan.kept:
                name, dtype = f"{nest.target.name}_row", str(nest.target.dtype)
                self.storage[n] = _Storage(self._allocate(name, self.row_shape(n), dtype), ROW)

    def _strips(self, step: Step, outer: tuple, vectors: int, lanes: int) -> Any:
        length, covered, statements = step.extents[-1], 0, []
        for count in sorted({vectors, 1}, reverse=True):
            strips = (length - covered) // (count * lanes)
            if strips:
                statements.append(self._strip_loop(step, outer, covered, strips, count, lanes))
                covered += strips * count * lanes
        if covered < length:
            statements.append(self._vector(step, outer, index(covered), index(0), length - covered))
        if self.bounds is None or len(statements) == 1:
            return in_order(statements)
        # Bounds are multiples of the widest strip: the remainder is included only where the end is the row's.
        first, *others = statements
        return in_order([first, tirx.IfThenElse(tirx.EQ(self.bounds[1], index(length)), in_order(others), None)])

    def _strip_loop(self, step: Step, outer: tuple, covered: int, strips: int, count: int, lanes: int) -> Any:
        strip, vector = tirx.Var("strip", "int64"), tirx.Var("vector", "int64")
        start, extent = plus(index(covered), strip * index(count * lanes)), index(strips)
        if self.bounds is not None and covered == 0:
            first, end = (tirx.floordiv(bound, index(count * lanes)) for bound in self.bounds)
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
        vector = _Vector(outer, start, lane, lanes, part)
        self.lane = lane
        body = in_order([statement for n in step.nests for statement in self._element(n, vector)])
        if lanes > 1:
            body = tirx.For(lane, index(0), index(lanes), tirx.ForKind.VECTORIZED, body)
        return in_order([*(self._prefetches(outer, start) if step is self.fetching else ()), body])

    def _element(self, n: int, vector: _Vector) -> list[Any]:
        nest = self.plan.nests[n]
        point = self._point(n, vector.outer, plus(vector.start, vector.lane))
        if nest.is_reduction:
            indices = [plus(vector.part, vector.lane)]
            term = self.expression(self.plan.reducers[n].term, point)
            current = loaded(self.partial[n], indices, nest.target.dtype)
            if n in self.magnitudes:
                largest = tirx.BufferLoad(self.magnitudes[n], indices)
                largest = tirx.max(largest, tirx.reinterpret(integers_of(nest.target.dtype), tirx.abs(term)))
                extremum = self.plan.reducers[n].extremum(current, term)
                return [stored(self.magnitudes[n], indices, largest), stored(self.partial[n], indices, extremum)]
            return [stored(self.partial[n], indices, vectorizable(self.plan.reducers[n].combine(current, term)))]
        return self._element_of(n, point, vector.lanes, vector.lane)

    def _element_of(self, n: int, point: Point, lanes: int, lane: Any) -> list[Any]:
        """Compute an element, and store it where others read it."""
        nest, register = self.plan.nests[n], self.registers[n]
        statements = self._prepared(nest, point, lanes, lane)
        statements.append(stored(register, [self.lane], self.expression(nest.store.value, point)))
        if n in self.storage:
            value = loaded(register, [self.lane], nest.target.dtype)
            indices = [self.expression(position, point) for position in nest.store.indices]
            statements.append(stored(self.storage[n].buffer, self._stored_indices(n, indices), value))
        return statements

    def _prepared(self, nest: BlockNest, point: Point, lanes: int, lane: Any) -> list[Any]:
        """Return the statements before a nest's store, whose scratch elements become vectors."""
        for buffer in nest.scratch:
            wide = self._allocate(buffer.name, [lanes], str(buffer.dtype))
            point[buffer] = (wide, [lane])
        return self.before(nest, point)

    def _started(self, n: int, vectors: int, lanes: int) -> Any:
        starts = [(self.partial[n], self.start_of(n))]
        if n in self.magnitudes:
            starts.append((self.magnitudes[n], tirx.const(0, integers_of(self.plan.nests[n].target.dtype))))
        return in_order([
            lanewise(buffer, first * lanes, lanes, lambda _, value=value: value)
            for first in range(vectors) for buffer, value in starts
        ])  # fmt: skip

    def _combined(self, n: int, vectors: int, lanes: int) -> list[Any]:
        reducer, nest, partial = self.plan.reducers[n], self.plan.nests[n], self.partial[n]
        magnitudes = self.magnitudes.get(n)
        combine = reducer.combine if magnitudes is None else reducer.extremum
        halved = [(partial, nest.target.dtype, combine)]
        halved += [] if magnitudes is None else [(magnitudes, magnitudes.dtype, tirx.Max)]
        statements = together(halved, vectors, lanes)
        value = loaded(partial, [index(0)], nest.target.dtype)
        if magnitudes is not None:
            value = self._extremum_or_nan(n, value, [index(0)])
        if reducer.neutral is not None and not is_same_number(nest.init, reducer.neutral):
            value = reducer.combine(nest.init, value)
        statements.append(stored(self._value_of(n), [index(0)], vectorizable(value)))
        return [*statements, *self._result(n, self._point(n, (), index(0)))]

    def _extremum_or_nan(self, n: int, value: Expr, indices: list[Any]) -> Any:
        """Return an extremum, or the NaN that is among its terms."""
        largest, dtype = tirx.BufferLoad(self.magnitudes[n], indices), str(self.plan.nests[n].target.dtype)
        is_undefined = tirx.GT(largest, tirx.const(INFINITY_BITS[dtype], integers_of(dtype)))
        return tirx.Select(is_undefined, tirx.reinterpret(dtype, largest), value)

    def _point(self, n: int, outer: Sequence[Any], last: Any, row: Sequence[Any] = ()) -> Point:
        nest, inside = self.plan.nests[n], self.plan.inside[n]
        point = self.origin(n)
        for axis, value in zip(self.plan.rows.axes[n], row or self.row, strict=True):
            point[nest.axes[axis].variable] = value
        for group, loop in zip(inside.groups, [*outer, last], strict=False):
            axes = [nest.axes[axis] for axis in group]
            point.update(axis_values(axes, loop))
            self.joined += joined_by(axes, point, loop)
        return point

    def expression(self, value: Expr, point: Point) -> Expr:
        return vectorizable(super().expression(value, point))

    def load(self, load: TensorLoad) -> Expr:
        return tirx.BufferLoad(load.source, in_one(load.source, list(load.indices), self.joined))

    def element_of(self, n: int, indices: list[Expr]) -> Element:
        if n in self.registers:
            return self.registers[n], [self.lane]
        return self.storage[n].buffer, self._stored_indices(n, indices)

    def _stored_indices(self, n: int, indices: list[Any]) -> list[Any]:
        kind = self.storage[n].kind
        if kind == VALUE:
            return [index(0)]
        return in_one(self.storage[n].buffer, indices, self.joined) if kind == TARGET else self.in_row(n, indices)
