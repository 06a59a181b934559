"""Arrays that only the iterations of a declared parallel loop use: each iteration allocates its own.

Bufferization allocates them once, before the loop. What is declared parallel has passed the dependence check: no
iteration reads what another one left there.

    %t = memref.alloca; scf.for { … %t … } {mlirtri.parallel}   ──►   scf.for { %t = memref.alloca; … %t … }
"""

from __future__ import annotations

from math import prod

from mlirtri.dialect.bindings.mlir import ir, memref, operations_named
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.attributes import DECLARED_PARALLEL
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS

LARGEST_ARRAY = 4096
"""Elements of an array that each iteration may allocate."""


def rewrite(module: ir.Module) -> None:
    """Move such allocations into their loops."""
    for allocation in operations_named(module, *ALLOCATIONS):
        kind = allocation.results[0].type
        if not kind.has_static_shape or prod(kind.shape) > LARGEST_ARRAY:
            continue
        users = [use.owner.operation for use in allocation.results[0].uses]
        releases = [user for user in users if user.name == "memref.dealloc"]
        loop = _common_loop([user for user in users if user not in releases])
        if loop is not None and not _is_around(loop, allocation):
            _move(allocation, loop, releases)


def _common_loop(users: list[ir.Operation]) -> ir.Operation | None:
    """Return the outermost declared parallel loop that all users are in; None if there is none."""
    if not users:
        return None
    loops = [loop for loop in _around(users[0]) if loop.name == "scf.for" and DECLARED_PARALLEL in loop.attributes]
    return next((loop for loop in reversed(loops) if all(_is_around(loop, user) for user in users)), None)


def _around(operation: ir.Operation) -> list[ir.Operation]:
    """Return the operations around one, innermost first."""
    result = []
    while operation.name != "func.func":
        operation = operation.parent.operation
        result.append(operation)
    return result


def _is_around(loop: ir.Operation, operation: ir.Operation) -> bool:
    return any(loop == around for around in _around(operation))


def _move(allocation: ir.Operation, loop: ir.Operation, releases: list[ir.Operation]) -> None:
    block = loop.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        copy = allocation.clone().operation
    allocation.results[0].replace_all_uses_with(copy.results[0])
    for release in releases:
        release.erase()
    if releases:
        with ir.InsertionPoint(terminator(block)), allocation.location:
            memref.dealloc(copy.results[0])
    allocation.erase()
