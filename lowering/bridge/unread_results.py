"""Drop unused results of `linalg.generic` operations, with the body operations that only they need.

torch-mlir's maxima always come with their indices; a maximum alone fuses with its neighbours.

    %m:2 = linalg.generic … (max, argmax); use %m#0   ──►   %m = linalg.generic … (max)
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import ir, linalg, operations_named
from mlirtri.lowering.mlir_common.linalg_builder import empty_generic, iterators_of


def rewrite(module: ir.Module) -> None:
    """Rewrite all operations of `module` that have both used and unused results."""
    # In reverse, since an operation that becomes dead may be the only user of others.
    for operation in reversed(operations_named(module, "linalg.generic")):
        if len(operation.results) > 1:
            kept = _needed(operation)
            if 0 < len(kept) < len(operation.results):
                _without_others(operation, kept)


def _needed(operation: ir.Operation) -> list[int]:
    """Return which results are used outside, or by the body for a used one."""
    block = operation.regions[0].blocks[0]
    *_, end = block.operations
    first = len(block.arguments) - len(operation.results)
    kept: set[int] = set()
    needed = {number for number, result in enumerate(operation.results) if _is_read(result)}
    while needed - kept:
        kept |= needed
        read = _arguments_of([end.operands[number] for number in kept])
        needed = {number - first for number in read if number >= first}
    return sorted(kept)


def _is_read(value: ir.Value) -> bool:
    return any(True for _ in value.uses)


def _arguments_of(values: Sequence[ir.Value]) -> set[int]:
    waiting, visited, arguments = list(values), [], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value.owner, ir.Block):
            arguments.add(ir.BlockArgument(value).arg_number)
        elif value.owner.operation not in visited:
            visited.append(value.owner.operation)
            waiting += value.owner.operands
    return arguments


def _without_others(operation: ir.Operation, kept: Sequence[int]) -> None:
    """Replace an operation by one with only the results `kept`."""
    block = operation.regions[0].blocks[0]
    count = len(block.arguments) - len(operation.results)
    numbers = [*range(count), *(count + number for number in kept)]
    operands, maps = list(operation.operands), linalg.get_indexing_maps(operation)
    kinds = iterators_of(operation)
    with ir.InsertionPoint(operation), operation.location:
        few = [maps[number].value for number in numbers]
        replacement = empty_generic(operands[:count], [operands[count + number] for number in kept], few, kinds)
    arguments = [block.arguments[number] for number in numbers]
    body = replacement.regions[0].blocks.append(
        *[argument.type for argument in arguments], arg_locs=[argument.location for argument in arguments]
    )
    for old, new in zip(arguments, body.arguments, strict=True):
        old.replace_all_uses_with(new)
    *steps, end = [view.operation for view in block.operations]
    for step in steps:
        body.append(step)
    with ir.InsertionPoint(body), end.location:
        linalg.YieldOp([end.operands[number] for number in kept])
    end.erase()
    for step in reversed(steps):
        if step.results and not any(_is_read(result) for result in step.results):
            step.erase()
    for number, result in zip(kept, replacement.results, strict=True):
        operation.results[number].replace_all_uses_with(result)
    operation.erase()
