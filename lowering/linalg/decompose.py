"""Decomposition of composite `tri` operations (softmax, layer_norm, var…) into others of the op table.

Takes a `tri` module and a predicate on operations; changes the module in place. fp16 and bf16 operands are widened
to fp32 for the whole composition and the result is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.bindings.locations import errors_at
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import Tensor, TriBuilder
from mlirtri.dialect.definition import op_of, type_of
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.op import Op


def tri_operations(module: ir.Module) -> list[ir.Operation]:
    """Return every `tri` operation, in program order."""
    operations: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        if operation.name.startswith("tri."):
            operations.append(operation.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return operations


def decompose(module: ir.Module, is_decomposed: Callable[[Op, ir.Operation], bool]) -> None:
    """Replace every composite operation for which `is_decomposed` holds, until none is left."""
    builder = TriBuilder()
    while composites := [
        operation
        for operation in tri_operations(module)
        if (op := op_of(operation)).decompose is not None and is_decomposed(op, operation)
    ]:
        for operation in composites:
            with errors_at(operation):
                _replace(builder, operation)


def _replace(builder: TriBuilder, operation: ir.Operation) -> None:
    op = op_of(operation)
    builder.location = operation.location
    operands = [Tensor(value, type_of(value.type)) for value in operation.operands]
    dtype = operands[0].type.dtype
    with ir.InsertionPoint(operation):
        if dtype.is_half:
            operands = [builder.cast(operand, DTYPES["float32"]) for operand in operands]
        result = op.decompose(builder, *operands, **attributes.from_mlir(op, operation))
        if dtype.is_half:
            result = builder.cast(result, dtype)
    operation.results[0].replace_all_uses_with(result.value)
    operation.erase()
