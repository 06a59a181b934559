"""Clone and replace operations, and find the values that an operation needs and the operations that lead to a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mlirtri.dialect.bindings.mlir import all_operations_in, ir, linalg_copy, operations_named


def clone(operation: ir.Operation, values: Mapping[ir.Value, ir.Value]) -> ir.Operation:
    """Clone an operation at the insertion point; operands in `values`, also inside its regions, are replaced."""
    copy = operation.clone().operation
    for inner in all_operations_in(copy):
        for position, value in enumerate(inner.operands):
            if value in values:
                inner.operands[position] = values[value]
    return copy


def clone_all(operations: Iterable[ir.Operation], values: dict[ir.Value, ir.Value]) -> None:
    """Clone `operations` in order, and add their results to `values`."""
    for operation in operations:
        values.update(zip(operation.results, clone(operation, values).results, strict=True))


def inlined(
    block: ir.Block, arguments: Sequence[ir.Value], captured: Mapping[ir.Value, ir.Value] = {}
) -> list[ir.Value]:
    """Clone a block's operations with values for its arguments; return the operands of its terminator."""
    *steps, last = [view.operation for view in block.operations]
    values = {**captured, **dict(zip(block.arguments, arguments, strict=True))}
    clone_all(steps, values)
    return [values.get(value, value) for value in last.operands]


def replace(operation: ir.Operation, values: Iterable[ir.Value]) -> None:
    """Replace the uses of the results by `values`, one per result, and erase the operation."""
    for result, value in zip(operation.results, values, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()


def copies_to_linalg(
    module: ir.Module, chosen: Callable[[ir.Type, ir.Type], bool] = lambda source, target: True
) -> None:
    """Replace each `memref.copy` between chosen types by `linalg.copy`, which becomes a loop nest."""
    for copy in operations_named(module, "memref.copy"):
        source, target = copy.operands
        if chosen(source.type, target.type):
            with ir.InsertionPoint(copy), copy.location:
                linalg_copy(source, target)
            copy.erase()


def replace_operand(operation: ir.Operation, old: ir.Value, new: ir.Value) -> None:
    """Let an operation read `new` wherever it reads `old`."""
    for position, operand in enumerate(operation.operands):
        if operand == old:
            operation.operands[position] = new


def copy_for(operation: ir.Operation, reader: ir.Operation) -> None:
    """Let `reader` read the result of a copy of `operation`, which stands just before it."""
    with ir.InsertionPoint(reader):
        copy = operation.clone().operation
    replace_operand(reader, operation.results[0], copy.results[0])


def needed_by(operation: ir.Operation) -> list[ir.Value]:
    """Return the operands of an operation and of those inside it."""
    return [value for inner in all_operations_in(operation) for value in inner.operands]


def leading_to(block: ir.Block, values: Iterable[ir.Value]) -> list[ir.Operation]:
    """Return the backward slice of `values` within `block`, in order."""
    needed, slice_ = set(values), []
    for operation in reversed([view.operation for view in block.operations]):
        if any(result in needed for result in operation.results):
            slice_.append(operation)
            needed.update(needed_by(operation))
    return slice_[::-1]
