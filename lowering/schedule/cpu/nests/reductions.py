"""CPU loops of one reduction: vectors of neighbouring results, or vectors of partial results.

Takes a `FlatNest` with reduction axes. Gives statements, or None where neither form fits.

    columns: out[j] = sum over k of x[k, j]        parallel strips of j; vectors of results in registers, k around them
    rows:    out[i] = sum over k of x[i, k]        parallel i; four vectors of partial results, which are then combined
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mlirtri.lowering.codegen.targets import vector_bits, vector_registers
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.nest import FlatNest, NestAxis, lanes_of
from mlirtri.lowering.schedule.cpu.common.parallel import PARALLEL_POINTS, Outer, outer_loops, profitable
from mlirtri.lowering.schedule.cpu.common.strips import Shape, Widened, strip
from mlirtri.lowering.schedule.cpu.common.vector_stores import vector_store
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators, accumulators_of
from mlirtri.lowering.schedule.cpu.nests.argmax import position_row
from mlirtri.lowering.schedule.cpu.nests.row_extrema import extremum_row
from mlirtri.lowering.schedule.cpu.nests.wide_columns import LEAST, WideColumns
from mlirtri.lowering.schedule.cpu.nests.wide_sums import (
    PARTIAL_SUMS,
    add_blocks,
    fp32_term,
    has_blocks,
    is_special,
    rest_of,
)
from mlirtri.lowering.schedule.cpu.nests.windows import window_loops
from mlirtri.lowering.tir.blocks import PartedLanesError
from mlirtri.lowering.tir.statements import buffer_like, fresh, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.tir.tiles import temporary
from mlirtri.lowering.toolchain.tvm_names import tirx

PARTIAL_VECTORS = 4
"""Vectors of partial results: as many additions as are in flight in a core."""
SEGMENT = 8
"""Vectors of results in one private buffer: TVM puts those below 1024 bytes on the stack."""
FEW_LANES = 4
"""Loops with fewer neighbours are left to LLVM."""


def reduction_loops(nest: FlatNest, target: Target) -> Any:
    """Return the statements of a reduction; None where no axis can be vectorised, or it is not associative."""
    accumulators = accumulators_of(nest)
    if accumulators is None:
        return None
    lanes = _lanes(nest, accumulators)
    if lanes < FEW_LANES:
        return None
    if (made := window_loops(nest, accumulators, lanes, target)) is not None:
        return made
    column, row = _column_axis(nest), None if accumulators.combine is None else _row_axis(nest)
    if column is not None and (row is None or column.extent >= min(lanes, row.extent)):
        return _columns(nest, accumulators, column, lanes, target)
    if row is not None and row.extent >= FEW_LANES * 2:
        return _rows(nest, accumulators, row, lanes, target)
    return None


def _lanes(nest: FlatNest, accumulators: Accumulators) -> int:
    """Return the lanes of a register of the widest element; of at least 32 bits where one is a float."""
    buffers = [*accumulators.cells.values(), *(each.buffer for each in nest.operands)]
    if not nest.vectorizes and any(str(each.dtype) == "bfloat16" for each in accumulators.cells.values()):
        return 1
    if (
        accumulators.combine is None
        or len(accumulators.cells) > 1
        or any("float" in str(each.dtype) for each in buffers)
    ):
        return lanes_of(replace(nest, vectorizes=True), buffers)
    return vector_bits() // max(8, *(int(each.dtype.bits) for each in buffers))


def _column_axis(nest: FlatNest) -> NestAxis | None:
    """Return the spatial axis along which results are contiguous, and operands contiguous or invariant; or None."""
    for axis in reversed(nest.spatial):
        steps = [each.step(axis.variable) for each in nest.accesses if each.is_store]
        reads = [each.step(axis.variable) for each in nest.operands]
        if all(step == 1 for step in steps) and axis.extent >= FEW_LANES:
            return axis if all(step in (0, 1) for step in reads) else None
    return None


def _row_axis(nest: FlatNest) -> NestAxis | None:
    """Return the reduction axis along which operands are contiguous; or None."""
    for axis in reversed(nest.reduced):
        reads = [each.step(axis.variable) for each in nest.operands]
        if 1 in reads and all(step in (0, 1) for step in reads):
            return axis
    return None


@dataclass(frozen=True)
class Segment:
    """Neighbouring results that are vectors in one buffer: their offset in the strip, and their number."""

    start: int
    shape: Shape


def segments_of(extent: int, lanes: int) -> list[Segment]:
    """Return segments that cover `extent` neighbours; the last one may overlap, or have half as many lanes."""
    found, done = [], 0
    while extent - done >= lanes:
        vectors = min(SEGMENT, (extent - done) // lanes)
        found.append(Segment(done, Shape(vectors, lanes)))
        done += vectors * lanes
    if done < extent and extent >= lanes:
        found.append(Segment(extent - lanes, Shape(1, lanes)))
    elif done < extent:
        found += segments_of(extent, max(1, lanes // 2))
    return found


def _columns(nest: FlatNest, accumulators: Accumulators, column: NestAxis, lanes: int, target: Target) -> Any:
    if (made := _sums_of_columns(nest, accumulators, column, lanes, target)) is not None:
        return made
    wide = lanes * min(2 * SEGMENT, vector_registers() // 2)
    outer = [axis for axis in nest.spatial if axis is not column]
    wide = _narrower(wide, lanes, column.extent, prod(axis.extent for axis in outer), target)
    strips, rest = divmod(column.extent, wide)
    made = []
    if strips:
        number = tirx.Var("strip", "int64")

        whole_strip = _column_strip(nest, accumulators, column, number * index(wide), segments_of(wide, lanes))
        axes = [*outer, NestAxis(number, strips, False)]
        made.append(outer_loops(Outer(axes, nest.points * wide * strips // column.extent), whole_strip, target))
    if rest:
        made.append(_last_columns(nest, accumulators, column, rest, lanes, target))
    return sequence(*made)


def _last_columns(
    nest: FlatNest, accumulators: Accumulators, column: NestAxis, rest: int, lanes: int, target: Target
) -> Any:
    """Return the last columns; fewer than a vector start earlier, and overlap columns that are done."""
    start = column.extent - max(rest, min(lanes, column.extent))
    segments = segments_of(column.extent - start, lanes)
    last_strip = _column_strip(nest, accumulators, column, index(start), segments)
    outer = [axis for axis in nest.spatial if axis is not column]
    return outer_loops(Outer(outer, nest.points * rest // column.extent), last_strip, target)


def _sums_of_columns(nest: FlatNest, accumulators: Accumulators, column: NestAxis, lanes: int, target: Target) -> Any:
    """Return long fp32 sums, most of whose additions are in fp32; None for others."""
    if column.extent < 2 * lanes or nest.reduced[-1].extent < LEAST or not nest.vectorizes:
        return None
    if (term := fp32_term(nest, accumulators)) is None:
        return None

    def again(start: Any) -> Any:
        return _column_strip(nest, accumulators, column, start, segments_of(lanes, lanes))

    wide = WideColumns(nest, accumulators, column, term, lanes, target, again)
    rest = column.extent - wide.done
    last = _last_columns(nest, accumulators, column, rest, lanes, target) if rest else None
    return sequence(wide.statement(), *([] if last is None else [last]))


def _narrower(wide: int, lanes: int, extent: int, outside: int, target: Target) -> int:
    """Return a strip width that leaves work for each thread."""
    while wide > 4 * lanes and outside * (extent // wide) < 2 * target.threads and target.threads > 1:
        wide //= 2
    return wide


def _column_strip(
    nest: FlatNest, accumulators: Accumulators, column: NestAxis, start: Any, segments: Sequence[Segment]
) -> Any:
    """Return one strip: its segments' cells are initialised, reduced together, and stored."""
    rooms = [_room(accumulators, segment.shape.width) for segment in segments]

    def all_of(statement: Any) -> Any:
        parts = [
            strip(statement, column.variable, plus(start, index(segment.start)), segment.shape, room)
            for segment, room in zip(segments, rooms, strict=True)
        ]
        if any(part is None for part in parts):
            raise PartedLanesError("the columns part")
        return sequence(*parts)

    allocated = [tirx.AllocBuffer(buffer) for room in rooms for buffer in room.values()]
    body = around_loops(nest.reduced, all_of(accumulators.step))
    return sequence(*allocated, all_of(accumulators.start), body, all_of(accumulators.finish()))


