"""Copies that bufferization made to be safe, and that the loops themselves make superfluous.

Takes a module in loops form. Gives it in place: where a temporary array is a copy of a part of a buffer, and the one
parallel nest that reads it writes that buffer at other places in every other iteration, the nest reads the buffer
itself and the temporary is gone. Refuses nothing.

    parallel j { t[j] = A[k, j] }; parallel j { A[i, j] -= c * t[j] }   ──►   parallel j { A[i, j] -= c * A[k, j] }

Whatever `i` and `k` are, iteration `j` writes column `j` only, and no other iteration reads that.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlirtri.dialect.mlir import all_operations_in, ir, operations_named
from mlirtri.lowering.carried_buffers import is_block_argument

FREE = ("memref.alloc", "memref.alloca", "memref.dealloc", "memref.load", "memref.dim")
"""Operations besides arithmetic that may stand between the copy and its reader."""


def rewrite(module: ir.Module) -> None:
    """Remove every such copy of `module`."""
    for allocation in (*operations_named(module, "memref.alloc"), *operations_named(module, "memref.alloca")):
        if (copy := _copy_into(allocation)) is not None and _is_superfluous(copy):
            _forward(copy)


@dataclass(frozen=True)
class _Copy:
    """A temporary, the loops that fill it from a buffer, and the loops that read it."""

    allocation: ir.Operation
    writer: ir.Operation
    load: ir.Operation
    reader: ir.Operation
    reads: list[ir.Operation]
    releases: list[ir.Operation]

    @property
    def buffer(self) -> ir.Value:
        return self.load.operands[0]


def _copy_into(allocation: ir.Operation) -> _Copy | None:
    """The copy that `allocation` is for, when it is for one copy with one reader in the same block."""
    users = [use.owner.operation for use in allocation.result.uses]
    stores, reads, releases = (
        [one for one in users if one.name == f"memref.{name}"] for name in ("store", "load", "dealloc")
    )
    if len(stores) != 1 or not reads or len(stores) + len(reads) + len(releases) != len(users):
        return None
    writer, store = stores[0].parent.operation, stores[0]
    if writer.name != "scf.parallel" or not _is_loaded(store.operands[0]) or len(all_operations_in(writer)) > 12:
        return None
    load, block = store.operands[0].owner.operation, writer.regions[0].blocks[0]
    if load.block != block or list(store.operands)[2:] != list(block.arguments) or not _only_copies(block, store):
        return None
    readers = {_ancestor(read, writer.block) for read in reads}
    reader = readers.pop()
    if readers or reader is None or reader.name != "scf.parallel" or not writer.is_before_in_block(reader):
        return None
    return _Copy(allocation, writer, load, reader, reads, releases)


def _is_loaded(value: ir.Value) -> bool:
    return not is_block_argument(value) and value.owner.name == "memref.load"


def _only_copies(block: ir.Block, store: ir.Operation) -> bool:
    names = [one.operation.name for one in block.operations if one.operation != store]
    return all(name.startswith("arith.") or name in ("memref.load", "scf.reduce") for name in names)


def _ancestor(operation: ir.Operation, block: ir.Block) -> ir.Operation | None:
    """The operation in `block` that `operation` is or lies in."""
    while operation.block != block:
        if operation.parent is None or operation.parent.operation.name == "func.func":
            return None
        operation = operation.parent.operation
    return operation


def _is_superfluous(copy: _Copy) -> bool:
    block = copy.reader.regions[0].blocks[0]
    indices = list(block.arguments)
    if any(read.block != block or list(read.operands)[1:] != indices for read in copy.reads):
        return False
    if not (is_block_argument(copy.buffer) or copy.buffer.owner.name in ("memref.alloc", "memref.alloca")):
        return False
    if not all(_keeps(one, copy.buffer) for one in _between(copy.writer, copy.reader)):
        return False
    places = [_offset_of(index, list(copy.writer.regions[0].blocks[0].arguments)) for index in copy.load.operands[1:]]
    return all(
        _stays_apart(store, places, indices) and all(read.is_before_in_block(store) for read in copy.reads)
        for store in all_operations_in(copy.reader)
        if store.name == "memref.store" and store.operands[1] == copy.buffer and store.block == block
    ) and not any(
        store.name == "memref.store" and store.operands[1] == copy.buffer and store.block != block
        for store in all_operations_in(copy.reader)
    )


def _between(first: ir.Operation, last: ir.Operation) -> list[ir.Operation]:
    return [
        one.operation
        for one in first.block.operations
        if first.is_before_in_block(one.operation) and one.operation.is_before_in_block(last)
    ]


def _keeps(operation: ir.Operation, buffer: ir.Value) -> bool:
    """Whether `operation` leaves `buffer` as it is."""
    if operation.name.startswith(("arith.", "math.", "complex.")) or operation.name in FREE:
        return True
    if operation.name != "scf.parallel":
        return False
    return all(one.name != "memref.store" or one.operands[1] != buffer for one in all_operations_in(operation))


def _stays_apart(store: ir.Operation, places: list[tuple | None], indices: list[ir.Value]) -> bool:
    """Whether each loop moves the store and the load by the same along some axis, so that iterations do not meet."""
    written = [_offset_of(index, indices) for index in list(store.operands)[2:]]
    pairs = [(one, other) for one, other in zip(written, places, strict=True) if one and other]
    moving = {one[0] for one, other in pairs if one[0] == other[0] and one[1:] == other[1:]}
    return len(moving) == len(indices)


def _offset_of(index: ir.Value, indices: list[ir.Value]) -> tuple[int] | tuple[int, ir.Value] | None:
    """`index` as the number of a loop and what is added to it, if it is that; the number alone is that loop itself."""
    if index in indices:
        return (indices.index(index),)
    if is_block_argument(index) or index.owner.name != "arith.addi":
        return None
    for one, other in (list(index.owner.operands), list(index.owner.operands)[::-1]):
        if one in indices and (is_block_argument(other) or other.owner.operation.parent.name != "scf.parallel"):
            return indices.index(one), other
    return None


def _forward(copy: _Copy) -> None:
    source = copy.writer.regions[0].blocks[0]
    for read in copy.reads:
        known = dict(zip(source.arguments, copy.reader.regions[0].blocks[0].arguments, strict=True))
        with ir.InsertionPoint(read), read.location:
            for step in source.operations:
                if step.operation.name in ("memref.store", "scf.reduce"):
                    continue
                clone = step.operation.clone().operation
                for at, operand in enumerate(clone.operands):
                    clone.operands[at] = known.get(operand, operand)
                known.update(zip(step.operation.results, clone.results, strict=True))
        read.results[0].replace_all_uses_with(known[copy.load.results[0]])
        read.erase()
    for one in (copy.writer, *copy.releases, copy.allocation):
        one.erase()
