"""Compute reductions, products, transposes and functions of unchanging tensors once, before the loop around them.

Upstream's `loop-invariant-code-motion` also moves initial values, which bufferization then copies in each iteration,
and elements read by index, which a loop without iterations must not read. So only operations whose cost is worth a
buffer move: of static shape, on whole tensors, with a result no larger than what is read.

    scf.for { %t = transpose %w;  %y = %x @ %t; … }    ──►    %t = transpose %w;  scf.for { %y = %x @ %t; … }
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from mlirtri.dialect.bindings.mlir import ir, linalg, operations_named
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of

LOOPS = {"scf.for": 0, "scf.while": 1}
"""Loops, and the region that holds the body of each."""
CARRIERS = ("tensor.empty", "linalg.fill", "arith.constant")
"""Operations that are copied out of the loop with what reads them."""
STARTS = ("linalg.fill", "tensor.empty")
EXPENSIVE = ("math.", "arith.divf", "arith.divsi", "arith.divui", "arith.remf", "arith.remsi", "arith.remui")
BY_INDEX = ("tensor.extract", "linalg.index")
"""Operations of bodies that read elements by a computed position."""


def has_loops(module: ir.Module) -> bool:
    return any(operations_named(module, name) for name in LOOPS)


def rewrite(module: ir.Module) -> None:
    """Move reductions, products, transposes and functions of unchanging tensors out of loops, inner loops first."""
    for loop in reversed(operations_named(module, "scf.*")):
        if loop.name in LOOPS:
            body = loop.regions[LOOPS[loop.name]].blocks[0]
            for operation in list(body.operations):
                _hoist(operation.operation, body, loop)


def _hoist(operation: ir.Operation, body: ir.Block, loop: ir.Operation) -> None:
    if not operation.name.startswith("linalg.") or operation.name in STARTS or len(operation.results) != 1:
        return
    if not _is_worth_a_buffer(operation) or not all(_is_outside(value, body) for value in _captured(operation)):
        return
    if not all(_is_outside(operand, body) or _is_carrier(operand, body) for operand in operation.operands):
        return
    for position, operand in enumerate(operation.operands):
        if not _is_outside(operand, body):
            operation.operands[position] = _copied(operand, body, loop)
    operation.move_before(loop)


def _is_outside(value: ir.Value, body: ir.Block) -> bool:
    """Return whether a value is defined outside of the loop. The body sees no other values inside of it."""
    owner = value.owner
    return owner != body if isinstance(owner, ir.Block) else owner.operation.block != body


def _is_carrier(value: ir.Value, body: ir.Block) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name not in CARRIERS:
        return False
    return all(_is_outside(operand, body) or _is_carrier(operand, body) for operand in owner.operation.operands)


def _copied(value: ir.Value, body: ir.Block, loop: ir.Operation) -> ir.Value:
    """Return the value of a copy of a carrier before the loop."""
    with ir.InsertionPoint(loop):
        copy = value.owner.operation.clone().operation
    for position, operand in enumerate(copy.operands):
        if not _is_outside(operand, body):
            copied = _copied(operand, body, loop)
            copied.owner.operation.move_before(copy)
            copy.operands[position] = copied
    return copy.results[0]


def _captured(operation: ir.Operation) -> Iterator[ir.Value]:
    """Yield the values that an operation's body reads and does not define; regions inside of the body are not read."""
    for inner in _inner(operation):
        own = [result for other in _inner(operation) for result in other.results]
        arguments = operation.regions[0].blocks[0].arguments
        yield from (x for x in inner.operands if x not in own and all(x != argument for argument in arguments))


def _inner(operation: ir.Operation) -> list[ir.Operation]:
    return [inner.operation for region in operation.regions for block in region.blocks for inner in block.operations]


def _is_worth_a_buffer(operation: ir.Operation) -> bool:
    """Return whether reading an operation's result from a buffer is faster than computing it again in its reader."""
    inner = _inner(operation)
    kinds = [value.type for value in (*operation.operands, *operation.results)]
    tensors = [kind for kind in kinds if isinstance(kind, ir.RankedTensorType)]
    if any(not kind.has_static_shape for kind in tensors) or any(other.name in BY_INDEX for other in inner):
        return False
    if any(len(other.regions) for other in inner):
        return False
    *read, _, result = tensors
    if not read or prod(result.shape) > sum(prod(kind.shape) for kind in read):
        return False
    maps = linalg.get_indexing_maps(operation)
    if operation.name != "linalg.generic" or maps is None or "reduction" in iterators_of(operation):
        return True
    accesses = [attribute.value for attribute in maps]
    is_moved = any(len(access.results) == access.n_dims and access != accesses[-1] for access in accesses)
    return is_moved or any(other.name.startswith(EXPENSIVE) for other in inner)