def _room(accumulators: Accumulators, width: int) -> Widened:
    return {cell: buffer_like(cell, [index(1), index(width)]) for cell in accumulators.cells.values()}


def around_loops(axes: Sequence[NestAxis], body: Any) -> Any:
    """Return a statement inside of serial loops over `axes`, the first one outermost."""
    for axis in reversed(axes):
        variable = tirx.Var(axis.variable.name, axis.variable.ty)
        body = substituted(body, axis.variable, variable)
        body = tirx.For(variable, index(0), index(axis.extent), tirx.ForKind.SERIAL, body)
    return body


def _rows(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int, target: Target) -> Any:
    if not nest.spatial and target.threads > 1 and profitable(nest.points >= PARALLEL_POINTS):
        return _shared_row(nest, accumulators, row, lanes, target)
    return outer_loops(Outer(list(nest.spatial), nest.points), row_of(nest, accumulators, row, lanes), target)


def _shared_row(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int, target: Target) -> Any:
    """Return one result computed by all threads: parts of the outermost axis are reduced, and combined."""
    first, *inner = nest.reduced
    unit = lanes * PARTIAL_VECTORS if first is row else 1
    size = first.extent // (target.threads * unit) * unit
    if not size:
        return row_of(nest, accumulators, row, lanes)
    number, at = tirx.Var("part", "int64"), tirx.Var(first.variable.name, first.variable.ty)
    parts = {
        cell: temporary(f"{cell.name}_parts", str(cell.dtype), [target.threads]) for cell in accumulators.cells.values()
    }
    part = NestAxis(at, size, True)
    some = replace(
        accumulators,
        start=sequence(*(tirx.BufferStore(cell, value, [index(0)]) for cell, value in accumulators.neutral.items())),
        step=substituted(accumulators.step, first.variable, number * index(size) + at),
        last=sequence(
            *(tirx.BufferStore(room, tirx.BufferLoad(cell, [index(0)]), [number]) for cell, room in parts.items())
        ),
    )  # fmt: skip
    body = fresh(row_of(replace(nest, axes=(part, *inner)), some, part if first is row else row, lanes))
    threads = tirx.For(number, index(0), index(target.threads), tirx.ForKind.PARALLEL, body)
    added = [_into_cells(accumulators, parts, index(at)) for at in range(target.threads)]
    done = target.threads * size
    rest = NestAxis(at, first.extent - done, True)
    step = substituted(accumulators.step, first.variable, index(done) + at)
    left = around_loops([rest, *inner], step) if rest.extent else None
    return sequence(
        *(tirx.AllocBuffer(each) for each in parts.values()),
        threads,
        *accumulators.allocated(),
        accumulators.start,
        *added,
        *([] if left is None else [left]),
        accumulators.finish(),
    )


