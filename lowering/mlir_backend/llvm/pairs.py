"""Lower integer matmuls to x86 instructions that add products of pairs, in pipeline `mlir`.

Each matmul of 8-bit or signed 16-bit integers with 32-bit sums copies both operands as pairs of 16-bit neighbours along
the reduction; in loops over tiles of rows and vectors the instruction adds both products of a pair to a lane.
Operands that were widened to 32 bits in memory are read unwidened. Other CPUs keep the operations as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from mlirtri.dialect.bindings.mlir import arith, ir, memref, operations_named, scf, vector
from mlirtri.lowering.core.cpu import PARALLEL_MULTIPLICATIONS, cpu_flags, simd_registers
from mlirtri.lowering.mlir_backend.llvm.contraction_tiling import WIDENING, Contraction, contraction, parts, widths
from mlirtri.lowering.mlir_backend.llvm.vector_transposes import Indices, moved
from mlirtri.lowering.mlir_common.index_values import index_constant, loop_nest
from mlirtri.lowering.mlir_common.linalg_builder import dimensions, maps_of, plain_accesses
from mlirtri.lowering.mlir_common.linalg_builder import generic as build_generic
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, VIEWS_OF_MEMORY, buffer_behind, definition

_PRODUCTS = {
    512: ("avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
    256: ("avx2", "llvm.x86.avx2.pmadd.wd"),
    128: ("sse2", "llvm.x86.sse2.pmadd.wd"),
}
"""By register width in bits: the CPU features required, and LLVM's intrinsic for dot products of pairs."""
ROWS = 6
"""Rows of a tile: accumulators and operands then fill the registers."""


@dataclass(frozen=True)
class _Operand:
    """A factor before it was widened."""

    memory: ir.Value
    widening: str
    access: list[int]
    """The loops that index its axes."""


@dataclass(frozen=True)
class _Product:
    """Operands in pairs, and the destination of the sums."""

    left: ir.Value
    """Its axes are outer loops, rows, pairs."""
    right: ir.Value
    """Its axes are outer loops, pairs, columns."""
    out: ir.Value
    accesses: tuple[list[int], list[int], list[int]]
    """For each of them the loops of its axes."""
    loops: Contraction
    pairs: int

    def indices_of(self, which: int, indices: Indices) -> list[ir.Value]:
        """Return the indices of the left operand, the right one or the result."""
        return [indices[loop] for loop in self.accesses[which]]


def rewrite(module: ir.Module, threads: int) -> None:
    """Rewrite every such product, for that many threads."""
    needed, _ = _PRODUCTS[simd_registers().bits]
    if needed not in cpu_flags():
        return
    for generic in operations_named(module, "linalg.generic"):
        loops = contraction(generic)
        if loops is None or (operands := _operands(generic, loops)) is None:
            continue
        with ir.InsertionPoint(generic), generic.location:
            _write(generic, operands, loops, threads)


def _operands(generic: ir.Operation, loops: Contraction) -> tuple[_Operand, _Operand] | None:
    """Return the operands with the rows and with the columns, or None where one is no narrow integer."""
    if len(loops.reduced) != 1 or not isinstance(generic.operands[2].type.element_type, ir.IntegerType):
        return None
    if loops.bits != 32:
        return None
    first, second = (_narrow_operand(generic, position) for position in range(2))
    if first is None or second is None:
        return None
    return (first, second) if loops.column in second.access else (second, first)


def _narrow_operand(generic: ir.Operation, position: int) -> _Operand | None:
    access = [result.position for result in maps_of(generic)[position].results]
    memory, argument = generic.operands[position], generic.regions[0].blocks[0].arguments[position]
    steps = {use.owner.operation.name for use in argument.uses} & set(WIDENING)
    if memory.type.element_type.width == 32:
        return _widened_from(generic, memory, access)
    widening = steps.pop() if len(steps) == 1 else ""
    return _Operand(memory, widening, access) if _fits(memory, widening) else None


