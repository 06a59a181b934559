"""Argmax and argmin of a row: vectors of extrema, and of the steps in which they were found.

Takes a reduction with two cells, an extremum and its position, whose terms lie along one axis. Gives the statements for
one result, or None where that is not the first largest or smallest number (`argmax_kinds`). A row that contains a NaN
is computed again, one term after the other::

    best = terms of step 0;  found = 0
    for step: terms > best: best, found = terms, step      four vectors of each
    if no NaN: largest of best, and the first position of it;  else: the row's own steps
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.lowering.schedule.cpu.common.nest import FlatNest, NestAxis
from mlirtri.lowering.schedule.cpu.common.strips import Shape, strip
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators
from mlirtri.lowering.schedule.cpu.nests.argmax_kinds import Extremum, extremum_of, lowest
from mlirtri.lowering.schedule.cpu.nests.cells import INT32_MAX
from mlirtri.lowering.tir.blocks import PartedLanesError
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, sequence, substituted
from mlirtri.lowering.toolchain.tvm_names import tirx

VECTORS = 4
"""Vectors of extrema: several independent chains hide the latency of a comparison."""
PAIR = 2
"""Vectors that one comparison checks for NaN."""


def position_row(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int) -> Any:
    """Return the statements that compute and store one result; None where the form does not fit."""
    if len(accumulators.cells) != 2 or [row] != list(nest.reduced):
        return None
    found = extremum_of(accumulators, row)
    if found is None:
        return None
    while lanes > row.extent:
        lanes //= 2
    return _Row(accumulators, row, found, lanes).statement()


class _Row:
    """Writes the statements of one row."""

    def __init__(self, accumulators: Accumulators, row: NestAxis, found: Extremum, lanes: int):
        self.accumulators, self.row, self.found, self.lanes = accumulators, row, found, lanes
        self.count = min(VECTORS, row.extent // lanes)
        kind = str(found.term.ty.dtype)
        self.dtype = "float32" if kind in ("float16", "bfloat16") else kind
        self.best = [self._vector("best", self.dtype) for _ in range(self.count)]
        self.place = [self._vector("found", "int32") for _ in range(self.count)]
        self.nan = self._vector("has_nan", "int32") if self.dtype.startswith("float") else None
        self.vectors = [*self.best, *self.place, *([] if self.nan is None else [self.nan])]
        self.made: list[Any] = []

    def statement(self) -> Any:
        wide = self.count * self.lanes
        whole, rest = divmod(self.row.extent, wide)
        self.made = [*self.accumulators.allocated(), self.accumulators.start]
        self.made += [tirx.AllocBuffer(each) for each in self.vectors]
        self.made.append(self._step(index(0), self.count, is_first=True))
        if whole > 1:
            number = tirx.Var(self.row.variable.name, "int64")
            body = self._step(number + index(1), self.count)
            self.made.append(tirx.For(number, index(0), index(whole - 1), tirx.ForKind.SERIAL, body))
        if rest >= self.lanes:
            self.made.append(self._step(index(whole), rest // self.lanes))
        self._as_positions(wide)
        if rest % self.lanes:
            self._last(self.row.extent - self.lanes)
        self._one_vector()
        chosen = self._chosen()
        return sequence(*self.made, chosen, self.accumulators.finish())

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
        return tirx.GT(x, y) if self.found.sign > 0 else tirx.LT(x, y)

    def _turned(self, value: Any) -> Any:
        """Map an unsigned number to a signed one of the same order, and back again."""
        return tirx.bitwise_xor(value, tirx.IntImm(self.dtype, lowest(value))) if self.found.is_unsigned else value

    def _terms(self, start: Any) -> tuple[Any, list[Any]]:
        """Return a vector of terms from `start` on, and the statements that compute it."""
        one = new_buffer("term", self.dtype, 1)
        term = self.found.term
        term = self._turned(term if str(term.ty.dtype) == self.dtype else tirx.Cast(self.dtype, term))
        room = new_buffer("terms", self.dtype, 1, self.lanes)
        made = strip(
            tirx.BufferStore(one, term, [index(0)]), self.row.variable, start, Shape(1, self.lanes), {one: room}
        )
        if made is None:
            raise PartedLanesError("the row's terms part")
        load = tirx.BufferLoad(room, [index(0), tirx.Ramp(index(0), index(1), self.lanes)])
        return load, [tirx.AllocBuffer(room), made]

    def _step(self, number: Any, count: int, *, is_first: bool = False) -> Any:
        """Return step `number` of the first `count` vectors, two at a time, which keeps the order of LLVM's loads."""
        step, made = self._spread(tirx.Cast("int32", number)), []
        for pair in range(0, count, PAIR):
            terms = []
            for at in range(pair, min(pair + PAIR, count)):
                term, before = self._terms(number * index(self.count * self.lanes) + index(at * self.lanes))
                terms.append(term)
                made += before
            for at, term in enumerate(terms, pair):
                made += self._compared(at, term, step, is_first)
            if self.nan is not None:
                is_start = is_first and pair == 0
                start = self._spread(tirx.IntImm("int32", 0)) if is_start else self._load(self.nan)
                made.append(self._store(self.nan, tirx.Select(some_nan(terms), self._ones(), start)))
        return fresh(sequence(*made))

    def _compared(self, at: int, term: Any, step: Any, is_first: bool) -> list[Any]:
        """Return stores of the better terms into vector `at` of extrema, and of the step into the vector of steps."""
        if is_first:
            return [self._store(self.place[at], step), self._store(self.best[at], term)]
        best, place = self._load(self.best[at]), self._load(self.place[at])
        wins = self._better(term, best)
        return [
            self._store(self.place[at], tirx.Select(wins, step, place)),
            self._store(self.best[at], tirx.Select(self._better(term, best), term, best)),
        ]

    def _ones(self) -> Any:
        return self._spread(tirx.IntImm("int32", 1))

    def _lane_numbers(self, first: int) -> Any:
        return tirx.Ramp(tirx.IntImm("int32", first), tirx.IntImm("int32", 1), self.lanes)

    def _as_positions(self, wide: int) -> None:
        """Convert numbers of steps to positions in the row."""
        for at, place in enumerate(self.place):
            scaled = self._load(place) * self._spread(tirx.IntImm("int32", wide))
            self.made.append(self._store(place, scaled + self._lane_numbers(at * self.lanes)))

    def _last(self, first: int) -> None:
        """Add the last vector, which may overlap the one before."""
        term, before = self._terms(index(first))
        self.made += before
        if self.nan is not None:
            self.made.append(self._store(self.nan, tirx.Select(some_nan([term]), self._ones(), self._load(self.nan))))
        self._merge(0, term, self._lane_numbers(first))

    def _merge(self, at: int, best: Any, place: Any) -> None:
        """Merge another vector of extrema and positions into vector `at`."""
        own, there = self._load(self.best[at]), self._load(self.place[at])
        is_first = tirx.bitwise_and(tirx.EQ(best, own), tirx.LT(place, there))
        wins = tirx.bitwise_or(self._better(best, own), is_first)
        self.made.append(self._store(self.place[at], tirx.Select(wins, place, there)))
        self.made.append(self._store(self.best[at], tirx.Select(self._better(best, own), best, own)))

    def _one_vector(self) -> None:
        """Merge all vectors into the first one, pairwise."""
        left = list(range(self.count))
        while len(left) > 1:
            for one, other in zip(left[::2], left[1::2], strict=False):
                self._merge(one, self._load(self.best[other]), self._load(self.place[other]))
            left = left[::2]

    def _halved(self, buffer: Any, choose: Callable[[Any, Any], Any]) -> Any:
        """Return the reduction of a vector to one value, by halves."""
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            half = new_buffer(buffer.name, str(buffer.dtype), lanes)
            value = choose(self._load(buffer, 0, lanes), self._load(buffer, lanes, lanes))
            self.made += [tirx.AllocBuffer(half), self._store(half, value, lanes)]
            buffer = half
        return self._load(buffer, 0, 1)

    def _chosen(self) -> Any:
        """Return the stores of the extremum into the cells; step by step where there is a NaN."""
        best = self._halved(self.best[0], lambda x, y: tirx.Select(self._better(x, y), x, y))
        places = self._vector("first", "int32")
        is_best = tirx.EQ(self._load(self.best[0]), self._spread(best))
        far = self._spread(tirx.IntImm("int32", INT32_MAX))
        self.made += [
            tirx.AllocBuffer(places),
            self._store(places, tirx.Select(is_best, self._load(self.place[0]), far)),
        ]
        plain = self._into_cells(best, self._halved(places, tirx.min))
        if self.nan is None:
            return plain
        variable = tirx.Var(self.row.variable.name, "int64")
        step = fresh(substituted(self.accumulators.step, self.row.variable, variable))
        slow = tirx.For(variable, index(0), index(self.row.extent), tirx.ForKind.SERIAL, step)
        some = tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.or", self._load(self.nan))
        return tirx.IfThenElse(tirx.NE(some, tirx.IntImm("int32", 0)), slow, plain)

    def _into_cells(self, best: Any, place: Any) -> Any:
        """Return the stores of the row's extremum and of its position `place` into the cells."""
        found, old = self.found, [tirx.BufferLoad(each, [index(0)]) for each in (self.found.best, self.found.place)]
        own = self._turned(old[0] if str(found.best.dtype) == self.dtype else tirx.Cast(self.dtype, old[0]))
        position = substituted(found.position, self.row.variable, tirx.Cast("int64", place))
        position = tirx.Cast("int32", position)
        wins = self._better(best, own)
        if found.replaces_equal:
            wins = tirx.bitwise_or(wins, tirx.bitwise_and(tirx.EQ(best, own), tirx.LT(position, old[1])))
        new = self._turned(best)
        new = new if str(found.best.dtype) == self.dtype else tirx.Cast(str(found.best.dtype), new)
        return sequence(
            tirx.BufferStore(found.place, tirx.Select(wins, position, old[1]), [index(0)]),
            tirx.BufferStore(found.best, tirx.Select(self._better(best, own), new, old[0]), [index(0)]),
        )


def some_nan(terms: Sequence[Any]) -> Any:
    """Return lane-wise whether terms are NaN, in a form that TVM vectorises and LLVM compiles to few comparisons."""
    tests = []
    for term in terms:
        dtype, _, lanes = str(term.ty.dtype).partition("x")
        infinity = tirx.Broadcast(tirx.FloatImm(dtype, math.inf), int(lanes))
        is_number = tirx.LE(tirx.abs(term), infinity)
        tests.append(tirx.bitwise_xor(is_number, tirx.Broadcast(tirx.IntImm("bool", 1), int(lanes))))
    found = [tirx.bitwise_or(*pair) for pair in zip(tests[::2], tests[1::2], strict=False)]
    found += tests[2 * len(found) :]
    whole = found[0]
    for each in found[1:]:
        whole = tirx.bitwise_or(whole, each)
    return whole
