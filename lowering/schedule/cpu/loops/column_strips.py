"""Sums over the rows of an array, for all of its columns: read row by row, in strips whose sums stay in the cache.

    for k:                                        for strip of columns:
        for j:                             ──►        for four k at a time:
            t[j] += a[k, j]                               for j in strip:  t[j] = t[j] + a[k, j] + … (four)

A strip is wide enough for the prefetcher: rows are read as `matmul/column_sums.py` reads those of
arrays of constant sizes. The order of the additions stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.strips import Shape, rest_loop, strip_loop
from mlirtri.lowering.schedule.cpu.loops.narrow_columns import is_narrow, narrow_columns
from mlirtri.lowering.schedule.imperative.accesses import accesses_of, is_parallel
from mlirtri.lowering.schedule.imperative.interchange import FINISHED, sums_up, with_parts
from mlirtri.lowering.schedule.imperative.vector_choice import contains_loops, fit_of
from mlirtri.lowering.tir.linear_forms import LoopRange, range_of
from mlirtri.lowering.tir.statements import (
    chunks_in,
    depends_on,
    fresh,
    index,
    minus,
    plus,
    sequence,
    substituted,
    whole_chunks,
    with_body,
)
from mlirtri.lowering.toolchain.tvm_names import INDEPENDENT, Stmt, tirx

ROWS = 4
"""Rows that are added per load and store of the sums."""
VECTORS, VECTORS_PER_THREAD = 32, 8
"""Vectors of a strip, for one thread and for several."""
NARROW_STRIPS = 4
"""Strips in one of sums that are read as fp32: a page of a row, at which hardware prefetching ends."""
FEWEST = 8
"""Vectors of columns from which on strips are better than sums in registers."""
Ranges = tuple[LoopRange, ...]
OnThreads = Callable[[Any, Any], Any]
"""Returns a loop on threads, given what it stands for."""


def with_column_strips(statement: Stmt, target: Target, on_threads: OnThreads) -> Stmt:
    """Return the statement with its sums over rows in strips of columns."""
    return _Strips(target, on_threads).visit(statement, (), target.threads == 1)


class _Strips:
    def __init__(self, target: Target, on_threads: OnThreads):
        self.target, self.on_threads = target, on_threads

    def visit(self, statement: Stmt, around: Ranges, is_threaded: bool) -> Any:
        """Return a statement; `is_threaded` says that there is one thread, or that a loop around is on all of them."""
        if not isinstance(statement, tirx.For):
            return with_parts(statement, lambda part: self.visit(part, around, is_threaded))
        if lanes := _lanes(statement, around):
            return self._strips(statement, lanes, is_threaded)
        inner = (*around, range_of(statement, {}))
        return with_body(
            statement, self.visit(statement.body, inner, is_threaded or INDEPENDENT in statement.annotations)
        )

    def _strips(self, loop: Stmt, lanes: int, is_threaded: bool) -> Any:
        columns = loop.body
        count, covered = columns.extent, index(0)
        least = lanes * FEWEST
        parts: list[Any] = []
        for width in self._widths(loop, lanes):
            strip = tirx.Var("strip", "int64")
            first = plus(covered, strip * index(width))
            whole = narrow_columns(loop, first, width, lanes)
            whole = _rows(loop, first, index(width), lanes) if whole is None else whole
            number = chunks_in(minus(count, covered), width)
            parts.append(tirx.For(strip, index(0), number, tirx.ForKind.SERIAL, fresh(whole)))
            covered = whole_chunks(count, width)
        rest = minus(count, covered)
        if not isinstance(rest, tirx.IntImm) or rest.value:
            last = fresh(_rows(loop, covered, rest, lanes))
            parts.append(
                last if isinstance(rest, tirx.IntImm) else tirx.IfThenElse(tirx.GT(rest, index(0)), last, None)
            )
        strips = sequence(*parts)
        strips = strips if is_threaded else self.on_threads(strips, loop)
        finished = tirx.AttrStmt(index(0), FINISHED, index(1), strips)
        if isinstance(count, tirx.IntImm):
            return finished
        return tirx.IfThenElse(tirx.GE(count, index(least)), finished, fresh(loop))

    def _widths(self, loop: Stmt, lanes: int) -> list[int]:
        """Return the columns of a strip, the widest first: each is a multiple of the next."""
        if self.target.threads > 1:
            return [lanes * VECTORS_PER_THREAD]
        return [lanes * VECTORS * NARROW_STRIPS, lanes * VECTORS] if is_narrow(loop) else [lanes * VECTORS]


def _lanes(loop: Stmt, around: Ranges) -> int:
    """Return the lanes of vectors of the columns of a sum over rows; 0 for a loop that is none."""
    columns = loop.body
    if INDEPENDENT in loop.annotations or loop.step is not None or not isinstance(columns, tirx.For):
        return 0
    if columns.step is not None or contains_loops(columns.body) or depends_on(columns.extent, [loop.loop_var]):
        return 0
    if depends_on(columns.min, [loop.loop_var]) or not sums_up(loop, columns.body):
        return 0
    stores = [access for access in accesses_of(columns.body).shared if access.is_store]
    # A sum for each iteration of a loop around is a product of matrices, whose rows share what they read.
    if any(form.factor(outer.variable) for store in stores for form in store.indices for outer in around):
        return 0
    bare = tirx.For(columns.loop_var, columns.min, columns.extent, columns.kind, with_body(loop, columns.body))
    fit = fit_of(columns)
    if not fit.is_good or not is_parallel(bare, around):
        return 0
    is_narrow = isinstance(columns.extent, tirx.IntImm) and columns.extent.value < fit.lanes * FEWEST
    return 0 if is_narrow else fit.lanes


def _rows(loop: Stmt, first: Any, count: Any, lanes: int) -> Any:
    """Return the sums of `count` columns from `first` on, over several rows at a time."""
    columns, extent = loop.body, loop.extent
    column = plus(plus(columns.min, first), columns.loop_var)
    body = substituted(columns.body, columns.loop_var, column)

    def added(rows: list[Any]) -> Any:
        statement = sequence(*(fresh(substituted(body, loop.loop_var, row)) for row in rows))
        inner = tirx.For(columns.loop_var, index(0), count, tirx.ForKind.SERIAL, statement)
        return _in_vectors(fresh(inner), count, lanes)

    group, row = tirx.Var("rows", "int64"), tirx.Var("row", "int64")
    start = plus(loop.min, group * index(ROWS))
    groups = added([plus(start, index(number)) for number in range(ROWS)])
    covered = whole_chunks(extent, ROWS)
    rest = added([plus(plus(loop.min, covered), row)])
    return sequence(
        tirx.For(group, index(0), chunks_in(extent, ROWS), tirx.ForKind.SERIAL, groups),
        tirx.For(row, index(0), minus(extent, covered), tirx.ForKind.SERIAL, rest),
    )


def _in_vectors(loop: Stmt, count: Any, lanes: int) -> Any:
    """Return a loop in vectors, in one of half as many lanes and so on, and the rest in scalars."""
    covered, steps = index(0), []
    while lanes >= 2:
        steps.append(strip_loop(loop, covered, count, Shape(1, lanes)))
        covered = whole_chunks(count, lanes)
        lanes //= 2
        if isinstance(count, tirx.IntImm) and covered.value == count.value:
            break
    return loop if None in steps else sequence(*steps, *rest_loop(loop, covered, count))