def row_of(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int) -> Any:
    """Return the statements that compute and store one result."""
    if (made := position_row(nest, accumulators, row, lanes)) is not None:
        return made
    while lanes > row.extent:
        lanes //= 2
    most = PARTIAL_VECTORS if _is_quick(accumulators) else 2 * PARTIAL_VECTORS
    vectors = min(most, row.extent // lanes)
    total = _total(nest, accumulators, row, lanes, vectors, _row_terms)
    if (quick := _quick(nest, accumulators, row, lanes)) is not None:
        statements, fails = quick
        total = sequence(statements, tirx.IfThenElse(fails, fresh(total), None))
    return sequence(*accumulators.allocated(), total, accumulators.finish())


def _quick(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int) -> tuple[Any, Any] | None:
    """Return a faster form that fails for some numbers, and the condition that it failed; None where there is none."""
    if has_blocks(row, lanes) and (term := fp32_term(nest, accumulators)) is not None:
        [cell] = accumulators.cells.values()
        blocks = _total(nest, accumulators, row, lanes, PARTIAL_SUMS, _block_terms(term))
        return blocks, is_special(tirx.BufferLoad(cell, [index(0)]))
    return extremum_row(nest, accumulators, row, lanes)


def _total(
    nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int, vectors: int, terms: Callable[..., Any]
) -> Any:
    """Return the reduction of all terms of one result into its cells, by `vectors` vectors of partial results."""
    rooms = [_room(accumulators, lanes) for _ in range(vectors)]
    begin = [_neutral(accumulators, room, lanes) for room in rooms]
    inner = terms(accumulators, row, rooms, lanes)
    others = [axis for axis in nest.reduced if axis is not row]
    total, combined = _combined(accumulators, rooms, lanes)
    return sequence(
        *(tirx.AllocBuffer(buffer) for room in rooms for buffer in room.values()),
        accumulators.start,
        *begin,
        around_loops(others, inner),
        combined,
        _into_cells(accumulators, total, index(0), index(0)),
    )


def _is_quick(accumulators: Accumulators) -> bool:
    """Whether a step's loop-carried latency is one instruction."""
    step = accumulators.step
    return isinstance(step, tirx.BufferStore) and not isinstance(step.value, tirx.Select)


def _block_terms(term: Any) -> Callable[..., Any]:
    """Return a writer of the row's terms into the partial results, in blocks of fp32 as far as these cover it."""

    def terms(accumulators: Accumulators, row: NestAxis, rooms: Sequence[Widened], lanes: int) -> Any:
        blocks, done = add_blocks(term, row, [next(iter(each.values())) for each in rooms], lanes)
        if done == row.extent:
            return blocks
        step, rest = rest_of(accumulators.step, row, done)
        return sequence(blocks, _row_terms(replace(accumulators, step=step), rest, rooms, lanes))

    return terms


def _row_terms(accumulators: Accumulators, row: NestAxis, rooms: Sequence[Widened], lanes: int) -> Any:
    """Return the reduction of the row's terms into the partial results; the last vector skips terms that are done."""
    wide = lanes * len(rooms)
    whole, rest = divmod(row.extent, wide)
    step = accumulators.step

    def vector(statement: Any, start: Any, room: Widened) -> Any:
        made = strip(statement, row.variable, start, Shape(1, lanes), room)
        if made is None:
            raise PartedLanesError("the row's terms part")
        return made

    number = tirx.Var(row.variable.name, row.variable.ty)
    body = sequence(*(vector(step, number * index(wide) + index(at * lanes), room) for at, room in enumerate(rooms)))
    made = [tirx.For(number, index(0), index(whole), tirx.ForKind.SERIAL, body)] if whole else []
    if whole == 1:
        made = [substituted(body, number, index(0))]
    made += [vector(step, index(whole * wide + at * lanes), rooms[at]) for at in range(rest // lanes)]
    if tail := rest % lanes:
        first = row.extent - lanes
        masked = _from(step, tirx.GE(row.variable, index(row.extent - tail)), accumulators)
        made.append(vector(masked, index(first), rooms[rest // lanes % len(rooms)]))
    return sequence(*made)


def _from(step: Any, condition: Any, accumulators: Accumulators) -> Any:
    """Return the step, which changes the cells only where a condition holds."""
    cells = list(accumulators.cells.values())
    statements = list(step.seq) if isinstance(step, tirx.SeqStmt) else [step]

    def masked(each: Any) -> Any:
        if not isinstance(each, tirx.BufferStore) or not any(each.buffer.same_as(cell) for cell in cells):
            return each
        old = tirx.BufferLoad(each.buffer, each.indices)
        return tirx.BufferStore(each.buffer, tirx.Select(condition, each.value, old), each.indices)

    return sequence(*map(masked, statements))


def _neutral(accumulators: Accumulators, room: Widened, lanes: int) -> Any:
    lane = tirx.Var("lane", "int64")
    stores = [tirx.BufferStore(room[cell], value, [index(0), lane]) for cell, value in accumulators.neutral.items()]
    return sequence(*(vector_store(store, lane, index(0), lanes) for store in stores))


def _combined(accumulators: Accumulators, rooms: Sequence[Widened], lanes: int) -> tuple[Widened, Any]:
    """Return the buffers of one element with the tree reduction of the partial results, and its statements."""
    made: list[Any] = []
    while len(rooms) > 1:
        pairs = list(zip(rooms[::2], rooms[1::2], strict=False))
        rooms = [*(_merged(accumulators, one, other, 0, lanes, made) for one, other in pairs), *rooms[2 * len(pairs) :]]
    [room] = rooms
    while lanes > 1:
        lanes //= 2
        room = _merged(accumulators, room, room, lanes, lanes, made)
    return room, sequence(*made)


def _merged(accumulators: Accumulators, one: Widened, other: Widened, offset: int, lanes: int, made: list) -> Widened:
    """Return a new buffer with the first `lanes` of `one` combined with those of `other` from `offset` on."""
    lane = tirx.Var("lane", "int64")
    own = {cell: tirx.BufferLoad(buffer, [index(0), lane]) for cell, buffer in one.items()}
    others = {cell: tirx.BufferLoad(buffer, [index(0), plus(lane, index(offset))]) for cell, buffer in other.items()}
    room = {cell: new_buffer(cell.name, str(cell.dtype), 1, lanes) for cell in one}
    for cell, value in accumulators.combine(own, others).items():
        store = tirx.BufferStore(room[cell], value, [index(0), lane])
        made.append(tirx.AllocBuffer(room[cell]))
        made.append(vector_store(store, lane, index(0), lanes) if lanes > 1 else substituted(store, lane, index(0)))
    return room


def _into_cells(accumulators: Accumulators, total: Widened, *place: Any) -> Any:
    """Return the combination of the cells with one partial result."""
    own = {cell: tirx.BufferLoad(cell, [index(0)]) for cell in total}
    others = {cell: tirx.BufferLoad(buffer, list(place)) for cell, buffer in total.items()}
    values = accumulators.combine(own, others)
    made = {cell: new_buffer(cell.name, str(cell.dtype), 1) for cell in values}
    return sequence(
        *(tirx.AllocBuffer(buffer) for buffer in made.values()),
        *(tirx.BufferStore(made[cell], value, [index(0)]) for cell, value in values.items()),
        *(tirx.BufferStore(cell, tirx.BufferLoad(buffer, [index(0)]), [index(0)]) for cell, buffer in made.items()),
    )
