"""CPU loops of one reduction: vectors of neighbouring results, or vectors of partial results.

columns: out[j] = sum over k of x[k, j]        parallel strips of j; vectors of results in registers, k around them
rows:    out[i] = sum over k of x[i, k]        parallel i; four vectors of partial results, which are then combined
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_in_register, vector_registers
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.nest import MIN_LANES, FlatNest, NestAxis, lanes_of
from mlirtri.lowering.schedule.cpu.common.profitability import Outer, outer_loops, serial_loops, threads_are_profitable
from mlirtri.lowering.schedule.cpu.common.strips import Shape, Widened, strip, vector_of
from mlirtri.lowering.schedule.cpu.common.vector_stores import vector_store
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators, accumulators_of
from mlirtri.lowering.schedule.cpu.nests.row_extrema import extremum_row, position_row
from mlirtri.lowering.schedule.cpu.nests.wide_sums import (
    MIN_ROWS,
    PARTIAL_SUMS,
    WideColumns,
    add_blocks,
    fp32_term,
    has_blocks,
    is_special,
    rest_of,
)
from mlirtri.lowering.schedule.cpu.nests.windows import window_loops
from mlirtri.lowering.tir.blocks import DivergentLanesError
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.tir.tiles import temporary
from mlirtri.lowering.toolchain.tvm_names import Expr, Stmt, tirx

PARTIAL_VECTORS = 4
"""Vectors of partial results: as many additions as are in flight in a core."""
SEGMENT = 8
"""Vectors of results in one private buffer: TVM puts those below 1024 bytes on the stack."""


def reduction_loops(nest: FlatNest, target: Target) -> Stmt | None:
    """Return the statements of a reduction; None where no axis can be vectorised, or it is not associative."""
    accumulators = accumulators_of(nest)
    if accumulators is None:
        return None
    lanes = _lanes(nest, accumulators)
    if lanes < MIN_LANES:
        return None
    if (statement := window_loops(nest, accumulators, lanes, target)) is not None:
        return statement
    column, row = _column_axis(nest), None if accumulators.combine is None else _row_axis(nest)
    if column is not None and (row is None or column.extent >= min(lanes, row.extent)):
        return _columns(nest, accumulators, column, lanes, target)
    if row is not None and row.extent >= MIN_LANES * 2:
        return _rows(nest, accumulators, row, lanes, target)
    return None


def _lanes(nest: FlatNest, accumulators: Accumulators) -> int:
    """Return the lanes of a register of the widest element; of at least 32 bits where one is a float."""
    buffers = [*accumulators.buffers.values(), *(access.buffer for access in nest.operands)]
    if not nest.vectorizes and any(str(buffer.dtype) == "bfloat16" for buffer in accumulators.buffers.values()):
        return 1
    if (
        accumulators.combine is None
        or len(accumulators.buffers) > 1
        or any("float" in str(buffer.dtype) for buffer in buffers)
    ):
        return lanes_of(replace(nest, vectorizes=True), buffers)
    return lanes_in_register(*(int(buffer.dtype.bits) for buffer in buffers))


def _column_axis(nest: FlatNest) -> NestAxis | None:
    """Return the spatial axis along which results are contiguous, and operands contiguous or invariant; or None."""
    for axis in reversed(nest.spatial):
        steps = [access.step(axis.variable) for access in nest.accesses if access.is_store]
        reads = [access.step(axis.variable) for access in nest.operands]
        if all(step == 1 for step in steps) and axis.extent >= MIN_LANES:
            return axis if all(step in (0, 1) for step in reads) else None
    return None


def _row_axis(nest: FlatNest) -> NestAxis | None:
    """Return the reduction axis along which operands are contiguous; or None."""
    for axis in reversed(nest.reduced):
        reads = [access.step(axis.variable) for access in nest.operands]
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
    segments, covered = [], 0
    while extent - covered >= lanes:
        vectors = min(SEGMENT, (extent - covered) // lanes)
        segments.append(Segment(covered, Shape(vectors, lanes)))
        covered += vectors * lanes
    if covered < extent and extent >= lanes:
        segments.append(Segment(extent - lanes, Shape(1, lanes)))
    elif covered < extent:
        segments += segments_of(extent, max(1, lanes // 2))
    return segments


def _columns(nest: FlatNest, accumulators: Accumulators, column: NestAxis, lanes: int, target: Target) -> Any:
    if (statements := _sums_of_columns(nest, accumulators, column, lanes, target)) is not None:
        return statements
    wide = lanes * min(2 * SEGMENT, vector_registers() // 2)
    outer = [axis for axis in nest.spatial if axis is not column]
    wide = _narrower(wide, lanes, column.extent, prod(axis.extent for axis in outer), target)
    strips, remaining = divmod(column.extent, wide)
    statements = []
    if strips:
        number = tirx.Var("strip", "int64")

        whole_strip = _column_strip(nest, accumulators, column, number * index(wide), segments_of(wide, lanes))
        axes = [*outer, NestAxis(number, strips, False)]
        statements.append(
            outer_loops(Outer(axes, nest.iterations * wide * strips // column.extent), whole_strip, target)
        )
    if remaining:
        statements.append(_last_columns(nest, accumulators, column, remaining, lanes, target))
    return sequence(*statements)


def _last_columns(
    nest: FlatNest, accumulators: Accumulators, column: NestAxis, remaining: int, lanes: int, target: Target
) -> Any:
    """Return the last columns; fewer than a vector start earlier, and overlap columns that are done."""
    start = column.extent - max(remaining, min(lanes, column.extent))
    segments = segments_of(column.extent - start, lanes)
    last_strip = _column_strip(nest, accumulators, column, index(start), segments)
    outer = [axis for axis in nest.spatial if axis is not column]
    return outer_loops(Outer(outer, nest.iterations * remaining // column.extent), last_strip, target)


def _sums_of_columns(nest: FlatNest, accumulators: Accumulators, column: NestAxis, lanes: int, target: Target) -> Any:
    """Return long fp32 sums, most of whose additions are in fp32; None for others."""
    if column.extent < 2 * lanes or nest.reduced[-1].extent < MIN_ROWS or not nest.vectorizes:
        return None
    if (term := fp32_term(nest, accumulators)) is None:
        return None

    def recompute(start: Any) -> Any:
        return _column_strip(nest, accumulators, column, start, segments_of(lanes, lanes))

    wide = WideColumns(nest, accumulators, column, term, lanes, target, recompute)
    remaining = column.extent - wide.covered
    last = _last_columns(nest, accumulators, column, remaining, lanes, target) if remaining else None
    return sequence(wide.statement(), *([] if last is None else [last]))


def _narrower(wide: int, lanes: int, extent: int, outer_iterations: int, target: Target) -> int:
    """Return a strip width that leaves work for each thread."""
    while wide > 4 * lanes and outer_iterations * (extent // wide) < 2 * target.threads and target.threads > 1:
        wide //= 2
    return wide


def _column_strip(
    nest: FlatNest, accumulators: Accumulators, column: NestAxis, start: Any, segments: Sequence[Segment]
) -> Any:
    """Return one strip: its segments' accumulators are initialised, reduced together, and stored."""
    partials = [accumulators.widened(segment.shape.width) for segment in segments]

    def all_of(statement: Stmt) -> Any:
        parts = [
            strip(statement, column.variable, plus(start, index(segment.start)), segment.shape, widened)
            for segment, widened in zip(segments, partials, strict=True)
        ]
        if any(part is None for part in parts):
            raise DivergentLanesError("the columns part")
        return sequence(*parts)

    allocated = [tirx.AllocBuffer(buffer) for widened in partials for buffer in widened.values()]
    body = serial_loops(nest.reduced, all_of(accumulators.step))
    return sequence(*allocated, all_of(accumulators.start), body, all_of(accumulators.finish()))


