"""Add the terms of a product to the buffer that the whole product is added to, as BLAS does.

A tile program's `gemm` computes a product into a buffer of zeros, and adds that to its accumulator. The buffer, its
zeros and the addition go where nothing else reads the product. Sums are reassociated, in the accumulator's dtype.

    fill 0 into %t; %t += a @ b; %c = %c + %t   ──►   %c += a @ b
"""

from __future__ import annotations

from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.lowering.mlir_backend.llvm.contraction_tiling import SUMS, contraction
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of, maps_of
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, buffer_behind, defined_by, definition, scalar_constant

_NO_MEMORY = ("arith.", "affine.", "memref.subview", "memref.dim")
"""What may stand between a product and its addition, by the start of the name: reads no buffer and writes none."""


@dataclass(frozen=True)
class _Sum:
    fill: ir.Operation
    product: ir.Operation
    addition: ir.Operation
    total: ir.Value


def rewrite(module: ir.Module) -> None:
    """Rewrite every product that is only added to a buffer."""
    products = [generic for generic in operations_named(module, "linalg.generic") if contraction(generic) is not None]
    for product in products:
        if (found := _sum_around(product)) is None:
            continue
        product.operands[2] = found.total
        product.move_before(found.addition)
        found.addition.erase()
        found.fill.erase()


def _sum_around(product: ir.Operation) -> _Sum | None:
    """Return the zeros in front of a product, and the addition after it; None where it is used in another way."""
    buffer = product.operands[2]
    others = [use.owner.operation for use in buffer.uses if use.owner.operation != product]
    fills = [user for user in others if _is_zeros(user, buffer)]
    additions = [user for user in others if user not in fills and _is_addition(user, buffer)]
    releases = [user for user in others if user.name == "memref.dealloc"]
    owner = definition(buffer)
    if owner is None or owner.name not in ALLOCATIONS:
        return None
    if len(fills) != 1 or len(additions) != 1 or len(others) != 2 + len(releases):
        return None
    [fill], [addition] = fills, additions
    total = addition.operands[2]
    operations = [view.operation for view in product.block.operations]
    if fill.block != product.block or addition.block != product.block:
        return None
    start, middle, end = (operations.index(step) for step in (fill, product, addition))
    between = operations[middle + 1 : end]
    if not start < middle < end or not all(step.name.startswith(_NO_MEMORY) for step in between):
        return None
    reads = [buffer_behind(operand) for operand in list(product.operands)[:2]]
    return None if buffer_behind(total) in reads else _Sum(fill, product, addition, total)


def _is_zeros(operation: ir.Operation, buffer: ir.Value) -> bool:
    """Return whether a generic stores a constant 0 in all of a buffer."""
    if operation.name != "linalg.generic" or operation.operands[len(operation.operands) - 1] != buffer:
        return False
    [*steps, last] = operation.regions[0].blocks[0].operations
    yielded = last.operation.operands[0]
    if steps or not _is_plain(operation):
        return False
    inputs = list(operation.regions[0].blocks[0].arguments)[:-1]
    constant = defined_by(operation.operands[inputs.index(yielded)] if yielded in inputs else yielded, "arith.constant")
    return constant is not None and scalar_constant(constant.attributes["value"]) == 0


def _is_addition(operation: ir.Operation, buffer: ir.Value) -> bool:
    """Return whether a generic adds a buffer to another one, element by element, in place."""
    if operation.name != "linalg.generic" or len(operation.operands) != 3 or not _is_plain(operation):
        return False
    left, right, out = operation.operands
    steps = [view.operation for view in operation.regions[0].blocks[0].operations]
    arguments = list(operation.regions[0].blocks[0].arguments)
    if len(steps) != 2 or steps[0].name not in SUMS or buffer not in (left, right) or out == buffer:
        return False
    other = right if left == buffer else left
    return other == out and set(steps[0].operands) == {arguments[0], arguments[1]}


def _is_plain(operation: ir.Operation) -> bool:
    """Return whether every buffer is read and written element by element, along its own axes."""
    rank = len(iterators_of(operation))
    buffers = [
        mapping
        for operand, mapping in zip(operation.operands, maps_of(operation), strict=True)
        if isinstance(operand.type, ir.MemRefType)
    ]
    return "reduction" not in iterators_of(operation) and all(
        mapping == ir.AffineMap.get_identity(rank) for mapping in buffers
    )
