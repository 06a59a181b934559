"""Hoist temporary buffers that every iteration of a sequential loop needs out of the loop.

Takes a module in loops form. Gives it in place: an allocation whose sizes are known before a loop or branch moves out
of it, with its deallocation; not out of `scf.parallel`, where each iteration needs its own buffer.

    for { %t = alloc; …; dealloc %t }   ──►   %t = alloc; for { … }; dealloc %t
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, operations_named

LEFT = ("scf.for", "scf.while", "scf.if")
"""Operations that buffers are hoisted out of."""


def rewrite(module: ir.Module) -> None:
    """Hoist every buffer as far as possible."""
    for allocation in (*operations_named(module, "memref.alloc"), *operations_named(module, "memref.alloca")):
        releases = [use.owner.operation for use in allocation.result.uses if use.owner.name == "memref.dealloc"]
        while _can_leave(allocation, releases):
            around = allocation.parent.operation
            allocation.move_before(around)
            for release in releases:
                release.move_after(around)


def _can_leave(allocation: ir.Operation, releases: list[ir.Operation]) -> bool:
    around = allocation.parent.operation
    if around.name not in LEFT or any(release.block != allocation.block for release in releases):
        return False
    if _is_yielded(allocation, around) or (allocation.name == "memref.alloc" and not releases):
        return False
    return all(_is_outside(size, around) for size in allocation.operands)


def _is_yielded(allocation: ir.Operation, around: ir.Operation) -> bool:
    """Return whether another iteration, or the code after the branch, sees the buffer."""
    terminators = ("scf.yield", "scf.condition")
    return any(use.owner.name in terminators and use.owner.parent == around for use in allocation.result.uses)


def _is_outside(value: ir.Value, around: ir.Operation) -> bool:
    operation = value.owner.owner if isinstance(value.owner, ir.Block) else value.owner.operation
    while operation is not None and operation.operation.name != "builtin.module":
        if operation.operation == around:
            return False
        operation = operation.operation.parent
    return True
