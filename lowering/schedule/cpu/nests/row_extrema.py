"""Extrema of a row, and their positions, in vectors; a row that contains a NaN is computed again, term by term.

`position_row` takes a reduction with two accumulators, an extremum and its position (`argmax_kinds`)::

    best = terms of step 0;  found = 0
    for step: terms > best: best, found = terms, step      four vectors of each
    if no NaN: largest of best, and the first position of it;  else: the row's own steps

`extremum_row` takes one accumulator of fp32 or fp64 (`accumulators.extremum_term`)::

    for steps:  best = max(best, terms)                    eight vectors, one instruction each
                found = found or any term is NaN           one comparison for two vectors
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.lowering.schedule.cpu.common.nest import FlatNest, NestAxis
from mlirtri.lowering.schedule.cpu.common.profitability import serial_loops
from mlirtri.lowering.schedule.cpu.common.strips import vector_of
from mlirtri.lowering.schedule.cpu.nests.accumulator_dtypes import INT32_MAX
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators, extremum_term
from mlirtri.lowering.schedule.cpu.nests.argmax_kinds import Extremum, extremum_of, lowest
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.tir.tiles import ramp
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, tirx

VECTORS = 4
"""Vectors of extrema beside positions: several independent chains hide the latency of a comparison."""
EXTREMUM_VECTORS = 8
"""Vectors of extrema without positions."""
PAIR = 2
"""Vectors that one comparison checks for NaN."""
_PLAIN = ("float32", "float64")


def position_row(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int) -> Stmt | None:
    """Return the statements that compute and store one result; None where the form does not fit."""
    if len(accumulators.buffers) != 2 or [row] != list(nest.reduced):
        return None
    extremum = extremum_of(accumulators, row)
    if extremum is None:
        return None
    while lanes > row.extent:
        lanes //= 2
    return _PositionRow(accumulators, row, extremum, lanes).statement()


class _Row:
    """Loads and stores of whole vectors of a row."""

    lanes: int

    def _load(self, buffer: Buffer, first: int = 0, lanes: int | None = None) -> Any:
        return tirx.BufferLoad(buffer, [ramp(index(first), self.lanes if lanes is None else lanes)])

    def _store(self, buffer: Buffer, value: Expr, lanes: int | None = None) -> Any:
        return tirx.BufferStore(buffer, value, [ramp(index(0), self.lanes if lanes is None else lanes)])

    def contains_nan(self, nan: Any) -> Any:
        return any_lane(self._load(nan))


class _PositionRow(_Row):
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

    def _spread(self, value: Expr) -> Any:
        return tirx.Broadcast(value, self.lanes)

    def _better(self, x: Any, y: Any) -> Any:
        return tirx.GT(x, y) if self.extremum.sign > 0 else tirx.LT(x, y)

    def _as_signed(self, value: Expr) -> Any:
        """Map an unsigned number to a signed one of the same order, and back again."""
        return tirx.bitwise_xor(value, tirx.IntImm(self.dtype, lowest(value))) if self.extremum.is_unsigned else value

    def _terms(self, start: Any) -> tuple[Any, list[Any]]:
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

    def _compared(self, vector: int, term: Expr, step: Any, is_first: bool) -> list[Any]:
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

    def _merge(self, vector: int, best: Any, position: Expr) -> None:
        old_best, old_position = self._load(self.best[vector]), self._load(self.positions[vector])
        is_first = tirx.bitwise_and(tirx.EQ(best, old_best), tirx.LT(position, old_position))
        wins = tirx.bitwise_or(self._better(best, old_best), is_first)
        self.statements.append(self._store(self.positions[vector], tirx.Select(wins, position, old_position)))
        self.statements.append(
            self._store(self.best[vector], tirx.Select(self._better(best, old_best), best, old_best))
        )

    def _one_vector(self) -> None:
        remaining = list(range(self.count))
        while len(remaining) > 1:
            for first, other in zip(remaining[::2], remaining[1::2], strict=False):
                self._merge(first, self._load(self.best[other]), self._load(self.positions[other]))
            remaining = remaining[::2]

    def _halved(self, buffer: Buffer, choose: Callable[[Any, Any], Any]) -> Any:
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
        return tirx.IfThenElse(self.contains_nan(self.nan), slow, plain)

    def _into_accumulators(self, best: Any, row_position: Any) -> Any:
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


def any_lane(flags: Expr) -> Expr:
    """Return whether any lane of a vector of int32 is not 0."""
    return tirx.NE(tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.or", flags), tirx.IntImm("int32", 0))


def some_nan(terms: Sequence[Expr]) -> Expr:
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


def extremum_row(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int) -> tuple[Stmt, Expr] | None:
    """Return statements and condition for one result; None where it is no extremum of floats."""
    if len(accumulators.buffers) != 1 or not isinstance(accumulators.step, tirx.BufferStore) or row.extent < 2 * lanes:
        return None
    [accumulator] = accumulators.buffers.values()
    match = extremum_term(accumulators.step.value, accumulator)
    if match is None or str(accumulator.dtype) not in _PLAIN or str(match[1].ty.dtype) != str(accumulator.dtype):
        return None
    writer = _ExtremumRow(accumulators, row, accumulator, *match, lanes)
    return writer.statement([axis for axis in nest.reduced if axis is not row]), writer.contains_nan(writer.nan)


class _ExtremumRow(_Row):
    def __init__(
        self, accumulators: Accumulators, row: NestAxis, accumulator: Buffer, sign: int, term: Expr, lanes: int
    ):
        self.accumulators, self.row, self.accumulator = accumulators, row, accumulator
        self.sign, self.term, self.lanes = sign, term, lanes
        self.best = [
            new_buffer("best", str(accumulator.dtype), lanes) for _ in range(min(EXTREMUM_VECTORS, row.extent // lanes))
        ]
        self.nan = new_buffer("has_nan", "int32", lanes)

    def statement(self, others: Sequence[NestAxis]) -> Any:
        start = tirx.FloatImm(str(self.accumulator.dtype), float("-inf") * self.sign)
        statements = [tirx.AllocBuffer(buffer) for buffer in (*self.best, self.nan)]
        statements += [self._store(buffer, tirx.Broadcast(start, self.lanes)) for buffer in self.best]
        statements += [
            self._store(self.nan, tirx.Broadcast(tirx.IntImm("int32", 0), self.lanes)),
            self.accumulators.start,
        ]
        return sequence(*statements, serial_loops(others, self._terms()), *self._combined())

    def _terms(self) -> Any:
        wide = len(self.best) * self.lanes
        full, remaining = divmod(self.row.extent, wide)
        number = tirx.Var(self.row.variable.name, "int64")
        body = self._step(number * index(wide), self.best)
        statements = [tirx.For(number, index(0), index(full), tirx.ForKind.SERIAL, body)]
        if remaining >= self.lanes:
            statements.append(self._step(index(full * wide), self.best[: remaining // self.lanes]))
        if remaining % self.lanes:
            statements.append(self._step(index(self.row.extent - self.lanes), self.best[-1:]))
        return sequence(*statements)

    def _step(self, start: Any, best: Sequence[Any]) -> Any:
        statements: list[Any] = []
        for first in range(0, len(best), PAIR):
            statements += self._pair(plus(start, index(first * self.lanes)), best[first : first + PAIR])
        return fresh(sequence(*statements))

    def _pair(self, start: Any, best: Sequence[Any]) -> list[Any]:
        """Return the same for two, one after the other, so that LLVM keeps the loads in memory order."""
        element, statements, terms = new_buffer("term", str(self.accumulator.dtype), 1), [], []
        for number in range(len(best)):
            widened = new_buffer("terms", str(self.accumulator.dtype), 1, self.lanes)
            store = tirx.BufferStore(element, self.term, [index(0)])
            first = plus(start, index(number * self.lanes))
            vector = vector_of(store, self.row.variable, first, self.lanes, {element: widened})
            statements += [tirx.AllocBuffer(widened), vector]
            terms.append(tirx.BufferLoad(widened, [index(0), tirx.Ramp(index(0), index(1), self.lanes)]))
        statements += [
            self._store(buffer, self._better(x, self._load(buffer))) for buffer, x in zip(best, terms, strict=True)
        ]
        ones = tirx.Broadcast(tirx.IntImm("int32", 1), self.lanes)
        return [*statements, self._store(self.nan, tirx.Select(some_nan(terms), ones, self._load(self.nan)))]

    def _combined(self) -> list[Any]:
        """Return the reduction of all vectors into the first one, by halves, and into the accumulator."""
        statements, remaining, lanes = [], list(self.best), self.lanes
        while len(remaining) > 1:
            pairs = list(zip(remaining[::2], remaining[1::2], strict=False))
            statements += [self._store(x, self._better(self._load(y), self._load(x))) for x, y in pairs]
            remaining = remaining[::2]
        [last] = remaining
        while lanes > 1:
            lanes //= 2
            half = new_buffer("best", str(self.accumulator.dtype), lanes)
            better = self._better(self._load(last, lanes, lanes), self._load(last, 0, lanes))
            statements += [tirx.AllocBuffer(half), self._store(half, better, lanes)]
            last = half
        current = tirx.BufferLoad(self.accumulator, [index(0)])
        return [
            *statements,
            tirx.BufferStore(self.accumulator, self._better(self._load(last, 0, 1), current), [index(0)]),
        ]

    def _better(self, x: Any, y: Any) -> Any:
        """Return the extremum of two, in the form that is one instruction: of a NaN and y, it is y."""
        return tirx.Select(tirx.GT(x, y) if self.sign > 0 else tirx.LT(x, y), x, y)
