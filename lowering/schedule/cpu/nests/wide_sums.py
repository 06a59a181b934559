"""Sums of fp32 accumulated in fp64 and rounded to fp32: blocks of terms are added in fp32 first.

Takes a reduction that adds fp32 terms, or halves, to one fp64 accumulator which nothing reads but a cast to fp32. fp64
alone takes three times as long. Along a row::

    for blocks:  t0..t3 = terms                    four vectors of fp32
                 for 15 steps: t0..t3 += terms
                 t = (t0 + t1) + (t2 + t3)
                 low, high += the halves of t      vectors of fp64

A term is rounded in fp32 at most 15 + 2 times, so that the error of a sum of any length is at most 17 · 2^-24 of the
sum of its terms' magnitudes, besides its own rounding. (NumPy adds 16 terms in a row and 8 of such sums as a tree, and
pairs of those: 18 roundings, and one more for each doubling beyond 128 terms.) A block may overflow where fp64 does
not: then the sum is infinite or NaN, which no sum of finite fp32 numbers in fp64 is, and it is computed again in fp64
(`is_special`).

Along columns (`WideColumns`), eight rows at a time are added in fp32, in strips of columns of a page::

    parallel over strips of columns:
        sums = 0                                    fp64, in the first-level cache
        for eight rows at a time:
            for vectors:  t = terms of these rows, one after the other;  sums += t
        for vectors:  if no sum is infinite or NaN: store them;  else: compute their columns again in fp64
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import Cut
from mlirtri.lowering.schedule.cpu.common.nest import FlatNest, NestAxis
from mlirtri.lowering.schedule.cpu.common.profitability import Outer, outer_loops, serial_loops
from mlirtri.lowering.schedule.cpu.common.strips import vector_of
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators
from mlirtri.lowering.tir.statements import buffer_like, fresh, index, is_load, new_buffer, plus, sequence, substituted
from mlirtri.lowering.tir.tiles import for_loop, temporary
from mlirtri.lowering.toolchain.tvm_names import Expr, Stmt, tirx

STEPS = 16
"""Terms that are added in a row in fp32."""
CHAINS = 4
"""Vectors of fp32 sums: as many additions as are in flight in a core."""
PARTIAL_SUMS = 2
"""Vectors of fp64 that hold the halves of one of fp32."""
NARROW = ("float32", "float16", "bfloat16")
ROWS = 8
"""Rows that are read together: about as many streams as a CPU prefetches."""
STRIP_BYTES = 4096
"""Bytes of one row that are read contiguously: a page, at which hardware prefetching ends."""
MIN_ROWS = 4
"""With fewer rows the sums are written as often as terms are read."""
_INFINITY = 0x7FF0000000000000
"""The bits of an infinite fp64."""


def fp32_term(nest: FlatNest, accumulators: Accumulators) -> Expr | None:
    """Return the fp32 term of such a sum; None for any other reduction."""
    if len(accumulators.buffers) != 1 or next(iter(accumulators.buffers)) not in nest.narrowed:
        return None
    [scalar], step = accumulators.buffers.values(), accumulators.step
    if str(scalar.dtype) != "float64" or not isinstance(step, tirx.BufferStore) or not isinstance(step.value, tirx.Add):
        return None
    term = step.value.b
    if not is_load(step.value.a, scalar) or not isinstance(term, tirx.Cast) or str(term.value.ty.dtype) not in NARROW:
        return None
    return term.value if str(term.value.ty.dtype) == "float32" else tirx.Cast("float32", term.value)


def has_blocks(row: NestAxis, lanes: int) -> bool:
    """Return whether a row is long enough for a block of two steps."""
    return row.extent >= 2 * CHAINS * 2 * lanes


def add_blocks(term: Expr, row: NestAxis, partial: Sequence[Expr], lanes: int) -> tuple[Stmt, int]:
    """Return statements that add terms of a row to two vectors of `lanes` fp64 numbers, and their number."""
    steps = row.extent // (CHAINS * 2 * lanes)
    full, remaining = divmod(steps, STEPS)
    terms_per_step, statements = CHAINS * 2 * lanes, []
    if full:
        number = tirx.Var(row.variable.name, row.variable.ty)
        body = _block(term, row, number * index(STEPS * terms_per_step), STEPS, partial, lanes)
        loop = tirx.For(number, index(0), index(full), tirx.ForKind.SERIAL, body)
        statements.append(loop if full > 1 else substituted(body, number, index(0)))
    if remaining:
        statements.append(_block(term, row, index(full * STEPS * terms_per_step), remaining, partial, lanes))
    return sequence(*statements), steps * terms_per_step


def _block(term: Expr, row: NestAxis, start: Any, steps: int, partial: Sequence[Any], lanes: int) -> Any:
    wide = 2 * lanes
    chains = [new_buffer("terms", "float32", 1, wide) for _ in range(CHAINS)]
    element = new_buffer("term", "float32", 1)

    def step(number: Any, value: Expr) -> list[Any]:
        store = tirx.BufferStore(element, value, [index(0)])
        first = plus(start, number)
        return [
            vector_of(store, row.variable, plus(first, index(chain * wide)), wide, {element: buffer})
            for chain, buffer in enumerate(chains)
        ]

    statements = [*(tirx.AllocBuffer(buffer) for buffer in chains), *step(index(0), term)]
    if steps > 1:
        number = tirx.Var("step", "int64")
        added = step((number + index(1)) * index(CHAINS * wide), tirx.BufferLoad(element, [index(0)]) + term)
        statements.append(tirx.For(number, index(0), index(steps - 1), tirx.ForKind.SERIAL, sequence(*added)))
    everything = tirx.Ramp(index(0), index(1), wide)
    sums = [tirx.BufferLoad(buffer, [index(0), everything]) for buffer in chains]
    while len(sums) > 1:
        sums = [first + second for first, second in zip(sums[::2], sums[1::2], strict=True)]
    tree = new_buffer("tree", "float32", wide)
    statements += [tirx.AllocBuffer(tree), tirx.BufferStore(tree, sums[0], [everything])]
    statements += [add_half(buffer, index(0), tree, half, lanes) for half, buffer in enumerate(partial)]
    return fresh(sequence(*statements))


def add_half(sums: Expr, first: Expr, terms: Expr, half: int, lanes: int) -> Stmt:
    """Return the addition of half 0 or 1 of an fp32 vector to the fp64 elements of a buffer from `first` on."""
    value = tirx.BufferLoad(terms, [tirx.Ramp(index(half * lanes), index(1), lanes)])
    indices = [index(0), tirx.Ramp(first, index(1), lanes)]
    return tirx.BufferStore(sums, tirx.BufferLoad(sums, indices) + tirx.Cast(f"float64x{lanes}", value), indices)


def rest_of(step: Expr, row: NestAxis, first: int) -> tuple[Expr, NestAxis]:
    """Return the step and the axis of the remaining terms."""
    remaining = NestAxis(tirx.Var(row.variable.name, row.variable.ty), row.extent - first, True)
    return substituted(step, row.variable, remaining.variable + index(first)), remaining


def is_special(value: Expr) -> Expr:
    """Return whether an fp64 is infinite or NaN, by its bits: TVM inverts branches on comparisons."""
    bits = tirx.IntImm("int64", _INFINITY)
    return tirx.EQ(tirx.bitwise_and(tirx.reinterpret("int64", value), bits), bits)


@dataclass(frozen=True)
class WideColumns:
    """Writes the statements for whole vectors of columns, whose results and terms are contiguous."""

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

    def statement(self) -> Stmt:
        outer = [axis for axis in self.nest.spatial if axis is not self.column]
        vectors = self.covered // self.wide
        needed = 2 * self.target.threads // prod(axis.extent for axis in outer) if self.target.threads > 1 else 1
        strips = max(-(-vectors * self.wide * 4 // STRIP_BYTES), min(needed, vectors // 2), 1)
        cut = Cut(vectors, strips)
        number = tirx.Var("strip", "int64")
        axes = [*outer, NestAxis(number, strips, False)]
        iterations = self.nest.iterations * self.covered // self.column.extent
        return outer_loops(Outer(axes, iterations), self._strip(cut, number), self.target)

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
            return for_loop("vector", size, lambda vector: fresh(make(vector)))

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
        parts = [for_loop(inner.variable.name, full, lambda block: make(block * index(ROWS), ROWS))] if full else []
        if remaining:
            parts.append(make(index(full * ROWS), remaining))
        return serial_loops(outer, sequence(*parts))

    def _add(self, sums: Any, first: Any, vector: Any, row: Any, count: int) -> Any:
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
