"""The CPU rule for imperative PrimFuncs: parallel and vectorised loops, reductions in partial results.

Loops that are neither marked ``mlirtri.independent`` nor proven independent stay in order.

    for i:  # parallel                                   parallel i:
        for j:  # parallel                       ──►         for j in strips of 8: B[i, j:j+8] = A[i, j:j+8] * 2
            B[i, j] = A[i, j] * 2                            for j in the rest: B[i, j] = A[i, j] * 2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.core.cpu import PARALLEL_STEPS, profitable
from mlirtri.lowering.core.stage import TILE_KERNEL, TRIPS
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.profitability import CALL_COST
from mlirtri.lowering.schedule.cpu.common.strips import Shape, last_strip, rest_loop, strip_loop
from mlirtri.lowering.schedule.cpu.loops.carried_reductions import in_vectors
from mlirtri.lowering.schedule.cpu.loops.checked_reductions import CHECKED, checked
from mlirtri.lowering.schedule.cpu.loops.clipped_tiles import with_whole_tiles
from mlirtri.lowering.schedule.cpu.loops.column_strips import with_column_strips
from mlirtri.lowering.schedule.cpu.loops.dynamic_products import with_products
from mlirtri.lowering.schedule.cpu.loops.first_index import first_index
from mlirtri.lowering.schedule.cpu.loops.in_range_branches import with_in_range_branches
from mlirtri.lowering.schedule.cpu.loops.named_products import with_named_products
from mlirtri.lowering.schedule.cpu.loops.nested_products import with_nested_products
from mlirtri.lowering.schedule.cpu.loops.prefetches import with_prefetches
from mlirtri.lowering.schedule.cpu.loops.row_groups import in_groups
from mlirtri.lowering.schedule.cpu.loops.transposed_loops import squares_of
from mlirtri.lowering.schedule.imperative.accesses import has_expensive_calls
from mlirtri.lowering.schedule.imperative.fusion import fused, producer_before
from mlirtri.lowering.schedule.imperative.interchange import FINISHED, prepare, with_parts
from mlirtri.lowering.schedule.imperative.vector_choice import (
    GOOD,
    contains_loops,
    fit_of,
    is_around_innermost,
    is_unrolled,
    parallel_loops_in,
    shares_reads,
)
from mlirtri.lowering.tir.linear_forms import Linear, LoopRange, least, linear, range_of
from mlirtri.lowering.tir.statements import depends_on, fresh, index, sequence, substituted, whole_chunks, with_body
from mlirtri.lowering.toolchain.tvm_names import (
    IMPERATIVE,
    INDEPENDENT,
    Analyzer,
    Expr,
    Node,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Schedule,
    Stmt,
    structural_map,
    structural_walk,
    tirx,
)

UNKNOWN_EXTENT = 16
"""The assumed extent of a loop whose bounds are not known outside of it."""
ROWS = 8
"""Rows that a product computes together, so that each load of its right operand is used for all of them."""
VECTORS = 4
"""Vectors of results that a sum over rows computes together, to hide the latency of an addition."""
VECTORS_OF_ROWS = 3
"""The same for several rows: 24 vectors of results, 3 of the right operand, and 5 registers for the rest."""
ENOUGH_ITERATIONS = 8
"""Iterations of a loop that are enough to divide among the threads."""
Ranges = tuple[LoopRange, ...]


def loops(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the schedule of an imperative function; None for any other."""
    if IMPERATIVE not in (function.attrs or {}):
        return None
    return Schedule(scheduled(function, target), error_render_level="fast")


def scheduled(function: PrimFunc, target: Target) -> PrimFunc:
    """Return the function with its loops scheduled."""
    sizes = _sizes_of(function)

    def visit(block: Any) -> Any:
        if isinstance(block.body, SBlockRealize):
            return block
        whole = with_whole_tiles(block.body) if TILE_KERNEL in (function.attrs or {}) else block.body
        products = with_nested_products(with_products(whole, target), target)
        named = with_named_products(products)
        strips = with_column_strips(named, target, lambda strips, loop: on_threads(strips, work_of(loop)))
        body = _Scheduler(target).visit(with_prefetches(fused(prepare(strips))), sizes)
        body = structural_map(body, (tirx.AttrStmt, _bare), order="post")
        return SBlock(
            block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init, block.alloc_buffers,
            block.match_buffers, block.annotations,
        )  # fmt: skip

    return function.with_body(structural_map(function.body, (SBlock, visit), order="post"))


