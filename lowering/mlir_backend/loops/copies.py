"""Remove copies that bufferization made to be safe, and that the loops make superfluous.

Where a temporary array is a copy of a part of a buffer, and the one parallel nest that reads it writes other elements
of that buffer in all other iterations, the nest reads the buffer itself. Likewise where a parallel nest writes a
temporary that is then copied to a buffer. Whatever `i` and `k` are, iteration `j` accesses column `j` only:

    parallel j { t[j] = A[k, j] }; parallel j { A[i, j] -= c * t[j] }   ──►   parallel j { A[i, j] -= c * A[k, j] }
    parallel j { t[j] = A[k, j] + A[l, j] }; parallel j { A[i, j] = t[j] }   ──►   parallel j { A[i, j] = … }
"""

from __future__ import annotations

from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import all_operations_in, ir, memref, operations_named
from mlirtri.lowering.mlir_backend.loops.loop_memory import is_whole
from mlirtri.lowering.mlir_common.aliasing import ancestor_in, between
from mlirtri.lowering.mlir_common.cloning import clone_all, needed_by, replace
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, is_block_argument

FREE = (*ALLOCATIONS, "memref.dealloc", "memref.load", "memref.dim")
"""Operations besides arithmetic that may stand between the copy and its reader."""
Offset = "tuple[int] | tuple[int, ir.Value]"
"""An index that is a loop counter, by loop number, or its sum with a value."""


def rewrite(module: ir.Module) -> None:
    """Remove every such copy of `module`."""
    for allocation in operations_named(module, *ALLOCATIONS):
        temporary = _temporary(allocation)
        if temporary is None:
            continue
        if _is_copied_in(temporary):
            _read_the_source(temporary)
        elif _is_copied_out(temporary):
            _write_the_target(temporary)


@dataclass(frozen=True)
class _Temporary:
    """A buffer that one parallel nest writes, element by element, and a later one reads."""

    allocation: ir.Operation
    store: ir.Operation
    reads: list[ir.Operation]
    reader: ir.Operation
    releases: list[ir.Operation]

    @property
    def writer(self) -> ir.Operation:
        return self.store.parent.operation

    def erase(self, nest: ir.Operation) -> None:
        """Remove the buffer and the nest that copies."""
        for operation in (nest, *self.releases):
            operation.erase()
        for use in list(self.allocation.result.uses):
            use.owner.operation.erase()
        self.allocation.erase()


def _temporary(allocation: ir.Operation) -> _Temporary | None:
    users = [use.owner.operation for use in allocation.result.uses]
    stores, reads, releases = (
        [user for user in users if user.name == f"memref.{name}"] for name in ("store", "load", "dealloc")
    )
    if len(stores) != 1 or not reads or len(stores) + len(reads) + len(releases) != len(users):
        return None
    store, writer = stores[0], stores[0].parent.operation
    if writer.name != "scf.parallel" or list(store.operands)[2:] != _indices(writer):
        return None
    readers = [ancestor_in(read, writer.block) for read in reads]
    # Each is looked at before any two are compared: the bindings do not compare an operation with None.
    loops = [reader for reader in readers if reader is not None and reader.name == "scf.parallel"]
    if len(loops) != len(readers) or any(other != loops[0] for other in loops):
        return None
    reader = loops[0]
    block = reader.regions[0].blocks[0]
    if not writer.is_before_in_block(reader):
        return None
    if any(read.block != block or list(read.operands)[1:] != _indices(reader) for read in reads):
        return None
    return _Temporary(allocation, store, reads, reader, releases)


def _indices(nest: ir.Operation) -> list[ir.Value]:
    return list(nest.regions[0].blocks[0].arguments)


def _is_copied_in(temporary: _Temporary) -> bool:
    """Return whether the writer only copies from a buffer, which the reader can read itself."""
    load = _loaded_by_copy(temporary.store)
    if load is None or not is_whole(buffer := load.operands[0]):
        return False
    if not all(_keeps(operation, buffer) for operation in between(temporary.writer, temporary.reader)):
        return False
    source, loops = _offsets(load, temporary.writer), len(_indices(temporary.writer))
    block = temporary.reader.regions[0].blocks[0]
    return all(
        store.block == block
        and _is_disjoint(_offsets(store, temporary.reader), source, loops)
        and all(read.is_before_in_block(store) for read in temporary.reads)
        for store in _accesses("memref.store", temporary.reader, buffer)
    )


