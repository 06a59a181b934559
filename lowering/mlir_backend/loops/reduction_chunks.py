"""Loops whose iterations share nothing but reductions: chunks of iterations in parallel, each with partial results.

How many chunks there are depends on the trip count alone, so that results have the same bits for any number of threads.
The partial results are combined in pairs, in the order of the loop; long chunks of rounded sums have blocks inside.

    for i carrying s { s + a[i] }   ──►   parallel c { partial[c] = for i in chunk c carrying 0 { … } }
                                          for width in 32, 16, … 1: partial[i] = partial[2 i] + partial[2 i + 1]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, memref, operations_named, scf
from mlirtri.lowering.core.cpu import PARALLEL_STEPS
from mlirtri.lowering.core.stage import TILE_KERNEL, TRIPS
from mlirtri.lowering.mlir_backend.loops.carried_reductions import ROUNDED, Combination, reduction_of
from mlirtri.lowering.mlir_backend.loops.loop_memory import combined_buffers
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.attributes import DECLARED_PARALLEL
from mlirtri.lowering.mlir_common.cloning import clone_all, replace
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.reading import defined_by, integer_constant, trip_count

CHUNKS = 64
"""Chunks of a loop that is long enough; a power of 2."""
SMALLEST_CHUNK = 1024
"""Iterations of a chunk whose iterations contain no loop."""
BLOCK = 4096
"""Iterations whose terms are added up before they are added to the sum of the chunk."""
LARGEST_ARRAY = 4096
"""Elements of an array of which each chunk has a copy."""
LARGEST_ON_STACK = 64
"""Elements of such a copy that need no allocation on the heap."""
ITERATIONS_PER_ELEMENT = 4
"""Iterations of a chunk for each element of such a copy."""
UNKNOWN_TRIPS = 16
"""The assumed trip count of an inner loop whose bounds are no constants."""
_REASSOCIATED = "#arith.fastmath<reassoc>"


def rewrite(module: ir.Module, threads: int = 1, on_device: bool = False) -> None:
    """Split the loops of every function that are declared parallel or stand in no other loop.

    With one thread, only those that reduce: whoever reads the loops later finds the others independent itself. On a
    device tile kernels have threads already, and arrays of integers are updated by atomic functions.
    """
    if threads > 1:
        for nest in operations_named(module, "scf.parallel"):
            in_order(nest)
    for function in module.body.operations:
        # A grid of one block has no loop.
        if on_device and TILE_KERNEL in function.operation.attributes:
            continue
        for region in function.operation.regions:
            for block in region.blocks:
                _visit(block, threads, is_outermost=True, on_device=on_device)


def _visit(block: ir.Block, threads: int, is_outermost: bool, on_device: bool) -> None:
    for operation in [view.operation for view in block.operations]:
        if operation.name == "scf.for" and (is_outermost or DECLARED_PARALLEL in operation.attributes):
            chunks = chunks_of(operation, threads)
            if chunks is not None and on_device and chunks.has_atomics:
                continue
            if chunks is not None:
                with ir.InsertionPoint(operation), operation.location:
                    replace(operation, chunks.build())
                continue
            is_declared = threads == 1 and DECLARED_PARALLEL in operation.attributes
            if is_declared and not operation.results and combined_buffers(operation) == {}:
                _declare(operation)
                continue
        if operation.name in ("scf.for", "scf.while", "scf.if"):
            for region in operation.regions:
                for inner in region.blocks:
                    _visit(inner, threads, is_outermost and operation.name == "scf.if", on_device)


def _declare(loop: ir.Operation) -> None:
    """Replace an `scf.for` of independent iterations by an `scf.parallel`, as whoever reads the loops knows it."""
    block = loop.regions[0].blocks[0]
    with ir.InsertionPoint(loop), loop.location:
        parallel = scf.ParallelOp([], *([bound] for bound in list(loop.operands)[:3]), [])
        target = parallel.regions[0].blocks.append(ir.IndexType.get())
        block.arguments[0].replace_all_uses_with(target.arguments[0])
        _move_steps(block, target)
        with ir.InsertionPoint(target):
            scf.ReduceOp([], 0)
    loop.erase()


def _move_steps(block: ir.Block, target: ir.Block) -> None:
    """Move all operations of a block but its terminator to the end of another one."""
    *steps, _ = [view.operation for view in block.operations]
    for step in steps:
        target.append(step)


def in_order(nest: ir.Operation) -> None:
    """Replace an `scf.parallel` without results by `scf.for` loops."""
    block, bounds = nest.regions[0].blocks[0], list(nest.operands)
    count, point = len(block.arguments), ir.InsertionPoint(nest)
    for axis, argument in enumerate(block.arguments):
        with point, nest.location:
            loop = scf.ForOp(*bounds[axis : 3 * count : count])
            if axis:
                scf.YieldOp([])
        argument.replace_all_uses_with(loop.induction_variable)
        point = ir.InsertionPoint(loop.body)
    _move_steps(block, point.block)
    with point, nest.location:
        scf.YieldOp([])
    nest.erase()


def chunks_of(loop: ir.Operation, threads: int) -> Chunks | None:
    """Return the chunks of a loop; None where its iterations depend on each other, or are few."""
    trips, smallest = trip_count(list(loop.operands)[:3]), 1 if _has_loops(loop) else SMALLEST_CHUNK
    if trips is not None and trips < 2 * smallest:
        return None
    allocates = any(inner.name == "memref.alloc" and len(inner.operands) for inner in all_operations_in(loop))
    if threads > 1 and allocates:  # of sizes that are not known before the threads begin
        return None
    reductions = [reduction_of(loop, slot) for slot in range(len(loop.results))]
    if None in reductions:
        return None
    combined = combined_buffers(loop)
    if combined is None or not (reductions or combined or threads > 1):
        return None
    if not all(buffer.type.has_static_shape and _elements(buffer) <= LARGEST_ARRAY for buffer in combined):
        return None
    smallest = max([smallest, *(ITERATIONS_PER_ELEMENT * _elements(buffer) for buffer in combined)])
    return Chunks(loop, [kind for kind in reductions if kind is not None], combined, smallest, threads)


@dataclass(frozen=True)
class Chunks:
    """A loop, and what its iterations combine."""

    loop: ir.Operation
    reductions: Sequence[Combination]
    combined: Mapping[ir.Value, Combination]
    """By buffer from outside, how the iterations combine its elements."""
    smallest: int
    threads: int

    @property
    def has_atomics(self) -> bool:
        """Return whether a device has atomic functions for all that is combined: arrays of wide integers."""
        return not self.reductions and all(
            isinstance(buffer.type.element_type, ir.IntegerType) and buffer.type.element_type.width >= 32
            for buffer in self.combined
        )

    def build(self) -> list[ir.Value]:
        """Build the chunks and the combination of their results; return the loop's results."""
        lower, upper, step, *initial = self.loop.operands
        trips = _ceildiv(arith.maxsi(arith.subi(upper, lower), index_constant(0)), step)
        size = arith.maxsi(_ceildiv(trips, index_constant(CHUNKS)), index_constant(self.smallest))
        count = _ceildiv(trips, size)
        starts = [kind.start(value) for kind, value in zip(self.reductions, initial, strict=True)]
        partials = [memref.alloca(ir.MemRefType.get([CHUNKS], value.type), [], []) for value in initial]
        copies = {buffer: _copies(buffer) for buffer in self.combined}
        for start, partial in zip(starts, partials, strict=True):
            _for(index_constant(CHUNKS), lambda i, start=start, partial=partial: memref.store(start, partial, [i]))

        def chunk(number: ir.Value) -> None:
            arrays = self._private_arrays()
            first = arith.muli(number, size)
            last = arith.minsi(arith.addi(first, size), trips)
            for result, partial in zip(self._chunk(first, last, starts, arrays), partials, strict=True):
                memref.store(result, partial, [number])
            _keep(arrays, copies, number)

        self._run(count, trips, chunk)
        self._combine_copies(copies, count)
        return [self._combined(*parts) for parts in zip(self.reductions, initial, partials, strict=True)]

    def _run(self, count: ir.Value, trips: ir.Value, chunk: Callable[[ir.Value], object]) -> None:
        """Build the chunks in parallel; where no later stage decides whether threads are profitable, this does."""
        if self.threads == 1:
            _parallel(count, chunk)
            return
        work = arith.muli(trips, index_constant(_cost(self.loop)))
        is_enough = arith.cmpi(arith.CmpIPredicate.sge, work, index_constant(PARALLEL_STEPS))
        branch = scf.IfOp(is_enough, has_else=True)
        with ir.InsertionPoint(branch.then_block):
            _parallel(count, chunk)
            scf.YieldOp([])
        with ir.InsertionPoint(branch.else_block):
            _for(count, chunk)
            scf.YieldOp([])

    def _chunk(self, first: ir.Value, last: ir.Value, starts: list, arrays: dict) -> list[ir.Value]:
        """Build the iterations of one chunk, in blocks where there may be many terms that round; return its results."""
        trips = trip_count(list(self.loop.operands)[:3])
        is_rounded = any(kind.name in ROUNDED for kind in self.reductions)
        if not is_rounded or _has_loops(self.loop) or (trips is not None and trips <= CHUNKS * BLOCK):
            return self._iterations(first, last, starts, arrays)
        blocks = scf.ForOp(first, last, index_constant(BLOCK), starts)
        with ir.InsertionPoint(blocks.body):
            start = blocks.induction_variable
            end = arith.minsi(arith.addi(start, index_constant(BLOCK)), last)
            results = self._iterations(start, end, starts, arrays)
            results[0].owner.attributes[TRIPS] = ir.IntegerAttr.get(ir.IndexType.get(), BLOCK)
            pairs = zip(self.reductions, blocks.inner_iter_args, results, strict=True)
            scf.YieldOp([kind.combine(before, result) for kind, before, result in pairs])
        return list(blocks.results)

    def _iterations(self, first: ir.Value, last: ir.Value, starts: list, arrays: dict) -> list:
        lower, _, step, *_ = self.loop.operands
        body = self.loop.regions[0].blocks[0]
        loop = scf.ForOp(first, last, index_constant(1), starts)
        for name in set(self.loop.attributes) - {DECLARED_PARALLEL}:
            loop.attributes[name] = self.loop.attributes[name]
        with ir.InsertionPoint(loop.body):
            counter = arith.addi(lower, arith.muli(loop.induction_variable, step))
            values = dict(zip(body.arguments, [counter, *loop.inner_iter_args], strict=True))
            *steps, end = [view.operation for view in body.operations]
            clone_all(steps, values)
            scf.YieldOp([values.get(value, value) for value in end.operands])
        for slot, kind in enumerate(self.reductions):
            _relax(loop.operation, slot, kind)
        for buffer, array in arrays.items():
            _redirect(loop.operation, buffer, array)
        return list(loop.results)

    def _private_arrays(self) -> dict[ir.Value, ir.Value]:
        """Allocate and start the arrays that one chunk combines into, by the arrays of the loop."""
        arrays = {buffer: _array(buffer) for buffer in self.combined}
        for buffer, array in arrays.items():
            kind = self.combined[buffer]

            def start(indices: list[ir.Value], buffer=buffer, array=array, kind=kind) -> None:
                memref.store(kind.start(memref.load(buffer, indices)), array, indices)

            _nest(buffer.type.shape, start)
        return arrays

    def _combine_copies(self, copies: dict[ir.Value, ir.Value], count: ir.Value) -> None:
        for buffer, copy in copies.items():
            kind = self.combined[buffer]

            def combine(number: ir.Value, buffer=buffer, copy=copy, kind=kind) -> None:
                def element(indices: list[ir.Value]) -> None:
                    new = memref.load(copy, [number, *indices])
                    memref.store(kind.combine(memref.load(buffer, indices), new), buffer, indices)

                _nest(buffer.type.shape, element)

            _for(count, combine)
            memref.dealloc(copy)

    def _combined(self, kind: Combination, initial: ir.Value, partial: ir.Value) -> ir.Value:
        width = CHUNKS // 2
        while width:

            def pair(i: ir.Value) -> None:
                left = arith.muli(i, index_constant(2))
                right = arith.addi(left, index_constant(1))
                both = kind.combine(memref.load(partial, [left]), memref.load(partial, [right]))
                memref.store(both, partial, [i])

            _for(index_constant(width), pair)
            width //= 2
        return kind.combine(initial, memref.load(partial, [index_constant(0)]))


