"""Copies of single operations: which values an operation needs, which operations lead to a value, and clones of them.

Takes operations of MLIR. Gives copies at the insertion point, with values exchanged, also inside of regions; `replace`
puts values in the place of an operation.
Refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mlirtri.dialect.bindings.mlir import all_operations_in, ir


def clone(operation: ir.Operation, known: Mapping[ir.Value, ir.Value]) -> ir.Operation:
    """A copy at the insertion point, here and in its regions with `known` values in place of others."""
    copy = operation.clone().operation
    for inner in all_operations_in(copy):
        for at, value in enumerate(inner.operands):
            if value in known:
                inner.operands[at] = known[value]
    return copy


def clone_all(operations: Iterable[ir.Operation], known: dict[ir.Value, ir.Value]) -> None:
    """Copies of `operations` in order; their results join what is `known`."""
    for operation in operations:
        known.update(zip(operation.results, clone(operation, known).results, strict=True))


def inlined(block: ir.Block, arguments: Sequence[ir.Value], known: Mapping[ir.Value, ir.Value] = {}) -> list[ir.Value]:
    """A copy of a block's operations with values for its arguments; gives what its terminator hands on."""
    *steps, last = [each.operation for each in block.operations]
    values = {**known, **dict(zip(block.arguments, arguments, strict=True))}
    clone_all(steps, values)
    return [values.get(value, value) for value in last.operands]


def replace(operation: ir.Operation, values: Iterable[ir.Value]) -> None:
    """Put `values`, one per result, where the results are used, and erase the operation."""
    for result, value in zip(operation.results, values, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()


def needed_by(operation: ir.Operation) -> list[ir.Value]:
    """The values that an operation and what is inside of it use, those that are made inside among them."""
    return [value for inner in all_operations_in(operation) for value in inner.operands]


def leading_to(block: ir.Block, values: Iterable[ir.Value]) -> list[ir.Operation]:
    """The operations of `block` that `values` come from, in order."""
    wanted, found = set(values), []
    for operation in reversed([each.operation for each in block.operations]):
        if any(result in wanted for result in operation.results):
            found.append(operation)
            wanted.update(needed_by(operation))
    return found[::-1]
