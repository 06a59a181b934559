"""Loop-carried reductions in a fast version, whose result is checked, and in the exact one where the check fails.

Sums of fp32 terms in fp64 that are only read as fp32 (loops marked `NARROWED_SUM`) add blocks of terms in fp32, with
the error bound of `nests.wide_sums`. A block may overflow where fp64 does not: the check finds sums that are infinite
or NaN. Maxima and minima drop NaN, for a select that keeps it takes ten cycles from one iteration to the next: the
check finds flags of the lanes that have met NaN.

    total = carried
    if n >= 128:  <the fast version, on total>
    if n < 128 or is_special(total):  <the exact version, on carried>
    else:  carried = total
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mlirtri.lowering.core.stage import NARROWED_SUM
from mlirtri.lowering.schedule.cpu.common.strips import Shape, allocated_in, rest_loop, strip, strip_loop
from mlirtri.lowering.schedule.cpu.loops.carried_reductions import PARTIAL_VECTORS, combined, in_vectors, started
from mlirtri.lowering.schedule.cpu.nests.row_extrema import any_lane, some_nan
from mlirtri.lowering.schedule.cpu.nests.wide_sums import CHAINS, NARROW, STEPS, add_half, is_special
from mlirtri.lowering.schedule.imperative.carried_sums import Sum, sums_of
from mlirtri.lowering.tir.statements import (
    chunks_in,
    fresh,
    index,
    minus,
    new_buffer,
    nodes_in,
    plus,
    sequence,
    substituted,
    whole_chunks,
    with_accesses,
    with_body,
)
from mlirtri.lowering.tir.vectors import INFINITY_BITS, integers_of
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Extent,
    Node,
    Stmt,
    Var,
    structural_equal,
    structural_map,
    tirx,
)

CHECKED = "mlirtri.checked"
"""Attribute around the branch to the exact version where the fast one fails; its value: whether the loop is short."""
_ZERO = index(0)


@dataclass(frozen=True)
class _Fast:
    """The fast version of a reduction."""

    statement: Stmt
    fails: Expr
    """Whether its result is not to be used."""
    before: tuple[Stmt, ...] = ()
    """What stands in front of it, for short loops as well: memory that `fails` reads."""


@dataclass(frozen=True)
class _Reduction:
    """A loop that reduces into one scalar buffer, and the buffer that its fast version reduces into."""

    loop: Any
    count: Expr
    sum: Sum
    total: Buffer
    lanes: int
    """Lanes of a vector of the terms."""

    @property
    def least(self) -> int:
        """The number of iterations from which on the fast version is profitable: two of its strips."""
        return 2 * CHAINS * self.lanes


def checked(loop: Stmt, count: Extent, lanes: int, producer: Stmt = None, alone: Stmt | None = None) -> Stmt | None:
    """Return a loop of `count` iterations that reduces into one scalar buffer in both versions; None for others.

    `lanes` is the width of the vectors of the exact version. The fast version contains `producer`, a loop before this
    one that may be fused with it; `alone` is that loop by itself, in vectors.
    """
    sums = sums_of(loop) if loop.step is None and lanes > 1 else None
    if sums is None or len(sums) != 1:
        return None
    scalar = sums[0].scalar
    total = new_buffer(f"{scalar.name}_total", str(scalar.dtype), 1)
    is_wide = NARROWED_SUM in loop.annotations
    reduction = _Reduction(_with_producer(loop, producer), count, sums[0], total, 2 * lanes if is_wide else lanes)
    if isinstance(count, tirx.IntImm) and count.value < reduction.least:
        return None
    fast = _block_sum(reduction) if is_wide else _extremum(reduction)
    exact = in_vectors(loop, count, lanes) if fast is not None else None
    return None if fast is None or exact is None else _both(reduction, fast, exact, alone)


def _with_producer(loop: Stmt, producer: Any) -> Any:
    if producer is None:
        return loop
    offset = loop.loop_var if structural_equal(loop.min, producer.min) else loop.loop_var - loop.min + producer.min
    body = fresh(substituted(producer.body, producer.loop_var, offset))
    return with_body(loop, sequence(body, loop.body))


def _both(reduction: _Reduction, fast: _Fast, exact: Stmt, alone: Stmt | None) -> Stmt:
    scalar, total = reduction.sum.scalar, reduction.total
    statement, fails, is_short = fast.statement, fast.fails, tirx.IntImm("bool", 0)
    if not isinstance(reduction.count, tirx.IntImm):
        is_short = tirx.LT(reduction.count, index(reduction.least))
        statement, fails = tirx.IfThenElse(tirx.Not(is_short), statement, alone), tirx.Or(is_short, fails)
    keep = tirx.BufferStore(scalar, tirx.BufferLoad(total, [_ZERO]), [_ZERO])
    return sequence(
        tirx.AllocBuffer(total),
        tirx.BufferStore(total, tirx.BufferLoad(scalar, [_ZERO]), [_ZERO]),
        *fast.before,
        statement,
        tirx.AttrStmt(index(0), CHECKED, is_short, tirx.IfThenElse(fails, exact, keep)),
    )


def _onto_total(reduction: _Reduction) -> tuple[Any, Sum]:
    """Return the loop and its sum with `total` in place of the scalar buffer."""
    scalar, total = reduction.sum.scalar, reduction.total
    body = with_accesses(reduction.loop.body, lambda buffer, index: (total, index) if buffer.same_as(scalar) else None)
    return with_body(reduction.loop, body), replace(reduction.sum, scalar=total)


def _with_step(reduction: _Reduction, *stores: Stmt) -> Any:
    """Return the body with other stores in place of the one to the scalar buffer."""

    def store(node: Node) -> Any:
        return sequence(*stores) if node.buffer.same_as(reduction.sum.scalar) else node

    body = structural_map(reduction.loop.body, (tirx.BufferStore, store), order="post")
    return sequence(*body.seq) if isinstance(body, tirx.SeqStmt) else body


def _block_sum(reduction: _Reduction) -> _Fast | None:
    """Return the sum in blocks of `STEPS` strips, each of which is added in fp32, then in single vectors in fp64."""
    loop, wide, lanes, term = reduction.loop, reduction.lanes, reduction.lanes // 2, _narrow_term(reduction.sum)
    if term is None:
        return None
    element, terms = new_buffer("term", "float32", 1), new_buffer("terms", "float32", 1, CHAINS * wide)
    body = _with_step(reduction, tirx.BufferStore(element, tirx.BufferLoad(element, [_ZERO]) + term, [_ZERO]))
    block, step = tirx.Var("block", "int64"), tirx.Var("step", "int64")
    first = plus(loop.min, (block * index(STEPS) + step) * index(CHAINS * wide))
    strips = strip(body, loop.loop_var, first, Shape(CHAINS, wide), {element: terms})
    onto_total, sum_of_total = _onto_total(reduction)
    partial = new_buffer(f"{reduction.total.name}_partial", "float64", 1, wide)
    covered = whole_chunks(reduction.count, CHAINS * wide)
    singles = strip_loop(onto_total, covered, reduction.count, Shape(1, wide), {reduction.total: partial})
    if strips is None or singles is None:
        return None
    count = chunks_in(reduction.count, CHAINS * wide)
    zero = Sum(element, tirx.Add, tirx.FloatImm("float32", -0.0), term)

    def added(steps: Any) -> Any:
        return sequence(
            tirx.AllocBuffer(terms),
            started(zero, terms, wide, CHAINS * wide),
            tirx.For(step, _ZERO, steps, tirx.ForKind.SERIAL, strips),
            *_added_to(partial, terms, wide, lanes),
        )

    statement = sequence(
        tirx.AllocBuffer(partial),
        started(sum_of_total, partial, lanes, wide),
        *_in_blocks(block, count, added),
        singles,
        combined(sum_of_total, partial, lanes, wide),
        *rest_loop(onto_total, whole_chunks(reduction.count, wide), reduction.count),
    )
    return _Fast(statement, is_special(tirx.BufferLoad(reduction.total, [_ZERO])))


def _in_blocks(block: Var, count: Expr, added: Callable[[Expr], Stmt]) -> list[Any]:
    """Return a loop over whole blocks, whose number of steps is a constant, and the last one."""
    rest = minus(count, whole_chunks(count, STEPS))
    whole = tirx.For(block, _ZERO, chunks_in(count, STEPS), tirx.ForKind.SERIAL, added(index(STEPS)))
    last = substituted(added(rest), block, chunks_in(count, STEPS))
    return [whole, tirx.IfThenElse(tirx.GT(rest, _ZERO), fresh(last), None)]


def _narrow_term(reduction: Sum) -> Expr | None:
    """Return the fp32 term that is cast to fp64; None for other terms."""
    term = reduction.term
    is_sum = reduction.combine is tirx.Add and str(reduction.scalar.dtype) == "float64"
    if not is_sum or not isinstance(term, tirx.Cast) or str(term.value.ty.dtype) not in NARROW:
        return None
    return term.value if str(term.value.ty.dtype) == "float32" else tirx.Cast("float32", term.value)


def _added_to(partial: Buffer, terms: Buffer, wide: int, lanes: int) -> list[Any]:
    """Return statements that add the pairwise sum of the fp32 vectors to two vectors of fp64."""
    sums = [tirx.BufferLoad(terms, [_ZERO, tirx.Ramp(index(chain * wide), index(1), wide)]) for chain in range(CHAINS)]
    while len(sums) > 1:
        sums = [first + second for first, second in zip(sums[::2], sums[1::2], strict=True)]
    tree = new_buffer("tree", "float32", wide)
    halves = [add_half(partial, index(half * lanes), tree, half, lanes) for half in range(2)]
    return [tirx.AllocBuffer(tree), tirx.BufferStore(tree, sums[0], [tirx.Ramp(_ZERO, index(1), wide)]), *halves]


def _extremum(reduction: _Reduction) -> _Fast | None:
    """Return the extremum without NaN, beside flags for NaN of lanes and the largest bits of a single magnitude."""
    extremum, lanes, dtype = reduction.sum.extremum, reduction.lanes, str(reduction.total.dtype)
    if extremum is None:
        return None
    integers, wide = integers_of(dtype), PARTIAL_VECTORS * lanes
    best, largest = new_buffer("best", dtype, 1), new_buffer("magnitude", integers, 1)
    partial, has_nan = new_buffer("best", dtype, 1, wide), new_buffer("has_nan", "int32", lanes)
    start = tirx.BufferLoad(reduction.total, [_ZERO])
    part = Sum(best, extremum, start, reduction.sum.term)
    covered = whole_chunks(reduction.count, wide)
    strips = _extremum_of_strips(reduction, part, partial, has_nan, (_ZERO, PARTIAL_VECTORS))
    is_pure = _stores_nothing_else(reduction)
    # An extremum may see an element twice: the last strip reaches back.
    last = (minus(reduction.count, index(wide)), PARTIAL_VECTORS) if is_pure else (covered, 1)
    after = _extremum_of_strips(reduction, part, partial, has_nan, last)
    if strips is None or after is None:
        return None
    rest = [] if is_pure else _rest_of_extremum(reduction, part, largest, lanes)
    statement = sequence(
        started(part, partial, lanes, wide),
        strips,
        tirx.IfThenElse(tirx.LT(covered, reduction.count), after, None) if is_pure else after,
        combined(part, partial, lanes, wide),
        *rest,
        tirx.BufferStore(reduction.total, tirx.BufferLoad(best, [_ZERO]), [_ZERO]),
    )
    no_lane = tirx.Broadcast(tirx.IntImm("int32", 0), lanes)
    before = [tirx.AllocBuffer(buffer) for buffer in (best, largest, partial, has_nan)]
    before += [
        tirx.BufferStore(best, start, [_ZERO]),
        tirx.BufferStore(largest, tirx.reinterpret(integers, tirx.abs(start)), [_ZERO]),
        tirx.BufferStore(has_nan, no_lane, [tirx.Ramp(_ZERO, index(1), lanes)]),
    ]
    is_nan = tirx.GT(tirx.BufferLoad(largest, [_ZERO]), tirx.const(INFINITY_BITS[dtype], integers))
    flags = tirx.BufferLoad(has_nan, [tirx.Ramp(_ZERO, index(1), lanes)])
    return _Fast(statement, tirx.Or(any_lane(flags), is_nan), tuple(before))


def _stores_nothing_else(reduction: _Reduction) -> bool:
    """Return whether the loop stores into the scalar buffer and memory of one iteration only."""
    own = [reduction.sum.scalar, *allocated_in(reduction.loop.body)]
    stores = nodes_in(reduction.loop.body, tirx.BufferStore)
    return all(any(store.buffer.same_as(buffer) for buffer in own) for store in stores)


def _rest_of_extremum(reduction: _Reduction, part: Sum, largest: Buffer, lanes: int) -> list[Stmt]:
    """Return the loop over the iterations after the vectors, in which the largest magnitude stands for NaN."""
    bits = tirx.reinterpret(str(largest.dtype), tirx.abs(part.term))
    stores = [
        tirx.BufferStore(buffer, combine(tirx.BufferLoad(buffer, [_ZERO]), value), [_ZERO])
        for buffer, combine, value in ((part.scalar, part.combine, part.term), (largest, tirx.Max, bits))
    ]
    rest = with_body(reduction.loop, _with_step(reduction, *stores))
    return rest_loop(rest, whole_chunks(reduction.count, lanes), reduction.count)


def _extremum_of_strips(
    reduction: _Reduction, part: Sum, partial: Buffer, has_nan: Buffer, strips: tuple[Expr, int]
) -> Stmt | None:
    """Return the loop over strips of so many vectors from an iteration on; None where their lanes diverge."""
    (first, vectors), lanes, best = strips, reduction.lanes, part.scalar
    element, terms = (new_buffer("term", str(best.dtype), 1, *size) for size in ((), (vectors * lanes,)))
    better = part.combine(tirx.BufferLoad(best, [_ZERO]), tirx.BufferLoad(element, [_ZERO]))
    stores = [tirx.BufferStore(element, part.term, [_ZERO]), tirx.BufferStore(best, better, [_ZERO])]
    loop = with_body(reduction.loop, _with_step(reduction, *stores))
    loop = strip_loop(loop, first, reduction.count, Shape(vectors, lanes), {best: partial, element: terms})
    if loop is None:
        return None
    ramps = [tirx.Ramp(index(vector * lanes), index(1), lanes) for vector in range(vectors)]
    some = some_nan([tirx.BufferLoad(terms, [_ZERO, ramp]) for ramp in ramps])
    flags = tirx.Select(some, tirx.Broadcast(tirx.IntImm("int32", 1), lanes), tirx.BufferLoad(has_nan, ramps[:1]))
    return with_body(loop, sequence(tirx.AllocBuffer(terms), loop.body, tirx.BufferStore(has_nan, flags, ramps[:1])))
