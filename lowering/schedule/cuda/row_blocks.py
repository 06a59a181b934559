"""Parallel loops over rows whose length is known at run time only, on CUDA: a block of threads for each row.

    for i:  # parallel                         block i:
        total = 0                                  each thread: own = the sum of its elements, a block apart
        for j: total += a[i, j]        ──►         barrier; halves of the threads' sums are added in shared memory
        for j: b[i, j] = a[i, j] / total           each thread: b[i, j] = a[i, j] / total of its elements

A thread reads elements beside those of its neighbours. Refuses, with None, loops whose reductions are not along memory,
or that contain other loops in order: a thread for each row runs those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.schedule.cuda.tiles.fragments import Fragments
from mlirtri.lowering.schedule.cuda.tiles.tile_statements import BlockStatements, with_buffers
from mlirtri.lowering.schedule.imperative.carried_sums import Sum, sums_of
from mlirtri.lowering.schedule.imperative.vector_choice import contains_loops, fit_of
from mlirtri.lowering.tir.statements import buffer_like, index, nodes_in, plus, sequence, substituted
from mlirtri.lowering.toolchain.tvm_names import INDEPENDENT, Expr, Stmt, Var, structural_map, tirx

THREADS = 128
"""Threads of a row."""
SHORTEST = 64
"""Elements of a row from which on several threads are faster than one."""


def divided_row(loop: Stmt) -> tuple[Stmt, Expr] | None:
    """Return the body of a parallel loop with reductions for many threads, and the length of its rows; or None."""
    reductions = [inner for inner in nodes_in(loop.body, tirx.For) if INDEPENDENT not in inner.annotations]
    if not reductions or not all(map(_is_along_memory, reductions)):
        return None
    sizes = [size for node in nodes_in(loop.body, tirx.AllocBuffer) for size in node.buffer.shape]
    if not all(isinstance(size, tirx.IntImm) for size in sizes) or nodes_in(loop.body, tirx.While):
        return None
    rule = (tirx.For, lambda node: node if INDEPENDENT in node.annotations else _divided(node))
    return structural_map(loop.body, rule, order="post"), reductions[0].extent


def on_block(statement: Stmt, thread: Expr) -> Stmt:
    """Return a statement on the threads of a block."""
    return BlockStatements(thread, THREADS, [], "shared", Fragments()).written(statement)


def _is_along_memory(loop: Stmt) -> bool:
    """Return whether a loop reduces contiguous elements, as many as are known at run time only."""
    if isinstance(loop.extent, tirx.IntImm) or contains_loops(loop.body) or loop.step is not None:
        return False
    fit = fit_of(loop)
    return fit.is_known and fit.share > 0 and sums_of(loop) is not None


def _divided(loop: Stmt) -> Any:
    """Return a reduction on the threads of a block: their own partial results, which are combined in pairs."""
    sums: Sequence[Sum] = sums_of(loop) or ()
    thread, step = tirx.Var("lane", "int64"), tirx.Var("step", "int64")
    own = {part.scalar: buffer_like(part.scalar, part.scalar.shape) for part in sums}
    partial = {part.scalar: buffer_like(part.scalar, [index(THREADS)]) for part in sums}
    position = plus(loop.min, step * index(THREADS) + thread)
    body = with_buffers(substituted(loop.body, loop.loop_var, position), own)
    inside = tirx.LT(step * index(THREADS) + thread, loop.extent)
    rounds = tirx.floordiv(loop.extent + index(THREADS - 1), index(THREADS))
    element = tirx.For(step, index(0), rounds, tirx.ForKind.SERIAL, tirx.IfThenElse(inside, body, None))
    starts = [_stored(own[part.scalar], _load(part.scalar) if part.start is None else part.start) for part in sums]
    ends = [tirx.BufferStore(partial[part.scalar], _load(own[part.scalar]), [thread]) for part in sums]
    threads = sequence(*(tirx.AllocBuffer(buffer) for buffer in own.values()), *starts, element, *ends)
    statements = [*(tirx.AllocBuffer(buffer) for buffer in partial.values()), _on_threads(thread, THREADS, threads)]
    half = THREADS // 2
    while half:
        lane = tirx.Var("lane", "int64")
        added = [_halved(part, partial[part.scalar], lane, half) for part in sums]
        statements.append(_on_threads(lane, half, sequence(*added)))
        half //= 2
    for part in sums:
        total = tirx.BufferLoad(partial[part.scalar], [index(0)])
        statements.append(_stored(part.scalar, part.combine(_load(part.scalar), total)))
    return sequence(*statements)


def _load(scalar: Any) -> Any:
    return tirx.BufferLoad(scalar, [index(0)] * len(scalar.shape))


def _stored(scalar: Any, value: Expr) -> Any:
    return tirx.BufferStore(scalar, value, [index(0)] * len(scalar.shape))


def _halved(part: Sum, partial: Any, lane: Any, half: int) -> Any:
    sums = (tirx.BufferLoad(partial, [position]) for position in (lane, lane + index(half)))
    return tirx.BufferStore(partial, part.combine(*sums), [lane])


def _on_threads(variable: Var, count: int, body: Stmt) -> Any:
    return tirx.For(variable, index(0), index(count), tirx.ForKind.SERIAL, body, None, {INDEPENDENT: 1})
