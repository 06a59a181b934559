"""Max and min of a row of floats: NaN is checked for beside the comparisons, once per two vectors.

Takes a reduction with one accumulator of fp32 or fp64 that holds an extremum (`accumulators.extremum_term`). Gives
statements that compute the extremum of the row's numbers in the accumulator, and the condition that the row contains a
NaN: it is computed again then by the reduction's own steps::

    for steps:  best = max(best, terms)              eight vectors, one instruction each
                found = found or any term is NaN     one comparison for two vectors
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.schedule.cpu.common.nest import FlatNest, NestAxis
from mlirtri.lowering.schedule.cpu.common.parallel import serial_loops
from mlirtri.lowering.schedule.cpu.common.strips import vector_of
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators, extremum_term
from mlirtri.lowering.schedule.cpu.nests.argmax import PAIR, some_nan
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence
from mlirtri.lowering.toolchain.tvm_names import tirx

VECTORS = 8
"""Vectors of extrema: several independent chains hide the latency."""
_PLAIN = ("float32", "float64")


def extremum_row(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int) -> tuple[Any, Any] | None:
    """Return statements and condition for one result; None where it is no extremum of floats."""
    if len(accumulators.buffers) != 1 or not isinstance(accumulators.step, tirx.BufferStore) or row.extent < 2 * lanes:
        return None
    [accumulator] = accumulators.buffers.values()
    match = extremum_term(accumulators.step.value, accumulator)
    if match is None or str(accumulator.dtype) not in _PLAIN or str(match[1].ty.dtype) != str(accumulator.dtype):
        return None
    writer = _Row(accumulators, row, accumulator, *match, lanes)
    return writer.statement([axis for axis in nest.reduced if axis is not row]), writer.condition()


class _Row:
    """Writes the statements of one row."""

    def __init__(self, accumulators: Accumulators, row: NestAxis, accumulator: Any, sign: int, term: Any, lanes: int):
        self.accumulators, self.row, self.accumulator = accumulators, row, accumulator
        self.sign, self.term, self.lanes = sign, term, lanes
        self.best = [
            new_buffer("best", str(accumulator.dtype), lanes) for _ in range(min(VECTORS, row.extent // lanes))
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

    def condition(self) -> Any:
        """Return whether the row contains a NaN."""
        some = tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.or", self._load(self.nan))
        return tirx.NE(some, tirx.IntImm("int32", 0))

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
        """Return the reduction of a vector of terms into each of these vectors."""
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

    def _load(self, buffer: Any, first: int = 0, lanes: int | None = None) -> Any:
        return tirx.BufferLoad(buffer, [_lanes_from(first, self.lanes if lanes is None else lanes)])

    def _store(self, buffer: Any, value: Any, lanes: int | None = None) -> Any:
        return tirx.BufferStore(buffer, value, [_lanes_from(0, self.lanes if lanes is None else lanes)])


def _lanes_from(first: int, lanes: int) -> Any:
    return tirx.Ramp(index(first), index(1), lanes) if lanes > 1 else index(first)
