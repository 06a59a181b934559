"""Lower transposing elementwise operations to in-register transposes of square tiles, in pipeline `mlir`.

An operation without reductions that reads static memory whose innermost axis is not the result's becomes loops over
square tiles: a square of vectors is read, transposed in registers in log2(lanes) steps of pairwise shuffles, and
written. Arithmetic is done on the vectors; an operation that does more reads a transposed copy. Where the tile does not
divide an axis the last tile overlaps the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import arith, ir, linalg, memref, operations_named, vector
from mlirtri.lowering.core.cpu import simd_registers
from mlirtri.lowering.mlir_common.index_values import index_constant, loop_nest
from mlirtri.lowering.mlir_common.linalg_builder import (
    dimensions,
    empty_generic,
    iterators_of,
    maps_of,
    plain_accesses,
    set_maps,
)
from mlirtri.lowering.mlir_common.reading import buffer_behind, is_block_argument

MAX_LANES, MIN_LANES = 16, 4
"""Lanes per vector: larger squares exceed the registers, smaller ones gain nothing."""
Indices = dict[int, ir.Value]
"""The index of each loop, by its number."""


@dataclass(frozen=True)
class _Transpose:
    """An operation with inputs whose innermost axis is not that of its results."""

    generic: ir.Operation
    accesses: list[list[int]]
    """For each operand the loops of its axes."""
    extents: dict[int, int]
    """By the number of the loop."""
    crossed: list[int]
    """The inputs that have `across` innermost."""
    across: int
    along: int
    """The loop of the results' innermost axis."""
    lanes: int


def rewrite(module: ir.Module) -> None:
    """Replace every such operation that is large enough for a square."""
    for generic in operations_named(module, "linalg.generic"):
        plan = _transpose_of(generic)
        if plan is None:
            continue
        with ir.InsertionPoint(generic), generic.location:
            if _is_arithmetic(plan):
                _write(plan)
                generic.erase()
                continue
            for number in plan.crossed:
                _read_transposed(plan, number)


