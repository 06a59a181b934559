"""Loop-carried sums, products and extrema: vectors of partial results, which are combined after the loop.

The loop stores to scalar buffers only, one term per iteration. Float sums are reassociated, as BLAS and NumPy do it;
extrema keep a NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mlirtri.lowering.schedule.cpu.common.strips import Shape, rest_loop, strip_loop
from mlirtri.lowering.schedule.imperative.carried_sums import Sum, sums_of
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence, whole_chunks
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Extent, Stmt, tirx

PARTIAL_VECTORS = 4
"""Vectors of partial results: as many additions as are in flight in a core."""


def in_vectors(loop: Stmt, count: Extent, lanes: int) -> Stmt | None:
    """Return the loop of `count` iterations with vectors of partial results; None for no reduction, or a short one.

    With one lane, as for columns, which are not contiguous, there are several scalar partial results.
    """
    static_count = count.value if isinstance(count, tirx.IntImm) else None
    least = max(2 * lanes, PARTIAL_VECTORS)
    if loop.step is not None or (static_count is not None and static_count < least):
        return None
    sums = sums_of(loop)
    if sums is None:
        return None
    vectors = 1 if static_count is not None and static_count < PARTIAL_VECTORS * lanes else PARTIAL_VECTORS
    wide = vectors * lanes
    partial = {
        reduction.scalar: new_buffer(f"{reduction.scalar.name}_partial", reduction.scalar.dtype, 1, wide)
        for reduction in sums
    }
    steps = [tirx.AllocBuffer(buffer) for buffer in partial.values()]
    steps += [started(reduction, partial[reduction.scalar], lanes, wide) for reduction in sums]
    covered = index(0)
    for width in sorted({wide, lanes} - {1}, reverse=True):
        if static_count is not None and static_count - covered.value < width:
            continue
        strips = strip_loop(loop, covered, count, Shape(width // lanes, lanes), partial)
        if strips is None:
            return None
        steps.append(strips)
        covered = whole_chunks(count, width)
    steps += [combined(reduction, partial[reduction.scalar], lanes, wide) for reduction in sums]
    remaining = rest_loop(loop, covered, count)
    if static_count is not None:
        return sequence(*steps, *remaining)
    # Few iterations are faster without vectors.
    return tirx.IfThenElse(tirx.GE(count, index(least)), sequence(*steps, *remaining), fresh(loop))


def started(reduction: Sum, buffer: Buffer, lanes: int, wide: int) -> Stmt:
    """Return stores of the initial value to a buffer of `wide` partial results, in vectors of `lanes`."""
    value = tirx.BufferLoad(reduction.scalar, [index(0)]) if reduction.start is None else reduction.start
    return sequence(*(_store(buffer, first, lanes, lambda position: value) for first in range(0, wide, lanes)))


def combined(reduction: Sum, buffer: Buffer, lanes: int, wide: int) -> Stmt:
    """Return statements that combine `wide` partial results with each other and with the scalar buffer."""

    def load(position: Expr) -> Any:
        return tirx.BufferLoad(buffer, [index(0), position])

    def halved(half: int) -> Iterator[Any]:
        width = min(lanes, half)
        for first in range(0, half, width):
            yield _store(
                buffer,
                first,
                width,
                lambda position: reduction.combine(load(position), load(plus(position, index(half)))),
            )

    halves = [wide >> step for step in range(1, wide.bit_length())]
    result = reduction.combine(tirx.BufferLoad(reduction.scalar, [index(0)]), load(index(0)))
    steps = [step for half in halves for step in halved(half)]
    return sequence(*steps, tirx.BufferStore(reduction.scalar, result, [index(0)]))


def _store(buffer: Buffer, first: int, width: int, value: Callable[[Any], Any]) -> Any:
    if width == 1:
        return tirx.BufferStore(buffer, value(index(first)), [index(0), index(first)])
    lane = tirx.Var("lane", "int64")
    position = plus(index(first), lane)
    store = tirx.BufferStore(buffer, value(position), [index(0), position])
    return tirx.For(lane, index(0), index(width), tirx.ForKind.VECTORIZED, store)
