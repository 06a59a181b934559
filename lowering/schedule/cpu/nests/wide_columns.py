"""Long column sums of fp32 accumulated in fp64: a few rows are added in fp32 first, in chunks of columns of a page.

Takes a reduction that adds fp32 terms to one fp64 accumulator (`wide_sums.fp32_term`), whose results and terms are
contiguous. Gives the statements for whole vectors of columns::

    parallel over strips of columns:
        sums = 0                                    fp64, in the first cache
        for eight rows at a time:
            for vectors:  t = terms of these rows, one after the other;  sums += t
        for vectors:  if no sum is infinite or NaN: store them;  else: do their columns again in fp64

A term is rounded in fp32 at most 7 times. For overflow see `wide_sums`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.nest import FlatNest, NestAxis
from mlirtri.lowering.schedule.cpu.common.parallel import Outer, outer_loops
from mlirtri.lowering.schedule.cpu.common.tile_sizes import Cut
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators
from mlirtri.lowering.schedule.cpu.nests.wide_sums import add_half, is_special, vector_of
from mlirtri.lowering.tir.statements import buffer_like, fresh, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.tir.tiles import counted, temporary
from mlirtri.lowering.toolchain.tvm_names import tirx

ROWS = 8
"""Rows that are read together: about as many streams as a CPU prefetches."""
STRIP_BYTES = 4096
"""Bytes of one row that are read contiguously: a page, at which hardware prefetching ends."""
LEAST = 4
"""With fewer rows the sums are written as often as terms are read."""


@dataclass(frozen=True)
class WideColumns:
    """Writes the statements for one reduction."""

    nest: FlatNest
    accumulators: Accumulators
    column: NestAxis
    term: Any
    lanes: int
    """Lanes of fp64."""
    target: Target
    recompute: Callable[[Any], Any]
    """The statements that compute `lanes` results from a column on in fp64, and store them."""

    @property
    def wide(self) -> int:
        return 2 * self.lanes

    @property
    def covered(self) -> int:
        """Return the number of computed columns, in whole vectors."""
        return self.column.extent // self.wide * self.wide

    def statement(self) -> Any:
        outer = [axis for axis in self.nest.spatial if axis is not self.column]
        vectors = self.covered // self.wide
        needed = 2 * self.target.threads // prod(axis.extent for axis in outer) if self.target.threads > 1 else 1
        strips = max(-(-vectors * self.wide * 4 // STRIP_BYTES), min(needed, vectors // 2), 1)
        cut = Cut(vectors, strips)
        number = tirx.Var("strip", "int64")
        axes = [*outer, NestAxis(number, strips, False)]
        points = self.nest.points * self.covered // self.column.extent
        return outer_loops(Outer(axes, points), self._strip(cut, number), self.target)

    def _strip(self, cut: Cut, number: Any) -> Any:
        scalar = next(iter(self.accumulators.buffers.values()))
        sums = temporary(scalar.name, "float64", [1, cut.size * self.wide])
        first, size = number * index(cut.size), index(cut.size)
        if cut.large < cut.count:
            first = first - tirx.max(index(0), number - index(cut.large))
            size = tirx.Select(tirx.LT(number, index(cut.large)), size, index(cut.size - 1))
        zero = tirx.Broadcast(tirx.FloatImm("float64", -0.0), self.wide)

        def start(vector: Any) -> Any:
            return tirx.BufferStore(sums, zero, [index(0), tirx.Ramp(vector * index(self.wide), index(1), self.wide)])

        def for_vectors(make: Callable[[Any], Any]) -> Any:
            return counted("vector", size, lambda vector: fresh(make(vector)))

        return sequence(
            tirx.AllocBuffer(sums),
            for_vectors(start),
            self._rows(lambda row, count: for_vectors(lambda vector: self._add(sums, first, vector, row, count))),
            for_vectors(lambda vector: self._finish(sums, first, vector)),
        )

    def _rows(self, make: Callable[[Any, int], Any]) -> Any:
        """Return ``make(first, count)`` for blocks of rows, inside of the loops over the other reduction axes."""
        *outer, inner = self.nest.reduced
        full, remaining = divmod(inner.extent, ROWS)
        parts = [counted(inner.variable.name, full, lambda block: make(block * index(ROWS), ROWS))] if full else []
        if remaining:
            parts.append(make(index(full * ROWS), remaining))
        body = sequence(*parts)
        for axis in reversed(outer):
            variable = tirx.Var(axis.variable.name, axis.variable.ty)
            body = substituted(body, axis.variable, variable)
            body = tirx.For(variable, index(0), index(axis.extent), tirx.ForKind.SERIAL, body)
        return body

    def _add(self, sums: Any, first: Any, vector: Any, row: Any, count: int) -> Any:
        """Return the addition of the terms of `count` rows to one vector of sums."""
        element, widened = new_buffer("term", "float32", 1), new_buffer("terms", "float32", 1, self.wide)
        terms, everything = new_buffer("rows", "float32", self.wide), tirx.Ramp(index(0), index(1), self.wide)
        statements = [tirx.AllocBuffer(widened)]
        for offset in range(count):
            term = substituted(self.term, self.nest.reduced[-1].variable, plus(row, index(offset)))
            term = tirx.BufferLoad(element, [index(0)]) + term if offset else term
            store = tirx.BufferStore(element, term, [index(0)])
            statements.append(
                vector_of(store, self.column.variable, self._column_of(first, vector), self.wide, {element: widened})
            )
        statements.append(tirx.AllocBuffer(terms))
        statements.append(tirx.BufferStore(terms, tirx.BufferLoad(widened, [index(0), everything]), [everything]))
        halves = [vector * index(self.wide) + index(half * self.lanes) for half in range(2)]
        return sequence(
            *statements, *(add_half(sums, position, terms, half, self.lanes) for half, position in enumerate(halves))
        )

    def _column_of(self, first: Any, vector: Any) -> Any:
        return (first + vector) * index(self.wide)

    def _finish(self, sums: Any, first: Any, vector: Any) -> Any:
        """Return the stores of one vector of sums; it is computed again where one is infinite or NaN."""
        special = new_buffer("special", "int64", self.wide)
        lane = tirx.Var("lane", "int64")
        sum_of_lane = tirx.BufferLoad(sums, [index(0), vector * index(self.wide) + lane])
        flag = tirx.Select(is_special(sum_of_lane), tirx.IntImm("int64", 1), tirx.IntImm("int64", 0))
        store = tirx.BufferStore(special, flag, [lane])
        marks = tirx.BufferLoad(special, [tirx.Ramp(index(0), index(1), self.wide)])
        some = tirx.call_llvm_pure_intrin("int64", "llvm.vector.reduce.or", marks)
        halves = [plus(self._column_of(first, vector), index(half * self.lanes)) for half in range(2)]
        stored = [
            self._stored(sums, vector * index(self.wide) + index(half * self.lanes), column)
            for half, column in enumerate(halves)
        ]
        return sequence(
            tirx.AllocBuffer(special),
            tirx.For(lane, index(0), index(self.wide), tirx.ForKind.VECTORIZED, store),
            tirx.IfThenElse(tirx.NE(some, index(0)), sequence(*map(self.recompute, halves)), sequence(*stored)),
        )

    def _stored(self, sums: Any, first: Any, column: Any) -> Any:
        """Return the store of half a vector of sums, with the initial values added."""
        [scalar] = self.accumulators.buffers.values()
        widened = {scalar: buffer_like(scalar, [index(1), index(self.lanes)])}
        indices = [index(0), tirx.Ramp(index(0), index(1), self.lanes)]
        added = tirx.BufferLoad(sums, [index(0), tirx.Ramp(first, index(1), self.lanes)])
        result = tirx.BufferLoad(widened[scalar], indices) + added
        return sequence(
            tirx.AllocBuffer(widened[scalar]),
            vector_of(self.accumulators.start, self.column.variable, column, self.lanes, widened),
            tirx.BufferStore(widened[scalar], result, indices),
            vector_of(self.accumulators.finish(), self.column.variable, column, self.lanes, widened),
        )