def _rows(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int, target: Target) -> Any:
    if not nest.spatial and threads_are_profitable(target, nest.iterations):
        return _shared_row(nest, accumulators, row, lanes, target)
    return outer_loops(Outer(list(nest.spatial), nest.iterations), row_of(nest, accumulators, row, lanes), target)


def _shared_row(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int, target: Target) -> Any:
    """Return one result computed by all threads: parts of the outermost axis are reduced, and combined."""
    first, *inner = nest.reduced
    unit = lanes * PARTIAL_VECTORS if first is row else 1
    size = first.extent // (target.threads * unit) * unit
    if not size:
        return row_of(nest, accumulators, row, lanes)
    number, variable = tirx.Var("part", "int64"), tirx.Var(first.variable.name, first.variable.ty)
    scalars = accumulators.buffers.values()
    parts = {scalar: temporary(f"{scalar.name}_parts", str(scalar.dtype), [target.threads]) for scalar in scalars}
    part = NestAxis(variable, size, True)
    starts = [tirx.BufferStore(scalar, value, [index(0)]) for scalar, value in accumulators.neutral.items()]
    ends = [tirx.BufferStore(part, tirx.BufferLoad(scalar, [index(0)]), [number]) for scalar, part in parts.items()]
    step = substituted(accumulators.step, first.variable, number * index(size) + variable)
    some = replace(accumulators, start=sequence(*starts), step=step, last=sequence(*ends))
    body = fresh(row_of(replace(nest, axes=(part, *inner)), some, part if first is row else row, lanes))
    threads = tirx.For(number, index(0), index(target.threads), tirx.ForKind.PARALLEL, body)
    added = [_into_accumulators(accumulators, parts, index(thread)) for thread in range(target.threads)]
    covered = target.threads * size
    remaining = NestAxis(variable, first.extent - covered, True)
    step = substituted(accumulators.step, first.variable, index(covered) + variable)
    remainder = [serial_loops([remaining, *inner], step)] if remaining.extent else []
    return sequence(
        *(tirx.AllocBuffer(buffer) for buffer in parts.values()),
        threads,
        *accumulators.allocated(),
        accumulators.start,
        *added,
        *remainder,
        accumulators.finish(),
    )