def _fits(memory: ir.Value, widening: str) -> bool:
    """Return whether numbers are signed 16-bit ones, or extend to such."""
    width = memory.type.element_type.width
    return (width == 8 and widening in ("arith.extsi", "arith.extui")) or (width == 16 and widening == "arith.extsi")


def _widened_from(generic: ir.Operation, memory: ir.Value, access: list[int]) -> _Operand | None:
    """Return the elements of memory before their widening, where nothing else writes it."""
    if not _is_allocated(memory):
        return None
    users = {use.owner.operation for use in memory.uses} - {generic}
    writers = [user for user in users if user.name == "linalg.generic"]
    if len(writers) != 1 or any(user.name not in ("linalg.generic", "memref.dealloc") for user in users):
        return None
    (writer,) = writers
    block, accesses = writer.regions[0].blocks[0], plain_accesses(writer)
    steps = [view.operation for view in block.operations]
    if len(writer.operands) != 2 or len(steps) != 2 or steps[0].operands[0] != block.arguments[0]:
        return None
    if accesses is None:
        return None
    read, written = accesses
    source = writer.operands[0]
    is_copy = writer.operands[1] == memory and sorted(read) == sorted(written) and _fits(source, steps[0].name)
    if not is_copy or not _stays(source, writer, generic):
        return None
    return _Operand(source, steps[0].name, [access[written.index(loop)] for loop in read])


def _is_allocated(memory: ir.Value) -> bool:
    owner = definition(memory)
    return owner is not None and owner.name in ALLOCATIONS


def _stays(memory: ir.Value, since: ir.Operation, until: ir.Operation) -> bool:
    if since.parent != until.parent:
        return False
    steps = [view.operation for view in until.block.operations]
    for step in steps[steps.index(since) + 1 : steps.index(until)]:
        if step.regions and not step.name.startswith("linalg."):
            return False
        inputs = step.attributes["operandSegmentSizes"][0] if step.name.startswith("linalg.") else 0
        changed = [] if step.name in (*VIEWS_OF_MEMORY, *ALLOCATIONS) else list(step.operands)[inputs:]
        if any(buffer_behind(value) == buffer_behind(memory) for value in changed):
            return False
    return True