def _parallel(count: ir.Value, body: Callable[[ir.Value], object]) -> None:
    loop = scf.ParallelOp([], [index_constant(0)], [count], [index_constant(1)], [])
    block = loop.regions[0].blocks.append(ir.IndexType.get())
    with ir.InsertionPoint(block):
        body(block.arguments[0])
        scf.ReduceOp([], 0)


def _cost(loop: ir.Operation) -> int:
    """Return the number of operations of one iteration, as far as trip counts are constants."""
    cost = 0
    for region in loop.regions:
        for block in region.blocks:
            for inner in (view.operation for view in block.operations):
                cost += max(1, _cost(inner)) * _typical_trips(inner)
    return cost


def _typical_trips(operation: ir.Operation) -> int:
    if operation.name != "scf.for":
        return UNKNOWN_TRIPS if operation.name == "scf.while" else 1
    trips = trip_count(list(operation.operands)[:3])
    return UNKNOWN_TRIPS if trips is None else trips


def _copies(buffer: ir.Value) -> ir.Value:
    """Allocate an array for each chunk."""
    kind = buffer.type
    return memref.alloc(ir.MemRefType.get([CHUNKS, *kind.shape], kind.element_type), [], [])


def _array(buffer: ir.Value) -> ir.Value:
    kind = ir.MemRefType.get(buffer.type.shape, buffer.type.element_type)
    allocate = memref.alloca if _elements(buffer) <= LARGEST_ON_STACK else memref.alloc
    return allocate(kind, [], [])


