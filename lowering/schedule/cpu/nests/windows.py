"""CPU loops of sliding windows without a sum over channels: pooling, depthwise convolution, stencils.

Vectors lie along the innermost axis of the results, and a few rows of results are computed together; the window is
unrolled, so that shared elements are loaded once. Loads of stride 2 are two vectors, shuffled.

    parallel i / 4, vectors of j:  acc[0:4] = init;  9 times: acc[r] += x[i + r + kh, j + kw] * w[kh, kw];  out = acc
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.nest import MIN_LANES, FlatNest, NestAxis
from mlirtri.lowering.schedule.cpu.common.profitability import Outer, outer_loops
from mlirtri.lowering.schedule.cpu.common.strips import Widened, vector_of
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators, loads_of
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.tir.tiles import in_lanes, replaced
from mlirtri.lowering.toolchain.tvm_names import Node, Stmt, TensorLoad, structural_equal, structural_map, tirx

MAX_TAPS = 64
"""Positions of a window that are unrolled."""
MAX_STEPS = 128
"""Vector steps that are unrolled, which bounds the time of compilation."""
MAX_SKIPPING_STEPS = 48
"""The same for steps with loads of stride 2: each is nine statements, and rows share fewer loads."""
MAX_ROWS = 4
MAX_VECTORS = 4


@dataclass(frozen=True)
class _Window:
    nest: FlatNest
    accumulators: Accumulators
    column: NestAxis
    """The axis of the vectors."""
    row: NestAxis | None
    lanes: int
    skipping: tuple[Any, ...]
    """The buffers that are read with stride 2."""


def window_loops(nest: FlatNest, accumulators: Accumulators, lanes: int, target: Target) -> Stmt | None:
    """Return the statements of a reduction over a small window with contiguous results; else None."""
    if not is_window(nest):
        return None
    column = nest.spatial[-1]
    while lanes > column.extent:
        lanes //= 2
    steps = {access: access.step(column.variable) for access in nest.accesses}
    if lanes < MIN_LANES or any(step != 1 for access, step in steps.items() if access.is_store):
        return None
    if any(step not in (0, 1, 2) for step in steps.values()):
        return None
    skipping = tuple(dict.fromkeys(access.buffer for access, step in steps.items() if step == 2))
    if any(str(buffer.dtype) == "bfloat16" for buffer in skipping):  # its conversions have the lanes of the whole load
        return None
    row = nest.spatial[-2] if len(nest.spatial) > 1 else None
    return _loops(_Window(nest, accumulators, column, row, lanes, skipping), target)


def is_window(nest: FlatNest) -> bool:
    """Return whether a reduction is over a small window that slides along the results' axes."""
    taps = prod(axis.extent for axis in nest.reduced)
    return taps <= MAX_TAPS and bool(nest.spatial) and _slides(nest)


def _slides(nest: FlatNest) -> bool:
    """Return whether an operand's address varies along all axes of results and window, by 1 or 2 along the last.

    An operand shared by many results belongs to a product.
    """
    if any(linear(access.offset, {}) is None for access in nest.operands):
        return False
    axes = [axis for axis in nest.spatial if axis.extent >= MIN_LANES]
    moving = [*axes, *nest.reduced]
    last = nest.spatial[-1].variable
    return any(
        all(access.step(axis.variable) for axis in moving) and access.step(last) in (1, 2) for access in nest.operands
    )


