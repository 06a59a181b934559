"""A strip of sums over rows that are accumulated in fp64 and only read as fp32: several rows are added in fp32 first.

    for k:  for j:  t[j] += fp64(a[k, j])             ──►

    sums = 0                                           fp64, on the stack
    for eight k at a time:
        for vectors:  x = a[k, v] + a[k + 1, v] + …    fp32;  sums[v] += x
    for vectors:  if no sum is infinite or NaN: t[v] += sums[v];  else: the loop itself for these columns

The error is that of `nests.wide_sums`, which does the same for arrays of constant sizes. A group of rows may overflow
in fp32 where fp64 does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlirtri.lowering.core.stage import NARROWED_SUM
from mlirtri.lowering.schedule.cpu.common.strips import vector_of
from mlirtri.lowering.schedule.cpu.nests.wide_sums import NARROW, ROWS, add_half, is_special
from mlirtri.lowering.tir.statements import (
    chunks_in,
    fresh,
    index,
    is_load,
    minus,
    new_buffer,
    plus,
    sequence,
    substituted,
    whole_chunks,
)
from mlirtri.lowering.tir.tiles import for_loop
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, structural_equal, tirx

_ZERO = index(0)


def narrow_columns(loop: Stmt, first: Expr, width: int, lanes: int) -> Stmt | None:
    """Return the sums of `width` columns from `first` on; None for others than such sums in `lanes` lanes of fp64."""
    term = _narrow_term(loop)
    return None if term is None or width % (2 * lanes) else _Strip(loop, term, first, width, lanes).statement()


def is_narrow(loop: Stmt) -> bool:
    """Return whether a loop over rows has such sums in the loop over columns inside of it."""
    return _narrow_term(loop) is not None


def _narrow_term(loop: Stmt) -> Any:
    """Return the fp32 term of ``t[j] = t[j] + fp64(term)``; None for any other body."""
    store = loop.body.body
    if NARROWED_SUM not in loop.annotations or not isinstance(store, tirx.BufferStore):
        return None
    value, is_wide = store.value, str(store.buffer.dtype) == "float64"
    if not is_wide or not isinstance(value, tirx.Add) or not is_load(value.a, store.buffer):
        return None
    is_own = all(structural_equal(old, new) for old, new in zip(value.a.indices, store.indices, strict=True))
    term = value.b
    if not is_own or not isinstance(term, tirx.Cast) or str(term.value.ty.dtype) not in NARROW:
        return None
    return term.value if str(term.value.ty.dtype) == "float32" else tirx.Cast("float32", term.value)


class _Strip:
    def __init__(self, loop: Stmt, term: Expr, first: Any, width: int, lanes: int):
        self.loop, self.columns, self.term = loop, loop.body, term
        self.first, self.width, self.lanes, self.wide = plus(loop.body.min, first), width, lanes, 2 * lanes
        self.sums: Buffer = new_buffer(f"{self.columns.body.buffer.name}_sums", "float64", 1, width)

    def statement(self) -> Stmt:
        group, row = tirx.Var("rows", "int64"), tirx.Var("row", "int64")
        extent, start = self.loop.extent, self.loop.min
        covered = whole_chunks(extent, ROWS)
        groups = self._for_vectors(lambda vector: self._added(vector, plus(start, group * index(ROWS)), ROWS))
        rest = self._for_vectors(lambda vector: self._added(vector, plus(plus(start, covered), row), 1))
        return sequence(
            tirx.AllocBuffer(self.sums),
            self._for_vectors(self._zero),
            tirx.For(group, _ZERO, chunks_in(extent, ROWS), tirx.ForKind.SERIAL, groups),
            tirx.For(row, _ZERO, minus(extent, covered), tirx.ForKind.SERIAL, rest),
            self._for_vectors(self._finished),
        )

    def _for_vectors(self, make: Callable[[Any], Stmt]) -> Stmt:
        return for_loop("vector", self.width // self.wide, lambda vector: fresh(make(vector)))

    def _zero(self, vector: Any) -> Stmt:
        zero = tirx.Broadcast(tirx.FloatImm("float64", -0.0), self.wide)
        return tirx.BufferStore(self.sums, zero, [_ZERO, tirx.Ramp(vector * index(self.wide), index(1), self.wide)])

    def _added(self, vector: Any, row: Any, count: int) -> Stmt:
        """Return the addition of a vector of the sum of `count` rows, which is rounded in fp32 after each."""
        element, widened = new_buffer("term", "float32", 1), new_buffer("terms", "float32", 1, self.wide)
        total, everything = new_buffer("total", "float32", self.wide), tirx.Ramp(_ZERO, index(1), self.wide)
        column, statements = plus(self.first, vector * index(self.wide)), [tirx.AllocBuffer(widened)]
        for offset in range(count):
            term = substituted(self.term, self.loop.loop_var, plus(row, index(offset)))
            term = tirx.BufferLoad(element, [_ZERO]) + term if offset else term
            store = tirx.BufferStore(element, term, [_ZERO])
            statements.append(vector_of(store, self.columns.loop_var, column, self.wide, {element: widened}))
        statements.append(tirx.AllocBuffer(total))
        statements.append(tirx.BufferStore(total, tirx.BufferLoad(widened, [_ZERO, everything]), [everything]))
        halves = [vector * index(self.wide) + index(half * self.lanes) for half in range(2)]
        halves = [add_half(self.sums, start, total, half, self.lanes) for half, start in enumerate(halves)]
        return sequence(*statements, *halves)

    def _finished(self, vector: Any) -> Stmt:
        """Return the addition of a vector of sums to their memory, or the loop where one of them is special."""
        special, lane = new_buffer("special", "int64", self.wide), tirx.Var("lane", "int64")
        number = tirx.BufferLoad(self.sums, [_ZERO, vector * index(self.wide) + lane])
        flag = tirx.Select(is_special(number), tirx.IntImm("int64", 1), tirx.IntImm("int64", 0))
        marks = tirx.BufferLoad(special, [tirx.Ramp(_ZERO, index(1), self.wide)])
        some = tirx.call_llvm_pure_intrin("int64", "llvm.vector.reduce.or", marks)
        exact = tirx.For(self.loop.loop_var, self.loop.min, self.loop.extent, tirx.ForKind.SERIAL,
                         self._in_vectors(self.columns.body, vector))  # fmt: skip
        store = self.columns.body
        sums = tirx.BufferLoad(self.sums, [_ZERO, minus(self.columns.loop_var, self.first)])
        added = tirx.BufferStore(store.buffer, store.value.a + sums, store.indices)
        return sequence(
            tirx.AllocBuffer(special),
            tirx.For(lane, _ZERO, index(self.wide), tirx.ForKind.VECTORIZED, tirx.BufferStore(special, flag, [lane])),
            tirx.IfThenElse(tirx.NE(some, _ZERO), fresh(exact), self._in_vectors(added, vector)),
        )

    def _in_vectors(self, body: Stmt, vector: Any) -> Stmt:
        """Return a statement for the columns of a vector."""
        starts = [plus(self.first, vector * index(self.wide) + index(half * self.lanes)) for half in range(2)]
        return sequence(*(vector_of(body, self.columns.loop_var, start, self.lanes) for start in starts))