def _keep(arrays: dict[ir.Value, ir.Value], copies: dict[ir.Value, ir.Value], number: ir.Value) -> None:
    """Store what a chunk combined; only then, so that the elements of small arrays stay in registers."""
    for buffer, array in arrays.items():
        copy = copies[buffer]

        def store(indices: list[ir.Value], array=array, copy=copy) -> None:
            memref.store(memref.load(array, indices), copy, [number, *indices])

        _nest(buffer.type.shape, store)
        if array.owner.name == "memref.alloc":
            memref.dealloc(array)


def _redirect(loop: ir.Operation, buffer: ir.Value, array: ir.Value) -> None:
    """Let the loads and stores of a buffer inside a loop access the chunk's array."""
    for access in all_operations_in(loop):
        if access.name in ("memref.load", "memref.store"):
            for position, operand in enumerate(access.operands):
                if operand == buffer:
                    access.operands[position] = array


def _relax(loop: ir.Operation, slot: int, kind: Combination) -> None:
    """Let LLVM make vectors of a rounded sum whose only step is in the loop's own block."""
    step = defined_by(terminator(loop.regions[0].blocks[0]).operands[slot], kind.name)
    if kind.name in ROUNDED and step is not None:
        step.attributes["fastmath"] = ir.Attribute.parse(_REASSOCIATED)


def _for(count: ir.Value, body: Callable[[ir.Value], object]) -> None:
    loop = scf.ForOp(index_constant(0), count, index_constant(1))
    with ir.InsertionPoint(loop.body):
        body(loop.induction_variable)
        scf.YieldOp([])


def _nest(shape: Sequence[int], body: Callable[[list[ir.Value]], object], *indices: ir.Value) -> None:
    """Build loops over all indices of a shape; one element for rank 0."""
    if len(indices) == len(shape):
        body(list(indices))
    else:
        _for(index_constant(shape[len(indices)]), lambda index: _nest(shape, body, *indices, index))


def _elements(buffer: ir.Value) -> int:
    return prod(buffer.type.shape)


def _has_loops(loop: ir.Operation) -> bool:
    return any(inner.name in ("scf.for", "scf.while", "scf.parallel") for inner in all_operations_in(loop)[1:])


def _ceildiv(value: ir.Value, divisor: ir.Value) -> ir.Value:
    """Return the quotient of numbers that are not negative, rounded up."""
    if integer_constant(divisor) == 1:
        return value
    return arith.divsi(arith.addi(value, arith.subi(divisor, index_constant(1))), divisor)