def row_of(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int) -> Stmt:
    """Return the statements that compute and store one result."""
    if (argmax := position_row(nest, accumulators, row, lanes)) is not None:
        return argmax
    while lanes > row.extent:
        lanes //= 2
    most = PARTIAL_VECTORS if _has_short_latency(accumulators) else 2 * PARTIAL_VECTORS
    vectors = min(most, row.extent // lanes)
    reduction = _reduction(nest, accumulators, row, lanes, vectors, _row_terms)
    if (fast_path := _fast_path(nest, accumulators, row, lanes)) is not None:
        statements, fails = fast_path
        reduction = sequence(statements, tirx.IfThenElse(fails, fresh(reduction), None))
    return sequence(*accumulators.allocated(), reduction, accumulators.finish())


def _fast_path(nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int) -> tuple[Any, Any] | None:
    """Return a faster form that fails for some numbers, and the condition that it failed; None where there is none."""
    if has_blocks(row, lanes) and (term := fp32_term(nest, accumulators)) is not None:
        [scalar] = accumulators.buffers.values()
        blocks = _reduction(nest, accumulators, row, lanes, PARTIAL_SUMS, _block_terms(term))
        return blocks, is_special(tirx.BufferLoad(scalar, [index(0)]))
    return extremum_row(nest, accumulators, row, lanes)


def _reduction(
    nest: FlatNest, accumulators: Accumulators, row: NestAxis, lanes: int, vectors: int, terms: Callable[..., Any]
) -> Any:
    """Return the reduction of one result's terms into its accumulators, by `vectors` vectors of partial results."""
    partials = [accumulators.widened(lanes) for _ in range(vectors)]
    begin = [_neutral(accumulators, partial, lanes) for partial in partials]
    inner = terms(accumulators, row, partials, lanes)
    others = [axis for axis in nest.reduced if axis is not row]
    result, combined = _combined(accumulators, partials, lanes)
    return sequence(
        *(tirx.AllocBuffer(buffer) for partial in partials for buffer in partial.values()),
        accumulators.start,
        *begin,
        serial_loops(others, inner),
        combined,
        _into_accumulators(accumulators, result, index(0), index(0)),
    )


def _has_short_latency(accumulators: Accumulators) -> bool:
    step = accumulators.step
    return isinstance(step, tirx.BufferStore) and not isinstance(step.value, tirx.Select)


def _block_terms(term: Expr) -> Callable[..., Any]:
    """Return a writer of the row's terms into the partial results, in blocks of fp32 as far as these cover it."""

    def terms(accumulators: Accumulators, row: NestAxis, partials: Sequence[Widened], lanes: int) -> Any:
        blocks, covered = add_blocks(term, row, [next(iter(partial.values())) for partial in partials], lanes)
        if covered == row.extent:
            return blocks
        step, remaining = rest_of(accumulators.step, row, covered)
        return sequence(blocks, _row_terms(replace(accumulators, step=step), remaining, partials, lanes))

    return terms


def _row_terms(accumulators: Accumulators, row: NestAxis, partials: Sequence[Widened], lanes: int) -> Any:
    """Return the reduction of the row's terms into the partial results; the last vector skips terms that are done."""
    wide = lanes * len(partials)
    full, remaining = divmod(row.extent, wide)
    step = accumulators.step

    def vector(statement: Stmt, start: Any, widened: Widened) -> Any:
        return vector_of(statement, row.variable, start, lanes, widened)

    number = tirx.Var(row.variable.name, row.variable.ty)
    starts = [number * index(wide) + index(position * lanes) for position in range(len(partials))]
    body = sequence(*(vector(step, start, partial) for start, partial in zip(starts, partials, strict=True)))
    statements = [tirx.For(number, index(0), index(full), tirx.ForKind.SERIAL, body)] if full else []
    if full == 1:
        statements = [substituted(body, number, index(0))]
    count, tail = divmod(remaining, lanes)
    statements += [vector(step, index(full * wide + n * lanes), partials[n]) for n in range(count)]
    if tail:
        masked = _masked(step, tirx.GE(row.variable, index(row.extent - tail)), accumulators)
        statements.append(vector(masked, index(row.extent - lanes), partials[count % len(partials)]))
    return sequence(*statements)


def _masked(step: Any, condition: Expr, accumulators: Accumulators) -> Any:
    buffers = list(accumulators.buffers.values())
    statements = list(step.seq) if isinstance(step, tirx.SeqStmt) else [step]

    def masked(child: Any) -> Any:
        if not isinstance(child, tirx.BufferStore) or not any(child.buffer.same_as(buffer) for buffer in buffers):
            return child
        old = tirx.BufferLoad(child.buffer, child.indices)
        return tirx.BufferStore(child.buffer, tirx.Select(condition, child.value, old), child.indices)

    return sequence(*map(masked, statements))


def _neutral(accumulators: Accumulators, widened: Widened, lanes: int) -> Any:
    lane = tirx.Var("lane", "int64")
    values = accumulators.neutral.items()
    stores = [tirx.BufferStore(widened[scalar], value, [index(0), lane]) for scalar, value in values]
    return sequence(*(vector_store(store, lane, index(0), lanes) for store in stores))


def _combined(accumulators: Accumulators, partials: Sequence[Widened], lanes: int) -> tuple[Widened, Any]:
    """Return the buffers of one element with the tree reduction of the partial results, and its statements."""
    statements: list[Any] = []
    while len(partials) > 1:
        pairs = list(zip(partials[::2], partials[1::2], strict=False))
        merged = [_merged(accumulators, *pair, 0, lanes, statements) for pair in pairs]
        partials = [*merged, *partials[2 * len(pairs) :]]
    [widened] = partials
    while lanes > 1:
        lanes //= 2
        widened = _merged(accumulators, widened, widened, lanes, lanes, statements)
    return widened, sequence(*statements)


def _merged(
    accumulators: Accumulators, first: Widened, other: Widened, offset: int, lanes: int, statements: list
) -> Widened:
    """Return a new buffer with the first `lanes` of `first` combined with those of `other` from `offset` on."""
    lane = tirx.Var("lane", "int64")
    values = accumulators.combine(_loads(first, index(0), lane), _loads(other, index(0), plus(lane, index(offset))))
    combined = {scalar: new_buffer(scalar.name, str(scalar.dtype), 1, lanes) for scalar in first}
    for scalar, value in values.items():
        store = tirx.BufferStore(combined[scalar], value, [index(0), lane])
        store = vector_store(store, lane, index(0), lanes) if lanes > 1 else substituted(store, lane, index(0))
        statements += [tirx.AllocBuffer(combined[scalar]), store]
    return combined


def _loads(buffers: Widened, *indices: Any) -> Widened:
    return {scalar: tirx.BufferLoad(buffer, list(indices)) for scalar, buffer in buffers.items()}


def _into_accumulators(accumulators: Accumulators, partial: Widened, *indices: Any) -> Any:
    current = _loads({scalar: scalar for scalar in partial}, index(0))
    values = accumulators.combine(current, _loads(partial, *indices))
    combined = {scalar: new_buffer(scalar.name, str(scalar.dtype), 1) for scalar in values}
    return sequence(
        *(tirx.AllocBuffer(buffer) for buffer in combined.values()),
        *(tirx.BufferStore(combined[scalar], value, [index(0)]) for scalar, value in values.items()),
        *(tirx.BufferStore(scalar, load, [index(0)]) for scalar, load in _loads(combined, index(0)).items()),
    )
