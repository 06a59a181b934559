"""Which results read an array that is written again before the only operation that uses them runs.

Takes a module on tensors. Fusing such a producer into its consumer would read the array's old content after the write,
so that bufferization had to copy the array first.

    %t = generic(%A); %A1 = tensor.insert_slice %u into %A; %q = generic(%t, %A1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlirtri.dialect.bindings.mlir import all_operations, ir
from mlirtri.lowering.mlir.imperative import updates_of

VIEWS = ("tensor.extract_slice", "tensor.collapse_shape", "tensor.expand_shape", "tensor.cast")
WRITTEN = {"tensor.insert_slice": 1, "tensor.insert": 1}
"""Operations with the position of the operand that they write into."""


class Overwrites:
    """The order of a module's operations. `kept` are the results that do not fuse; it grows while this is asked."""

    def __init__(self, module: ir.Module, kept: Sequence[ir.Value]):
        operations = all_operations(module)
        self.order = {operation: at for at, operation in enumerate(operations)}
        self.kept = kept
        self.replaced = dict(pair for operation in operations for pair in self._replaced_by(operation))
        """Where arrays that loops carry, or that the function updates, get a content made anew."""

    def read_too_late(self, consumer: ir.Operation) -> Iterator[ir.Value]:
        """The producers of `consumer` which read what is written before it runs."""
        for value in consumer.operands:
            producer = _owner(value)
            if not _is_generic(producer) or not _has_one_use(value):
                continue
            if any(self._is_written_between(array, producer, consumer) for array in self._read(producer)):
                yield value

    def _read(self, producer: ir.Operation) -> Iterator[ir.Value]:
        """The arrays that a generic reads, also through producers that will fuse into it."""
        read = list(producer.operands)[: len(producer.operands) - len(producer.results)]
        read += [
            inner.operation.operands[0]
            for inner in producer.regions[0].blocks[0].operations
            if inner.operation.name == "tensor.extract"
        ]
        for value in read:
            fuses = _is_generic(before := _owner(value)) and _has_one_use(value) and value not in self.kept
            if fuses:
                yield from self._read(before)
            else:
                yield _array_of(value)

    def _is_written_between(self, array: ir.Value, producer: ir.Operation, consumer: ir.Operation) -> bool:
        first, last = self.order[producer], self.order[consumer]
        writes = [self.order[use.owner.operation] for use in array.uses if _writes(use)]
        return any(first < write < last for write in (*writes, self.replaced.get(array, first)))

    def _replaced_by(self, operation: ir.Operation) -> Iterator[tuple[ir.Value, int]]:
        for array, content in _contents(operation):
            maker = _owner(_first_content(content))
            if maker is not None:
                yield array, self.order[maker]


def _contents(operation: ir.Operation) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The arrays that an operation's region starts with, and their contents when it ends."""
    if operation.name == "func.func" and operation.regions[0].blocks:
        block, updates = operation.regions[0].blocks[0], updates_of(operation.opview)
        returned = _terminator(block).operands
        yield from ((block.arguments[at], returned[result]) for at, result in updates.items())
    elif operation.name == "scf.for":
        block = operation.regions[0].blocks[0]
        yield from zip(list(block.arguments)[1:], _terminator(block).operands, strict=True)
    elif operation.name == "scf.while":
        block = operation.regions[1].blocks[0]
        yield from zip(block.arguments, _terminator(block).operands, strict=False)


def _terminator(block: ir.Block) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation


def _first_content(value: ir.Value) -> ir.Value:
    """What was in an array before parts of it were written."""
    while (operation := _owner(value)) is not None:
        if operation.name in WRITTEN:
            value = operation.operands[WRITTEN[operation.name]]
        elif operation.name == "scf.for":
            value = operation.operands[3 + value.result_number]
        else:
            break
    return value


def _owner(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _is_generic(operation: ir.Operation | None) -> bool:
    return operation is not None and operation.name == "linalg.generic"


def _has_one_use(value: ir.Value) -> bool:
    return sum(1 for _ in value.uses) == 1


def _array_of(value: ir.Value) -> ir.Value:
    """The whole that a view is a part of."""
    while (operation := _owner(value)) is not None and operation.name in VIEWS:
        value = operation.operands[0]
    return value


def _writes(use: ir.OpOperand) -> bool:
    """Whether what is used may be written in place: as a destination, or carried by a loop."""
    operation = use.owner.operation
    if operation.name.startswith("linalg."):
        return use.operand_number >= len(operation.operands) - len(operation.results)
    if operation.name in ("scf.for", "scf.while"):
        return True
    return WRITTEN.get(operation.name) == use.operand_number