def _bare(statement: Stmt) -> Any:
    return statement.body if statement.attr_key in (FINISHED, CHECKED) else statement


def _sizes_of(function: PrimFunc) -> Ranges:
    """Return the ranges of the dynamic sizes of arrays, which are not negative."""
    shapes = [size for parameter in function.params for size in getattr(parameter.ty, "shape", ())]
    unknown = dict.fromkeys(size for size in shapes if isinstance(size, tirx.Var))
    return tuple(LoopRange(size, Linear(), None) for size in unknown)


class _Scheduler:
    def __init__(self, target: Target):
        self.target = target
        self.is_threaded = target.threads == 1
        """Whether a loop around is parallel, or there is one thread."""

    def visit(self, statement: Stmt, around: Ranges) -> Any:
        if isinstance(statement, tirx.SeqStmt):
            return self._sequence(list(statement.seq), around)
        if not isinstance(statement, tirx.For):
            return with_parts(statement, lambda part: self.visit(part, around))
        if statement.step is not None:
            return self._inside(statement, around)
        if INDEPENDENT in statement.annotations:
            return self._parallel(statement, around)
        fit = fit_of(statement)
        lanes = fit.lanes if fit.share >= GOOD else 1
        # Gathers take longer than the latency of an addition.
        vectors = _reduced(statement, count_of(statement, around), lanes) if fit.is_known else None
        if vectors is None:
            vectors = with_in_range_branches(statement, count_of(statement, around))
        return self._inside(statement, around) if vectors is None else vectors

    def _sequence(self, statements: list[Any], around: Ranges) -> Any:
        """Return the statements, with reductions over what the loop before them stores computed beside it."""
        done: list[Any] = []
        for statement in statements:
            before = [original for original, _ in done]
            first = producer_before(before, statement, around) if self._reduces(statement) else None
            both = None if first is None else self._beside(before[first], statement, around)
            if both is None:
                done.append((statement, self.visit(statement, around)))
            else:
                done[first:] = [*done[first + 1 :], (statement, both)]
        return sequence(*(scheduled for _, scheduled in done))

    def _reduces(self, statement: Stmt) -> bool:
        return isinstance(statement, tirx.For) and INDEPENDENT not in statement.annotations

    def _beside(self, producer: Any, loop: Stmt, around: Ranges) -> Any:
        fit = fit_of(loop)
        # A loop that the threads would share stays one of its own.
        if not self.is_threaded or not fit.is_known or fit.share < GOOD:
            return None
        return checked(loop, count_of(loop, around), fit.lanes, producer, self.visit(producer, around))

    def _inside(self, loop: Stmt, around: Ranges) -> Any:
        return with_body(loop, self.visit(loop.body, (*around, range_of(loop, {}))))

    def _parallel(self, loop: Stmt, around: Ranges) -> Any:
        if self.is_threaded or _is_small_around_larger(loop):
            return self._in_order(loop, around)
        self.is_threaded = True
        scheduled = self._in_order(loop, around)
        self.is_threaded = False
        return on_threads(scheduled, work_of(loop))

    def _in_order(self, loop: Stmt, around: Ranges) -> Any:
        """Return a loop of independent iterations that is vectorised, or contains the loop that is."""
        squares = squares_of(loop)
        if squares is not None and squares.is_enough is None:
            return squares.statement
        if squares is not None:
            return tirx.IfThenElse(squares.is_enough, squares.statement, fresh(self._in_vectors(loop, around)))
        return self._in_vectors(loop, around)

    def _in_vectors(self, loop: Stmt, around: Ranges) -> Any:
        fit = fit_of(loop)
        inner = [fit_of(nested) for nested in parallel_loops_in(loop.body)]
        better = [candidate for candidate in inner if candidate.is_good and candidate.share >= fit.share]
        scheduled = self._vectors(loop, fit.lanes, around) if fit.is_good and not better else None
        if scheduled is None and better and shares_reads(loop) and is_around_innermost(loop):
            scheduled = self._rows(loop, around)
        if scheduled is not None:
            return scheduled
        return in_groups(loop, self._inside(loop, around), count_of(loop, around), self.target)

    def _vectors(self, loop: Stmt, lanes: int, around: Ranges) -> Any:
        count = count_of(loop, around)
        static_count = count.value if isinstance(count, tirx.IntImm) else None
        while static_count is not None and lanes > max(1, static_count):
            lanes //= 2
        if lanes < 2:
            return None
        if not contains_loops(loop.body):
            smallest = 2 if static_count is not None else max(2, lanes // 2)
            return _narrowing(loop, count, lanes, smallest)
        vectors = VECTORS_OF_ROWS if is_unrolled(loop.body) else VECTORS
        if static_count is not None:
            return _overlapping(loop, count, Shape(max(1, min(vectors, static_count // lanes)), lanes))
        return _overlapping_if_enough(loop, count, [Shape(1, lanes), Shape(vectors, lanes)])

    def _rows(self, loop: Stmt, around: Ranges) -> Any:
        """Return the loop unrolled by several iterations, jammed into its inner loops; None where they diverge."""
        count = count_of(loop, around)
        rows = min(ROWS, count.value) if isinstance(count, tirx.IntImm) else ROWS
        shape = Shape(rows, 1)
        strips = strip_loop(loop, index(0), count, shape) if rows > 1 else None
        if strips is None:
            return None
        covered = whole_chunks(count, rows)
        parts = [strips, *rest_loop(loop, covered, count)]
        if not isinstance(count, tirx.IntImm):
            return self._rows_at_run_time(loop, count, shape, strips, around)
        if count.value - covered.value > 1:
            parts[1:] = [strip_loop(loop, covered, count, Shape(count.value - covered.value, 1))]
        return sequence(*(self._inside(part, around) for part in parts))

    def _rows_at_run_time(self, loop: Stmt, count: Any, shape: Shape, strips: Any, around: Ranges) -> Any:
        """Return the same for a dynamic number of iterations: the last strip may overlap the one before."""
        covered = whole_chunks(count, shape.width)
        last = tirx.IfThenElse(
            tirx.GT(count, covered), self.visit(last_strip(loop, covered, count, shape), around), None
        )
        [scalar_loop] = rest_loop(loop, index(0), count)
        together = sequence(self._inside(strips, around), last)
        return tirx.IfThenElse(tirx.GE(count, index(shape.width)), together, self._inside(scalar_loop, around))


def _reduced(loop: Stmt, count: Any, lanes: int) -> Any:
    """Return a loop that reduces into scalar buffers in vectors; None for any other."""
    statements = first_index(loop, count)
    statements = checked(loop, count, lanes) if statements is None else statements
    return in_vectors(loop, count, lanes) if statements is None else statements


def _narrowing(loop: Stmt, count: Any, lanes: int, smallest: int) -> Any:
    """Return the loop in vectors, then in one of half as many lanes and so on, then the scalar remainder; or None."""
    covered, steps = index(0), []
    while lanes >= smallest:
        if not isinstance(count, tirx.IntImm) or count.value - covered.value >= lanes:
            steps.append(strip_loop(loop, covered, count, Shape(1, lanes)))
            covered = whole_chunks(count, lanes)
        lanes //= 2
    return None if any(step is None for step in steps) else sequence(*steps, *rest_loop(loop, covered, count))


def _overlapping_if_enough(loop: Stmt, count: Any, shapes: Sequence[Shape]) -> Any:
    """Return the loop in the widest strips that it is long enough for, else scalar; None where iterations diverge."""
    [result] = rest_loop(loop, index(0), count)
    for shape in shapes:
        strips = _overlapping(loop, count, shape)
        if strips is None:
            return None
        result = tirx.IfThenElse(tirx.GE(count, index(shape.width)), strips, result)
    return result


def _overlapping(loop: Stmt, count: Any, shape: Shape) -> Any:
    """Return a loop that is at least as long as a strip in strips, of which the last may overlap; or None.

    The loops inside take the same time for one column as for a strip of them.
    """
    covered = whole_chunks(count, shape.width)
    strips = strip_loop(loop, index(0), count, shape)
    if strips is None:
        return None
    if isinstance(count, tirx.IntImm) and count.value == covered.value:
        return strips
    last = last_strip(loop, covered, count, shape)
    if not isinstance(count, tirx.IntImm):
        last = tirx.IfThenElse(tirx.GT(count, covered), last, None)
    return sequence(strips, last)


def _is_small_around_larger(loop: Stmt) -> bool:
    """Return whether a loop has too few iterations for all threads, and only contains a loop with more."""
    inner = loop.body
    is_nest = isinstance(inner, tirx.For) and INDEPENDENT in inner.annotations
    static_extents = [
        candidate.extent for candidate in (loop, inner) if isinstance(getattr(candidate, "extent", None), tirx.IntImm)
    ]
    return (
        is_nest and len(static_extents) == 2 and static_extents[0].value < ENOUGH_ITERATIONS < static_extents[1].value
    )


def count_of(loop: Stmt, around: Ranges) -> Expr:
    """Return the trip count of a loop, which is never negative."""
    extent = loop.extent
    if isinstance(extent, tirx.IntImm):
        return index(max(0, extent.value))
    form = linear(extent, {})
    smallest = None if form is None else least(form, around)
    return extent if smallest is not None and smallest >= 0 else tirx.max(extent, index(0))


def work_of(statement: Stmt) -> Expr:
    """Return an expression for the number of plain steps of a statement, in terms of variables from outside of it."""
    changing: list[Any] = []

    def bind(node: Node) -> None:
        changing.append(node.var)

    def store(node: Node) -> None:
        changing.append(node.buffer)

    structural_walk(statement, [(tirx.Bind, bind), (tirx.BufferStore, store)])
    return _work(statement, changing)


def _work(statement: Stmt, changing: list[Any]) -> Any:
    if isinstance(statement, tirx.For):
        body_work = _work(statement.body, changing)
        extent = statement.extent
        if depends_on(extent, changing):
            extent = index(int(statement.annotations.get(TRIPS, UNKNOWN_EXTENT)))
        middle = statement.min + tirx.floordiv(extent, index(2))
        return substituted(body_work, statement.loop_var, middle) * extent
    if isinstance(statement, tirx.SeqStmt):
        return sum((_work(child, changing) for child in statement.seq), index(0))
    if isinstance(statement, tirx.BufferStore | tirx.Bind):
        return index(CALL_COST if has_expensive_calls(statement.value) else 1)
    if isinstance(statement, tirx.While):
        return _work(statement.body, changing) * index(UNKNOWN_EXTENT)
    if isinstance(statement, tirx.IfThenElse):
        return _work(statement.then_case, changing)
    return _work(statement.body, changing) if isinstance(statement, tirx.AttrStmt) else index(0)


def on_threads(statement: Stmt, work: Expr) -> Stmt:
    """Return the statements of a scheduled parallel loop with the first loop on all threads where `work` is enough."""
    work = Analyzer().simplify(work)
    if isinstance(work, tirx.IntImm):
        return _first_parallel(statement) if profitable(work.value >= PARALLEL_STEPS) else statement
    condition = tirx.GE(work, index(PARALLEL_STEPS))
    return tirx.IfThenElse(condition, _first_parallel(statement), fresh(statement))


def _first_parallel(statement: Stmt) -> Any:
    if isinstance(statement, tirx.IfThenElse):
        # The first arm is for long loops.
        return tirx.IfThenElse(statement.condition, _first_parallel(statement.then_case), statement.else_case)
    first, *others = statement.seq if isinstance(statement, tirx.SeqStmt) else [statement]
    return sequence(with_body(first, first.body, kind=tirx.ForKind.PARALLEL), *others)