def _loops(window: _Window, target: Target) -> Any:
    taps = prod(axis.extent for axis in window.nest.reduced)
    column, row, lanes = window.column, window.row, window.lanes
    vectors = min(MAX_VECTORS, column.extent // lanes)
    most = MAX_SKIPPING_STEPS if window.skipping else MAX_STEPS
    rows = 1 if row is None else max(1, min(MAX_ROWS, row.extent, most // (taps * vectors)))
    outer = [axis for axis in window.nest.spatial if axis is not column and axis is not row]
    statements = []
    for first, count, tall in _cut(1 if row is None else row.extent, rows):
        number = tirx.Var("rows", "int64")
        body = _block(window, plus(number * index(tall), index(first)), tall, vectors)
        iterations = window.nest.iterations * count * tall // (1 if row is None else row.extent)
        statements.append(outer_loops(Outer([*outer, NestAxis(number, count, False)], iterations), body, target))
    return sequence(*statements)


def _cut(extent: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield offset, count and size of blocks: those of `size`, then the remainder as one."""
    full, remaining = divmod(extent, size)
    if full:
        yield 0, full, size
    if remaining:
        yield full * size, 1, remaining


def _block(window: _Window, first_row: Any, rows: int, vectors: int) -> Any:
    lanes, extent = window.lanes, window.column.extent
    statements = []
    for first, count, wide in _cut(extent // lanes, vectors):
        number = tirx.Var("strip", "int64")
        starts = [plus(number * index(wide * lanes), index((first + vector) * lanes)) for vector in range(wide)]
        body = _tile(window, first_row, rows, starts)
        statements.append(tirx.For(number, index(0), index(count), tirx.ForKind.SERIAL, body))
    if extent % lanes:
        statements.append(_tile(window, first_row, rows, [index(extent - lanes)]))
    return sequence(*statements)


def _tile(window: _Window, first_row: Any, rows: int, starts: Sequence[Any]) -> Any:
    accumulators = window.accumulators
    positions = list(product(range(rows), starts))
    partials = [accumulators.widened(window.lanes) for _ in positions]
    allocated = [tirx.AllocBuffer(buffer) for widened in partials for buffer in widened.values()]

    def all_of(statement: Stmt) -> Any:
        return sequence(
            *(
                _vector(window, statement, plus(first_row, index(row)), start, widened)
                for (row, start), widened in zip(positions, partials, strict=True)
            )
        )

    taps = product(*(range(axis.extent) for axis in window.nest.reduced))
    variables = [axis.variable for axis in window.nest.reduced]
    steps = [
        all_of(replaced(accumulators.step, dict(zip(variables, map(index, tap), strict=True)))) for tap in taps
    ]  # fmt: skip
    return fresh(sequence(*allocated, all_of(accumulators.start), *steps, all_of(accumulators.finish())))


def _vector(window: _Window, statement: Stmt, row: Any, start: Any, widened: Widened) -> Any:
    if window.row is not None:
        statement = substituted(statement, window.row.variable, row)
    statement, prologue = _gathered(window, statement, start)
    return sequence(*prologue, vector_of(statement, window.column.variable, start, window.lanes, widened))


def _gathered(window: _Window, statement: Stmt, start: Any) -> tuple[Any, list[Any]]:
    """Return the statement with its loads of stride 2 from a private buffer, and the statements that fill that."""
    prologue: list[Any] = []
    gathered: list[tuple[Any, Any]] = []
    column, lanes = window.column.variable, window.lanes
    if not any(load.source in window.skipping for load in loads_of(statement)):
        return statement, prologue

    def load(node: Node) -> Any:
        if node.source not in window.skipping:
            return node
        # A maximum reads its element in a comparison, too.
        if (again := next((packed for other, packed in gathered if structural_equal(other, node)), None)) is not None:
            return tirx.BufferLoad(again, [column - start])
        offset = replaced(node.indices[0], {column: start})
        both = [new_buffer(name, str(node.source.dtype), lanes) for name in ("even", "odd")]
        packed = new_buffer("packed", str(node.source.dtype), lanes)
        prologue.extend(tirx.AllocBuffer(buffer) for buffer in (*both, packed))
        for half, buffer in enumerate(both):
            first = plus(offset, index(half * (lanes - 1)))
            prologue.append(_copied(buffer, node.source, first, lanes))
        for half, buffer in enumerate(both):
            prologue.append(_every_second(packed, buffer, half, lanes // 2))
        gathered.append((node, packed))
        return tirx.BufferLoad(packed, [column - start])

    return structural_map(statement, (TensorLoad, load), order="post"), prologue


def _copied(to: Any, source: Any, first: Any, lanes: int) -> Any:
    return in_lanes(lanes, lambda lane: tirx.BufferStore(to, tirx.BufferLoad(source, [first + lane]), [lane]))


def _every_second(to: Any, source: Any, half: int, lanes: int) -> Any:
    def element(lane: Any) -> Any:
        value = tirx.BufferLoad(source, [lane * index(2) + index(half)])
        return tirx.BufferStore(to, value, [plus(lane, index(half * lanes))])

    return in_lanes(lanes, element)