def _in_pairs(operand: _Operand, loops: Contraction, last: int, padded: int) -> tuple[ir.Value, list[int]]:
    """Copy in pairs along the sum, with loop `last` innermost, padded to `padded`; return it and its axes' loops."""
    (reduced,) = loops.reduced
    axis = operand.access.index(reduced)
    sizes = [loops.extents[loop] for loop in operand.access]
    sizes[axis] = -(-sizes[axis] // 2)
    pairs = memref.alloc(ir.MemRefType.get(sizes, _integer(32)), [], [])
    full = loops.extents[reduced] // 2
    for start, count, sources in ((0, full, 2), (full, loops.extents[reduced] % 2, 1)):
        if count:
            _join(operand, pairs, axis, (start, count), sources)
    ends = [loops.row, reduced] if last == reduced else [reduced, loops.column]
    order = [*(loop for loop in operand.access if loop not in ends), *ends]
    sizes = [sizes[operand.access.index(loop)] for loop in order]
    if order == operand.access and sizes[-1] == padded:
        return pairs, order
    copy = memref.alloc(ir.MemRefType.get([*sizes[:-1], padded], _integer(32)), [], [])
    target = _part(copy, [0] * len(sizes), sizes, [1] * len(sizes))
    access = [order.index(loop) for loop in operand.access]
    _elementwise([pairs], target, [access], lambda values: values[0])
    memref.dealloc(pairs)
    return copy, order


def _join(operand: _Operand, pairs: ir.Value, axis: int, part: tuple[int, int], sources: int) -> None:
    """Write pairs ``part[0]`` to ``part[0] + part[1] - 1`` of one or two neighbours along an axis."""
    start, count = part
    sizes = list(pairs.type.shape)
    ones, sizes[axis] = [1] * len(sizes), count
    steps = [2 if number == axis else 1 for number in range(len(sizes))]
    starts = [[2 * start + which if number == axis else 0 for number in range(len(sizes))] for which in range(sources)]
    parts = [_part(operand.memory, start_indices, sizes, steps) for start_indices in starts]
    target = _part(pairs, [start if number == axis else 0 for number in range(len(sizes))], sizes, ones)

    def joined(values: list[ir.Value]) -> ir.Value:
        low, *high = (
            ir.Operation.create(operand.widening, [_integer(32)], [start_indices]).result for start_indices in values
        )
        low = arith.andi(low, arith.constant(_integer(32), 0xFFFF))
        return low if not high else arith.ori(low, arith.shli(high[0], arith.constant(_integer(32), 16)))

    _elementwise(parts, target, [list(range(len(sizes)))] * sources, joined)


def _part(memory: ir.Value, offsets: list[int], sizes: list[int], strides: list[int]) -> ir.Value:
    is_whole = list(memory.type.shape) == sizes and set(strides) == {1}
    return memory if is_whole else memref.subview(memory, offsets, sizes, strides)


def _elementwise(
    inputs: list[ir.Value], out: ir.Value, accesses: list[list[int]], make: Callable[[list[ir.Value]], ir.Value]
) -> None:
    rank = len(out.type.shape)
    maps = [*(dimensions(*access, rank=rank) for access in accesses), ir.AffineMap.get_identity(rank)]
    build_generic(inputs, [out], maps, ["parallel"] * rank, lambda *values: [make(list(values[:-1]))])


def _integer(bits: int) -> ir.Type:
    return ir.IntegerType.get_signless(bits)


def _write(generic: ir.Operation, operands: tuple[_Operand, _Operand], loops: Contraction, threads: int) -> None:
    (reduced,) = loops.reduced
    lanes, pairs = simd_registers().bits // 32, -(-loops.extents[reduced] // 2)
    columns = -(-loops.extents[loops.column] // lanes) * lanes
    left, left_access = _in_pairs(operands[0], loops, reduced, pairs)
    right, right_access = _in_pairs(operands[1], loops, loops.column, columns)
    out_access = [result.position for result in maps_of(generic)[2].results]
    product = _Product(left, right, generic.operands[2], (left_access, right_access, out_access), loops, pairs)
    outer = [loop for loop in out_access if loop not in (loops.row, loops.column)]
    extent = loops.extents[loops.row]
    tiled = extent // ROWS * ROWS
    is_parallel = threads > 1 and prod(loops.extents) >= PARALLEL_MULTIPLICATIONS
    size = ROWS * max(1, -(-tiled // (2 * threads * ROWS)) if is_parallel else tiled)

    def chunk(indices: list[ir.Value]) -> None:
        first = arith.muli(indices[-1], index_constant(size))
        last = arith.minsi(arith.addi(first, index_constant(size)), index_constant(tiled))
        _columns(product, dict(zip(outer, indices, strict=False)), (first, last), ROWS)

    counts = [loops.extents[loop] for loop in outer]
    if tiled:
        _chunks([*counts, -(-tiled // size)], chunk)
    if extent > tiled:
        remainder = (index_constant(tiled), index_constant(extent))
        _chunks(
            [*counts, 1],
            lambda indices: _columns(product, dict(zip(outer, indices, strict=False)), remainder, extent - tiled),
        )
    for copy in (left, right):
        memref.dealloc(copy)
    _erase(generic)


def _chunks(counts: list[int], body: Callable[[list[ir.Value]], None]) -> None:
    """Build the body for each index; several chunks along the last axis are distributed to threads."""

    def nest(indices: list[ir.Value], _carried: list[ir.Value]) -> list[ir.Value]:
        if counts[-1:] == [1]:
            body([*indices, index_constant(0)])
            return []
        chunks = scf.ForallOp([0], [counts[-1]], [1])
        with ir.InsertionPoint(chunks.body):
            body([*indices, chunks.induction_variables[0]])
            chunks.terminator()
        return []

    loop_nest(counts[:-1], [], nest)


def _columns(product: _Product, indices: Indices, bounds: tuple[ir.Value, ir.Value], rows: int) -> None:
    """Build tiles of that many rows over columns: four vectors, two, one, and part of one."""
    loops, lanes = product.loops, simd_registers().bits // 32
    start = 0
    for extent, width in parts(loops.extents[loops.column], (*(count * lanes for count in widths()), 1)):
        outer = scf.ForOp(index_constant(start), index_constant(start + extent), index_constant(width))
        with ir.InsertionPoint(outer.body):
            inner = scf.ForOp(*bounds, index_constant(rows))
            with ir.InsertionPoint(inner.body):
                tile = {**indices, loops.column: outer.induction_variable, loops.row: inner.induction_variable}
                _tile(product, tile, rows, width)
                scf.YieldOp([])
            scf.YieldOp([])
        start += extent


def _tile(product: _Product, indices: Indices, rows: int, width: int) -> None:
    loops, lanes = product.loops, simd_registers().bits // 32
    (reduced,) = loops.reduced
    spots = [(row, column) for row in range(rows) for column in range(0, width, lanes)]
    kind = ir.VectorType.get([lanes], _integer(32))
    zero = vector.broadcast(kind, arith.constant(_integer(32), 0))
    loop = scf.ForOp(index_constant(0), index_constant(product.pairs), index_constant(1), [zero] * len(spots))
    with ir.InsertionPoint(loop.body):
        pair = {**indices, reduced: loop.induction_variable}
        left = [_spread(product, moved(pair, loops.row, row)) for row in range(rows)]
        right = {}
        for column in range(0, width, lanes):
            spot = product.indices_of(1, moved(pair, loops.column, column))
            right[column] = _of_pairs(vector.load(kind, product.right, spot))
        sums = [arith.addi(accumulator, _product_of(left[row], right[column]))
                for accumulator, (row, column) in zip(loop.inner_iter_args, spots, strict=True)]  # fmt: skip
        scf.YieldOp(sums)
    for accumulator, (row, column) in zip(loop.results, spots, strict=True):
        spot = product.indices_of(2, moved(moved(indices, loops.row, row), loops.column, column))
        _add(product.out, spot, accumulator, min(lanes, width - column))


def _spread(product: _Product, indices: Indices) -> ir.Value:
    pair = memref.load(product.left, product.indices_of(0, indices))
    return _of_pairs(vector.broadcast(ir.VectorType.get([simd_registers().bits // 32], _integer(32)), pair))


def _of_pairs(value: ir.Value) -> ir.Value:
    return vector.bitcast(ir.VectorType.get([simd_registers().bits // 16], _integer(16)), value)


def _product_of(left: ir.Value, right: ir.Value) -> ir.Value:
    kind = ir.VectorType.get([simd_registers().bits // 32], _integer(32))
    attributes = {
        "intrin": ir.StringAttr.get(_PRODUCTS[simd_registers().bits][1]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 0]),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
    }
    return ir.Operation.create("llvm.call_intrinsic", [kind], [left, right], attributes).result


def _add(memory: ir.Value, indices: list[ir.Value], value: ir.Value, count: int) -> None:
    kind = value.type
    if count == kind.shape[0]:
        vector.store(arith.addi(vector.load(kind, memory, indices), value), memory, indices)
        return
    predicates = ir.VectorType.get(kind.shape, _integer(1))
    mask = arith.constant(predicates, ir.DenseElementsAttr.get(np.arange(kind.shape[0]) < count, type=predicates))
    zero = vector.broadcast(kind, arith.constant(_integer(32), 0))
    vector.maskedstore(memory, indices, mask, arith.addi(vector.maskedload(kind, memory, indices, mask, zero), value))


def _erase(generic: ir.Operation) -> None:
    """Erase the product, and the widening of its operands if otherwise unused."""
    operands = list(generic.operands)[:2]
    generic.erase()
    for memory in operands[:1] if operands[0] == operands[1] else operands:
        users = {use.owner.operation for use in memory.uses}
        if _is_allocated(memory) and sum(user.name == "linalg.generic" for user in users) == 1:
            for user in users:
                user.erase()
            memory.owner.erase()