def _is_copied_out(temporary: _Temporary) -> bool:
    """Return whether the reader only copies to a buffer, which the writer can write itself."""
    stores = [operation for operation in all_operations_in(temporary.reader) if operation.name == "memref.store"]
    if len(stores) != 1 or _loaded_by_copy(stores[0]) is None:
        return False
    if list(temporary.writer.operands) != list(temporary.reader.operands):  # the loops' bounds
        return False
    buffer, inner = stores[0].operands[1], between(temporary.writer, temporary.reader)
    if not is_whole(buffer) or any(_is_result_of(buffer, operation) for operation in inner):
        return False
    if not all(_keeps(operation, buffer) and not _accesses("memref.load", operation, buffer) for operation in inner):
        return False
    if any(_is_result_of(value, operation) for value in needed_by(temporary.reader) for operation in inner):
        return False
    target, loops = _offsets(stores[0], temporary.reader), len(_indices(temporary.reader))
    loads, block = _accesses("memref.load", temporary.writer, buffer), temporary.store.block
    return not _accesses("memref.store", temporary.writer, buffer) and all(
        _is_disjoint(_offsets(load, temporary.writer), target, loops)
        and ancestor_in(load, block).is_before_in_block(temporary.store)
        for load in loads
    )


def _loaded_by_copy(store: ir.Operation) -> ir.Operation | None:
    """Return the load whose value `store` stores, where the nest does nothing else."""
    value, block = store.operands[0], store.block
    if is_block_argument(value) or value.owner.name != "memref.load" or value.owner.operation.block != block:
        return None
    others = [view.operation for view in block.operations if view.operation not in (store, value.owner.operation)]
    return value.owner.operation if all(view.name.startswith(("arith.", "scf.reduce")) for view in others) else None


def _accesses(name: str, nest: ir.Operation, buffer: ir.Value) -> list[ir.Operation]:
    position = 1 if name == "memref.store" else 0
    return [access for access in all_operations_in(nest) if access.name == name and access.operands[position] == buffer]


def _is_result_of(value: ir.Value, operation: ir.Operation) -> bool:
    return not is_block_argument(value) and value.owner.operation == operation


def _keeps(operation: ir.Operation, buffer: ir.Value) -> bool:
    if operation.name.startswith(("arith.", "math.", "complex.")) or operation.name in FREE:
        return True
    return operation.name == "scf.parallel" and not _accesses("memref.store", operation, buffer)


def _is_disjoint(access: list[Offset | None], other: list[Offset | None], loops: int) -> bool:
    """Return whether each loop has the same index in both accesses on some axis: iterations are disjoint."""
    pairs = [(first, second) for first, second in zip(access, other, strict=True) if first and second]
    moving = {first[0] for first, second in pairs if first[0] == second[0] and first[1:] == second[1:]}
    return len(moving) == loops


def _offsets(access: ir.Operation, nest: ir.Operation) -> list[Offset | None]:
    first = 2 if access.name == "memref.store" else 1
    return [_offset(index, nest) for index in list(access.operands)[first:]]


def _offset(index: ir.Value, nest: ir.Operation) -> Offset | None:
    loops = _indices(nest)
    if index in loops:
        return (loops.index(index),)
    if is_block_argument(index) or index.owner.name != "arith.addi":
        return None
    for counter, other in (list(index.owner.operands), list(index.owner.operands)[::-1]):
        if counter in loops and (is_block_argument(other) or other.owner.operation.block != nest.regions[0].blocks[0]):
            return loops.index(counter), other
    return None


def _read_the_source(temporary: _Temporary) -> None:
    writer = temporary.writer
    for read in temporary.reads:
        values = _clone_before(read, writer, temporary.reader, ("memref.store", "scf.reduce"))
        replace(read, [values[temporary.store.operands[0]]])
    temporary.erase(writer)


def _write_the_target(temporary: _Temporary) -> None:
    store, reader = temporary.store, temporary.reader
    [copying] = [index for index in all_operations_in(reader) if index.name == "memref.store"]
    values = _clone_before(store, reader, temporary.writer, ("memref.load", "memref.store", "scf.reduce"))
    with ir.InsertionPoint(store), copying.location:
        memref.store(
            store.operands[0], copying.operands[1], [values.get(index, index) for index in list(copying.operands)[2:]]
        )
    store.erase()
    temporary.erase(reader)


def _clone_before(
    operation: ir.Operation, source: ir.Operation, target: ir.Operation, left_out: tuple[str, ...]
) -> dict[ir.Value, ir.Value]:
    """Clone the body of nest `source` before an operation of nest `target`; return the value mapping."""
    values = dict(zip(_indices(source), _indices(target), strict=True))
    with ir.InsertionPoint(operation):
        steps = [view.operation for view in source.regions[0].blocks[0].operations]
        clone_all((step for step in steps if step.name not in left_out), values)
    return values
