"""Argmax and argmin of a row: vectors of extrema, and of the steps in which they were found.

Takes a reduction with two accumulators, an extremum and its position, whose terms lie along one axis. Gives the
statements for one result, or None where that is not the first largest or smallest number (`argmax_kinds`). A row that
contains a NaN is computed again, one term after the other::

    best = terms of step 0;  found = 0
    for step: terms > best: best, found = terms, step      four vectors of each
    if no NaN: largest of best, and the first position of it;  else: the row's own steps
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.lowering.schedule.cpu.common.nest import FlatNest, NestAxis
from mlirtri.lowering.schedule.cpu.common.strips import vector_of
from mlirtri.lowering.schedule.cpu.nests.accumulator_dtypes import INT32_MAX
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators
from mlirtri.lowering.schedule.cpu.nests.argmax_kinds import Extremum, extremum_of, lowest
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, sequence, substituted
from mlirtri.lowering.toolchain.tvm_names import tirx

VECTORS = 4
"""Vectors of extrema: several independent chains hide the latency of a comparison."""
PAIR = 2
"""Vectors that one comparison checks for NaN."""


def position_row(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int) -> Any:
    """Return the statements that compute and store one result; None where the form does not fit."""
    if len(accumulators.buffers) != 2 or [row] != list(nest.reduced):
        return None
    extremum = extremum_of(accumulators, row)
    if extremum is None:
        return None
    while lanes > row.extent:
        lanes //= 2
    return _Row(accumulators, row, extremum, lanes).statement()


class _Row:
    """Writes the statements of one row."""

    def __init__(self, accumulators: Accumulators, row: NestAxis, extremum: Extremum, lanes: int):
        self.accumulators, self.row, self.extremum, self.lanes = accumulators, row, extremum, lanes
        self.count = min(VECTORS, row.extent // lanes)
        kind = str(extremum.term.ty.dtype)
        self.dtype = "float32" if kind in ("float16", "bfloat16") else kind
        self.best = [self._vector("best", self.dtype) for _ in range(self.count)]
        self.positions = [self._vector("step", "int32") for _ in range(self.count)]
        self.nan = self._vector("has_nan", "int32") if self.dtype.startswith("float") else None
        self.vectors = [*self.best, *self.positions, *([] if self.nan is None else [self.nan])]
        self.statements: list[Any] = []

    def statement(self) -> Any:
        wide = self.count * self.lanes
        steps, remaining = divmod(self.row.extent, wide)
        self.statements = [*self.accumulators.allocated(), self.accumulators.start]
        self.statements += [tirx.AllocBuffer(buffer) for buffer in self.vectors]
        self.statements.append(self._step(index(0), self.count, is_first=True))
        if steps > 1:
            number = tirx.Var(self.row.variable.name, "int64")
            body = self._step(number + index(1), self.count)
            self.statements.append(tirx.For(number, index(0), index(steps - 1), tirx.ForKind.SERIAL, body))
        if remaining >= self.lanes:
            self.statements.append(self._step(index(steps), remaining // self.lanes))
        self._as_positions(wide)
        if remaining % self.lanes:
            self._last(self.row.extent - self.lanes)
        self._one_vector()
        result = self._result()
        return sequence(*self.statements, result, self.accumulators.finish())

    def _vector(self, name: str, dtype: str) -> Any:
        return new_buffer(name, dtype, self.lanes)

    def _load(self, buffer: Any, first: int = 0, lanes: int | None = None) -> Any:
        lanes = self.lanes if lanes is None else lanes
        return tirx.BufferLoad(buffer, [tirx.Ramp(index(first), index(1), lanes) if lanes > 1 else index(first)])

    def _store(self, buffer: Any, value: Any, lanes: int | None = None) -> Any:
        lanes = self.lanes if lanes is None else lanes
        return tirx.BufferStore(buffer, value, [tirx.Ramp(index(0), index(1), lanes) if lanes > 1 else index(0)])

    def _spread(self, value: Any) -> Any:
        return tirx.Broadcast(value, self.lanes)

    def _better(self, x: Any, y: Any) -> Any:
        return tirx.GT(x, y) if self.extremum.sign > 0 else tirx.LT(x, y)

    def _as_signed(self, value: Any) -> Any:
        """Map an unsigned number to a signed one of the same order, and back again."""
        return tirx.bitwise_xor(value, tirx.IntImm(self.dtype, lowest(value))) if self.extremum.is_unsigned else value

    def _terms(self, start: Any) -> tuple[Any, list[Any]]:
        """Return a vector of terms from `start` on, and the statements that compute it."""
        element = new_buffer("term", self.dtype, 1)
        term = self.extremum.term
        term = self._as_signed(term if str(term.ty.dtype) == self.dtype else tirx.Cast(self.dtype, term))
        widened = new_buffer("terms", self.dtype, 1, self.lanes)
        store = tirx.BufferStore(element, term, [index(0)])
        statement = vector_of(store, self.row.variable, start, self.lanes, {element: widened})
        load = tirx.BufferLoad(widened, [index(0), tirx.Ramp(index(0), index(1), self.lanes)])
        return load, [tirx.AllocBuffer(widened), statement]

    def _step(self, number: Any, count: int, *, is_first: bool = False) -> Any:
        """Return step `number` of the first `count` vectors, two at a time, which keeps the order of LLVM's loads."""
        step, statements = self._spread(tirx.Cast("int32", number)), []
        for pair in range(0, count, PAIR):
            terms = []
            for vector in range(pair, min(pair + PAIR, count)):
                term, prologue = self._terms(number * index(self.count * self.lanes) + index(vector * self.lanes))
                terms.append(term)
                statements += prologue
            for vector, term in enumerate(terms, pair):
                statements += self._compared(vector, term, step, is_first)
            if self.nan is not None:
                is_start = is_first and pair == 0
                start = self._spread(tirx.IntImm("int32", 0)) if is_start else self._load(self.nan)
                statements.append(self._store(self.nan, tirx.Select(some_nan(terms), self._ones(), start)))
        return fresh(sequence(*statements))

    def _compared(self, vector: int, term: Any, step: Any, is_first: bool) -> list[Any]:
        """Return stores of the better terms into vector `vector` of extrema, of the step into the vector of steps."""
        if is_first:
            return [self._store(self.positions[vector], step), self._store(self.best[vector], term)]
        best, position = self._load(self.best[vector]), self._load(self.positions[vector])
        wins = self._better(term, best)
        return [
            self._store(self.positions[vector], tirx.Select(wins, step, position)),
            self._store(self.best[vector], tirx.Select(self._better(term, best), term, best)),
        ]

    def _ones(self) -> Any:
        return self._spread(tirx.IntImm("int32", 1))

    def _lane_numbers(self, first: int) -> Any:
        return tirx.Ramp(tirx.IntImm("int32", first), tirx.IntImm("int32", 1), self.lanes)

    def _as_positions(self, wide: int) -> None:
        """Convert numbers of steps to positions in the row."""
        for vector, positions in enumerate(self.positions):
            scaled = self._load(positions) * self._spread(tirx.IntImm("int32", wide))
            self.statements.append(self._store(positions, scaled + self._lane_numbers(vector * self.lanes)))

    def _last(self, first: int) -> None:
        """Add the last vector, which may overlap the one before."""
        term, prologue = self._terms(index(first))
        self.statements += prologue
        if self.nan is not None:
            self.statements.append(
                self._store(self.nan, tirx.Select(some_nan([term]), self._ones(), self._load(self.nan)))
            )
        self._merge(0, term, self._lane_numbers(first))

    def _merge(self, vector: int, best: Any, position: Any) -> None:
        """Merge another vector of extrema and positions into vector `vector`."""
        old_best, old_position = self._load(self.best[vector]), self._load(self.positions[vector])
        is_first = tirx.bitwise_and(tirx.EQ(best, old_best), tirx.LT(position, old_position))
        wins = tirx.bitwise_or(self._better(best, old_best), is_first)
        self.statements.append(self._store(self.positions[vector], tirx.Select(wins, position, old_position)))
        self.statements.append(
            self._store(self.best[vector], tirx.Select(self._better(best, old_best), best, old_best))
        )

    def _one_vector(self) -> None:
        """Merge all vectors into the first one, pairwise."""
        remaining = list(range(self.count))
        while len(remaining) > 1:
            for first, other in zip(remaining[::2], remaining[1::2], strict=False):
                self._merge(first, self._load(self.best[other]), self._load(self.positions[other]))
            remaining = remaining[::2]

    def _halved(self, buffer: Any, choose: Callable[[Any, Any], Any]) -> Any:
        """Return the reduction of a vector to one value, by halves."""
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            half = new_buffer(buffer.name, str(buffer.dtype), lanes)
            value = choose(self._load(buffer, 0, lanes), self._load(buffer, lanes, lanes))
            self.statements += [tirx.AllocBuffer(half), self._store(half, value, lanes)]
            buffer = half
        return self._load(buffer, 0, 1)

    def _result(self) -> Any:
        """Return the stores of the extremum into the accumulators; step by step where there is a NaN."""
        best = self._halved(self.best[0], lambda x, y: tirx.Select(self._better(x, y), x, y))
        first_positions = self._vector("first", "int32")
        is_best = tirx.EQ(self._load(self.best[0]), self._spread(best))
        far = self._spread(tirx.IntImm("int32", INT32_MAX))
        self.statements += [
            tirx.AllocBuffer(first_positions),
            self._store(first_positions, tirx.Select(is_best, self._load(self.positions[0]), far)),
        ]
        plain = self._into_accumulators(best, self._halved(first_positions, tirx.min))
        if self.nan is None:
            return plain
        variable = tirx.Var(self.row.variable.name, "int64")
        step = fresh(substituted(self.accumulators.step, self.row.variable, variable))
        slow = tirx.For(variable, index(0), index(self.row.extent), tirx.ForKind.SERIAL, step)
        some = tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.or", self._load(self.nan))
        return tirx.IfThenElse(tirx.NE(some, tirx.IntImm("int32", 0)), slow, plain)

    def _into_accumulators(self, best: Any, row_position: Any) -> Any:
        """Return the stores of the row's extremum and of its `row_position` into the accumulators."""
        extremum, old = (
            self.extremum,
            [tirx.BufferLoad(buffer, [index(0)]) for buffer in (self.extremum.best, self.extremum.best_position)],
        )
        current = self._as_signed(old[0] if str(extremum.best.dtype) == self.dtype else tirx.Cast(self.dtype, old[0]))
        position = substituted(extremum.position, self.row.variable, tirx.Cast("int64", row_position))
        position = tirx.Cast("int32", position)
        wins = self._better(best, current)
        if extremum.replaces_equal:
            wins = tirx.bitwise_or(wins, tirx.bitwise_and(tirx.EQ(best, current), tirx.LT(position, old[1])))
        new = self._as_signed(best)
        new = new if str(extremum.best.dtype) == self.dtype else tirx.Cast(str(extremum.best.dtype), new)
        return sequence(
            tirx.BufferStore(extremum.best_position, tirx.Select(wins, position, old[1]), [index(0)]),
            tirx.BufferStore(extremum.best, tirx.Select(self._better(best, current), new, old[0]), [index(0)]),
        )


def some_nan(terms: Sequence[Any]) -> Any:
    """Return lane-wise whether terms are NaN, in a form that TVM vectorises and LLVM compiles to few comparisons."""
    tests = []
    for term in terms:
        dtype, _, lanes = str(term.ty.dtype).partition("x")
        infinity = tirx.Broadcast(tirx.FloatImm(dtype, math.inf), int(lanes))
        is_number = tirx.LE(tirx.abs(term), infinity)
        tests.append(tirx.bitwise_xor(is_number, tirx.Broadcast(tirx.IntImm("bool", 1), int(lanes))))
    pairs = [tirx.bitwise_or(*pair) for pair in zip(tests[::2], tests[1::2], strict=False)]
    pairs += tests[2 * len(pairs) :]
    combined = pairs[0]
    for pair in pairs[1:]:
        combined = tirx.bitwise_or(combined, pair)
    return combined