def _transpose_of(generic: ir.Operation) -> _Transpose | None:
    """Return how an operation transposes, or None where it does not or its axes are shorter than a tile."""
    accesses = plain_accesses(generic)
    if "reduction" in iterators_of(generic) or not _overwrites(generic) or accesses is None:
        return None
    operands = list(generic.operands)
    inputs = generic.attributes["operandSegmentSizes"][0]
    written = accesses[inputs]
    loops = list(range(len(iterators_of(generic))))
    if sorted(written) != loops or len(loops) < 2 or any(access != written for access in accesses[inputs:]):
        return None
    along = written[-1]
    swapped = [position for position in range(inputs) if along in accesses[position][:-1]]
    crossed = [position for position in swapped if _is_contiguous(operands[position])]
    crossed = [position for position in crossed if accesses[position][-1] == accesses[crossed[0]][-1]]
    if not crossed:
        return None
    across, extents = accesses[crossed[0]][-1], dict(zip(written, operands[inputs].type.shape, strict=True))
    widest = max(operands[position].type.element_type.width for position in crossed)
    most = min(simd_registers().bits // widest, MAX_LANES)
    lanes = 1 << max(min(most, extents[across], extents[along]), 1).bit_length() - 1
    return _Transpose(generic, accesses, extents, crossed, across, along, lanes) if lanes >= MIN_LANES else None


def _overwrites(generic: ir.Operation) -> bool:
    """Return whether outputs are static memory that the operation does not read, so that parts may be repeated."""
    operands, inputs = list(generic.operands), generic.attributes["operandSegmentSizes"][0]
    block = generic.regions[0].blocks[0]
    if not all(isinstance(operand.type, ir.MemRefType) and operand.type.has_static_shape for operand in operands):
        return False
    read, written = ([buffer_behind(operand) for operand in part] for part in (operands[:inputs], operands[inputs:]))
    is_looked_at = any(True for argument in list(block.arguments)[inputs:] for _ in argument.uses)
    return bool(written) and not is_looked_at and not any(output == source for output in written for source in read)


def _is_contiguous(value: ir.Value) -> bool:
    kind = value.type
    is_number = isinstance(kind.element_type, ir.IntegerType | ir.FloatType) and kind.element_type.width >= 8
    return is_number and bool(kind.shape) and kind.get_strides_and_offset()[0][-1] == 1


def _is_arithmetic(plan: _Transpose) -> bool:
    """Return whether the body works on vectors, and all operands can be accessed as such."""
    generic, along = plan.generic, plan.along
    for position, operand in enumerate(generic.operands):
        if position not in plan.crossed and along in plan.accesses[position]:
            if plan.accesses[position][-1] != along or not _is_contiguous(operand):
                return False
    block = generic.regions[0].blocks[0]
    *steps, last = [view.operation for view in block.operations]
    if any(value not in block.arguments and is_block_argument(value) for value in last.operands):
        return False
    return all(step.name.startswith("arith.") and not step.regions and _is_wide(step) for step in steps)


def _is_wide(step: ir.Operation) -> bool:
    """Return whether a step works on lanes: fp16 is rounded one by one, and `index` has no fixed width."""
    kinds = [value.type for value in (*step.operands, *step.results)]
    return all(isinstance(kind, ir.IntegerType | ir.F32Type | ir.F64Type) for kind in kinds)


def _read_transposed(plan: _Transpose, number: int) -> None:
    """Let an operation read a copy with axes in the order of the result's loops."""
    generic, source, access = plan.generic, plan.generic.operands[number], plan.accesses[number]
    loops = [loop for loop in plan.accesses[-1] if loop in access]
    copy = memref.alloc(ir.MemRefType.get([plan.extents[loop] for loop in loops], source.type.element_type), [], [])
    read = dimensions(*(loops.index(loop) for loop in access), rank=len(loops))
    maps = [read, ir.AffineMap.get_identity(len(loops))]
    transpose = empty_generic([source], [copy], maps, ["parallel"] * len(loops))
    body = transpose.regions[0].blocks.append(*[source.type.element_type] * 2)
    with ir.InsertionPoint(body):
        linalg.YieldOp([body.arguments[0]])
    if (copying := _transpose_of(transpose)) is not None:
        _write(copying)
        transpose.erase()
    maps = maps_of(generic)
    maps[number] = dimensions(*loops, rank=maps[number].n_dims)
    set_maps(generic, maps)
    generic.operands[number] = copy
    with ir.InsertionPoint.after(generic):
        memref.dealloc(copy)


def _write(plan: _Transpose) -> None:
    """Emit loops over the squares, the result's innermost axis innermost."""
    written, lanes, ends = plan.accesses[-1], plan.lanes, (plan.across, plan.along)
    order = [*(loop for loop in written if loop not in ends), *ends]
    counts = [-(-plan.extents[loop] // lanes) if loop in ends else plan.extents[loop] for loop in order]

    def square(positions: list[ir.Value], _carried: list[ir.Value]) -> list[ir.Value]:
        indices = dict(zip(order, positions, strict=True))
        for loop in ends:
            indices[loop] = _start(indices[loop], plan.extents[loop], lanes)
        columns = {}
        for number in plan.crossed:
            source, access = plan.generic.operands[number], plan.accesses[number]
            columns[number] = transposed_rows(
                [_read(source, access, moved(indices, plan.along, row), lanes) for row in range(lanes)]
            )
        for row in range(lanes):
            inputs = {number: vectors[row] for number, vectors in columns.items()}
            _write_row(plan, inputs, moved(indices, plan.across, row))
        return []

    loop_nest(counts, [], square)


def _start(number: ir.Value, extent: int, lanes: int) -> ir.Value:
    """Return the start of a square: the last one ends with the extent."""
    start = arith.muli(number, index_constant(lanes))
    return start if extent % lanes == 0 else arith.minsi(start, index_constant(extent - lanes))


def moved(indices: Indices, loop: int, by: int) -> Indices:
    """Return the indices with that of one loop increased."""
    return {**indices, loop: arith.addi(indices[loop], index_constant(by))} if by else indices


def _write_row(plan: _Transpose, columns: dict[int, ir.Value], indices: Indices) -> None:
    """Write one vector of each result, from the transposed vectors and the other operands."""
    operands, lanes = list(plan.generic.operands), plan.lanes
    inputs = plan.generic.attributes["operandSegmentSizes"][0]
    block = plan.generic.regions[0].blocks[0]
    values: dict[ir.Value, ir.Value] = {}
    for number in range(inputs):
        value = columns.get(number)
        if value is None and any(True for _ in block.arguments[number].uses):
            value = _read(operands[number], plan.accesses[number], indices, lanes, plan.along)
        if value is not None:
            values[block.arguments[number]] = _as(value, operands[number].type.element_type)
    *steps, last = [view.operation for view in block.operations]
    for step in steps:
        values[step.results[0]] = _in_lanes(step, values, lanes)
    for number, value in enumerate(last.operands, inputs):
        vector.store(_spread(value, values, lanes), operands[number], [indices[loop] for loop in plan.accesses[number]])


def _in_lanes(step: ir.Operation, values: dict[ir.Value, ir.Value], lanes: int) -> ir.Value:
    if not step.operands:
        return vector.broadcast(ir.VectorType.get([lanes], step.results[0].type), step.clone().operation.result)
    operands = [_spread(operand, values, lanes) for operand in step.operands]
    attributes = {name: step.attributes[name] for name in step.attributes}
    kind = ir.VectorType.get([lanes], step.results[0].type)
    return ir.Operation.create(step.name, [kind], operands, attributes).result


def _spread(value: ir.Value, values: dict[ir.Value, ir.Value], lanes: int) -> ir.Value:
    return values[value] if value in values else vector.broadcast(ir.VectorType.get([lanes], value.type), value)


def _read(source: ir.Value, access: list[int], indices: Indices, lanes: int, along: int | None = None) -> ir.Value:
    """Read a vector of an operand; a splat where it has no axis `along`."""
    kind, spot = ir.VectorType.get([lanes], source.type.element_type), [indices[loop] for loop in access]
    if along is not None and along not in access:
        return vector.broadcast(kind, memref.load(source, spot))
    return vector.load(kind, source, spot)


def _as(value: ir.Value, element: ir.Type) -> ir.Value:
    kind = ir.VectorType.get(value.type.shape, element)
    return value if value.type == kind else vector.bitcast(kind, value)


def transposed_rows(rows: list[ir.Value]) -> list[ir.Value]:
    """Return the columns of a square tile whose rows are vectors. Each step exchanges 1, 2, 4… lanes of two rows."""
    lanes = len(rows)
    # LLVM has shuffles for integers of every width, not always for fp16.
    rows = [_as(row, ir.IntegerType.get_signless(row.type.element_type.width)) for row in rows]
    distance = 1
    while distance < lanes:
        exchanged = list(rows)
        for first in (row for row in range(lanes) if not row & distance):
            second = first + distance
            upper = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
            lower = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
            for row_number, lanes_taken in ((first, upper), (second, lower)):
                exchanged[row_number] = vector.shuffle(rows[first], rows[second], lanes_taken)
        rows = exchanged
        distance *= 2
    return rows
