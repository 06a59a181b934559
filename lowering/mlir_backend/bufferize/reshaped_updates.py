"""Updates of an array in another shape, in place: upstream copies the array, updates the copy, and copies it back.

    %flat = collapse_shape %y                       %flat = collapse_shape %y
    %copy = alloc; copy %flat to %copy       ──►    write into subviews of %flat
    write into subviews of %copy
    %back = expand_shape %copy; copy %back to %y

A reshape of a row-major buffer is the same memory; where nothing else touches the array in between, so is the copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import all_operations_in, ir, operations_named
from mlirtri.lowering.mlir_common.aliasing import between
from mlirtri.lowering.mlir_common.cloning import needed_by, replace
from mlirtri.lowering.mlir_common.reading import buffer_behind, definition

RESHAPES = ("memref.collapse_shape", "memref.expand_shape")


def rewrite(module: ir.Module) -> None:
    """Write in place what is copied to another shape, updated there, and copied back; before buffers are freed."""
    for allocation in operations_named(module, "memref.alloc"):
        copies = _copies(allocation.operation)
        if copies is None:
            continue
        first, last = copies
        reshaped = first.operands[0]
        first.erase()
        last.erase()
        replace(allocation, [reshaped])


def _copies(allocation: ir.Operation) -> tuple[ir.Operation, ir.Operation] | None:
    """Return the copies of an array in another shape into an allocation, and back; None where they are needed."""
    memory = allocation.results[0]
    uses = [use.owner.operation for use in memory.uses]
    first = next((use for use in uses if use.name == "memref.copy" and use.operands[1] == memory), None)
    reshape = None if first is None else definition(first.operands[0])
    if first is None or reshape is None or reshape.name not in RESHAPES or first.block != allocation.block:
        return None
    array = reshape.operands[0]
    last = _copy_back(uses, array)
    if last is None or last.block != first.block or not first.is_before_in_block(last):
        return None
    updates = between(first, last)
    inside = {inner for operation in updates for inner in all_operations_in(operation)}
    # Nothing else may see the allocation, or the array, before it is copied back.
    if any(use not in inside for use in uses if use != first):
        return None
    root, used = buffer_behind(array), [value for operation in updates for value in needed_by(operation)]
    is_touched = any(isinstance(value.type, ir.MemRefType) and buffer_behind(value) == root for value in used)
    return None if is_touched else (first, last)


def _copy_back(uses: Sequence[ir.Operation], array: ir.Value) -> ir.Operation | None:
    """Return the copy of a reshape of an allocation to the array."""
    for use in uses:
        if use.name in RESHAPES:
            for copy in (other.owner.operation for other in use.results[0].uses):
                if copy.name == "memref.copy" and copy.operands[1] == array:
                    return copy
    return None
