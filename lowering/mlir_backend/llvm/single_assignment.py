"""Give each value its own buffer, and tell whether upstream may fuse affine nests.

Upstream's `affine-loop-fusion` moves a nest next to the one that reads its result, and does not look whether the nest
that it moves reads a buffer that is overwritten in between. `one_buffer_per_value` takes bufferized structured
operations and renames buffers, so that the next value does not overwrite one that is still read. `may_be_fused` takes
affine loops, and refuses what is still overwritten. Both expect operations of static sizes.

    f(%a) into %m; g(%m) into %n; fill %m   ──►   f(%a) into %t; g(%t) into %n; fill %m
"""

from __future__ import annotations

from itertools import combinations, pairwise
from math import prod

from mlirtri.dialect.bindings.mlir import all_operations, ir, memref, operations_named, public_functions
from mlirtri.lowering.core.untranslatable import bytes_of
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, is_block_argument

STACK_BYTES = 1024
"""Buffers up to this size lie on the stack."""
SEGMENTS = "operandSegmentSizes"


def one_buffer_per_value(module: ir.Module) -> None:
    """Replace all but the last value of each buffer by a buffer of its own."""
    for function in public_functions(module):
        block = function.regions[0].blocks[0]
        allocations = [each for each in operations_named(module, *ALLOCATIONS) if each.parent == function.operation]
        local = [allocation.results[0] for allocation in allocations]
        for buffer in (*block.arguments, *local):
            if isinstance(buffer.type, ir.MemRefType):
                _rename(block, buffer)


def _rename(block: ir.Block, buffer: ir.Value) -> None:
    users = {use.owner.operation for use in buffer.uses if use.owner.name != "memref.dealloc"}
    if any(user.parent != block.owner.operation for user in users):
        return
    ordered = [view.operation for view in block.operations if view.operation in users]
    # Views, copies and linalg.transpose are no operations of inputs and outputs.
    if not all(operation.name.startswith("linalg.") and SEGMENTS in operation.attributes for operation in ordered):
        return
    starts = [number for number, operation in enumerate(ordered) if _overwrites(operation, buffer)]
    if not starts or starts[0] or len(starts) == 1:
        return
    for first, last in pairwise(starts):
        fresh = _new_buffer(block, buffer.type)
        # The operation that begins this value may read the last one, and that which begins the next may read this one.
        _replace(ordered[first], buffer, fresh, range(_inputs(ordered[first]), len(ordered[first].operands)))
        for operation in ordered[first + 1 : last]:
            _replace(operation, buffer, fresh, range(len(operation.operands)))
        _replace(ordered[last], buffer, fresh, range(_inputs(ordered[last])))


def _replace(operation: ir.Operation, buffer: ir.Value, fresh: ir.Value, positions: range) -> None:
    for position in positions:
        if operation.operands[position] == buffer:
            operation.operands[position] = fresh


def _inputs(operation: ir.Operation) -> int:
    return operation.attributes[SEGMENTS][0]


def _overwrites(operation: ir.Operation, buffer: ir.Value) -> bool:
    """Return whether an operation writes every element of `buffer` without a look at its old content as output."""
    if buffer not in list(operation.operands)[_inputs(operation) :]:
        return False
    if operation.name == "linalg.fill":
        return True
    position = list(operation.operands).index(buffer, _inputs(operation))
    if operation.name != "linalg.generic" or list(operation.regions[0].blocks[0].arguments[position].uses):
        return False
    access = operation.attributes["indexing_maps"][position].value
    return access.is_permutation


def _new_buffer(block: ir.Block, type_: ir.MemRefType) -> ir.Value:
    last = terminator(block)
    with ir.InsertionPoint.at_block_begin(block), last.location:
        if prod(type_.shape) * bytes_of(type_.element_type) <= STACK_BYTES:
            return memref.alloca(type_, [], [], alignment=64)
        fresh = memref.alloc(type_, [], [], alignment=64)
    with ir.InsertionPoint(last), last.location:
        memref.dealloc(fresh)
    return fresh


def may_be_fused(module: ir.Module) -> bool:
    """Return whether no nest of a block reads what a later one overwrites, or accumulates an argument read later.

    Nests that go element by element may be fused anyway. Upstream copies a nest whose buffer is an argument to each of
    its readers, and an accumulation that runs twice adds everything twice.
    """
    blocks = {operation.block for operation in operations_named(module, "affine.for")}
    for block in blocks:
        nests = [view.operation for view in block.operations if view.operation.name == "affine.for"]
        accesses = [_accesses(nest) for nest in nests]
        if any(_conflict(earlier, later) or _copies(earlier, later) for earlier, later in combinations(accesses, 2)):
            return False
    return True


def _copies(earlier: list[tuple[ir.Value, bool, bool]], later: list[tuple[ir.Value, bool, bool]]) -> bool:
    """Return whether the first nest accumulates an argument of the function that the second reads."""
    stored = [buffer for buffer, is_store, _ in earlier if is_store and is_block_argument(buffer)]
    kept = [buffer for buffer, is_store, _ in earlier if not is_store and buffer in stored]
    return any(buffer in kept for buffer, is_store, _ in later if not is_store)


def _accesses(nest: ir.Operation) -> list[tuple[ir.Value, bool, bool]]:
    """Return the buffers that a nest accesses, whether each is written, and whether by all counters in order."""
    accesses = []
    for operation in all_operations(nest):
        if operation.name in ("affine.load", "affine.store"):
            is_store = operation.name == "affine.store"
            buffer, *indices = list(operation.operands)[is_store:]
            accesses.append((buffer, is_store, indices == _counters(operation, nest) and _is_identity(operation)))
    return accesses


def _is_identity(operation: ir.Operation) -> bool:
    access = operation.attributes["map"].value
    return access == ir.AffineMap.get_identity(access.n_dims) and not access.n_symbols


def _counters(operation: ir.Operation, nest: ir.Operation) -> list[ir.Value]:
    counters: list[ir.Value] = []
    while operation != nest:
        operation = operation.parent.operation
        if operation.name == "affine.for":
            counters.insert(0, operation.regions[0].blocks[0].arguments[0])
    return counters


def _conflict(earlier: list[tuple[ir.Value, bool, bool]], later: list[tuple[ir.Value, bool, bool]]) -> bool:
    read = [buffer for buffer, is_store, _ in earlier if not is_store]
    overwritten = [buffer for buffer, is_store, _ in later if is_store]
    if not any(buffer in overwritten for buffer in read):
        return False
    shared = [buffer for buffer, *_ in earlier if any(buffer == other for other, *_ in later)]
    return any(buffer in shared and not is_elementwise for buffer, _, is_elementwise in (*earlier, *later))
