"""Rewrite computations of tensors without elements, and reads of tensors whose elements are undefined.

Upstream's bufferization and verifier find some views of tensors without elements out of bounds:

    %p = tensor.pad %x low[0, 1] high[0, 1] : tensor<0x3xf32> to tensor<0x5xf32>   ──►   %p = tensor.empty()
    %i = tensor.insert_slice %none into %x …                                       ──►   %x

The memory of a `tensor.empty` may hold another call's or user's elements:

    %e = tensor.empty(); return %e   ──►   %e = tensor.empty(); %z = linalg.fill 0 into %e; return %z
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import all_operations, ir, linalg, linalg_fill, operations_named, tensor
from mlirtri.dialect.scalar import complex_parts
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.arithmetic.total_arithmetic import literal
from mlirtri.lowering.mlir_common.cloning import replace

PURE = ("linalg.", "tensor.", "arith.", "math.", "complex.")
"""Dialects whose operations on tensors have no effects but their results."""


def replace_zero_sized(module: ir.Module, context: CompileContext) -> None:
    """Replace all computations of tensors without elements in `module`, in place."""
    for operation in reversed(all_operations(module)):
        if operation.name == "tensor.insert_slice" and _is_elementless(operation.operands[0]):
            replace(operation, [operation.operands[1]])
        elif operation.name != "tensor.empty" and operation.name.startswith(PURE) and _gives_nothing(operation):
            with ir.InsertionPoint(operation), operation.location:
                kinds = [result.type for result in operation.results]
                replace(operation, [tensor.empty(kind.shape, kind.element_type) for kind in kinds])


def _gives_nothing(operation: ir.Operation) -> bool:
    results = list(operation.results)
    return bool(results) and all(_is_elementless(result) and result.type.has_static_shape for result in results)


def _is_elementless(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and 0 in value.type.shape


VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.extract_slice")
"""Operations that give elements of their first operand, undefined if those are."""


def fill_undefined(module: ir.Module, context: CompileContext) -> None:
    """Fill every `tensor.empty` of `module` whose elements are read, in place."""
    for empty in operations_named(module, "tensor.empty"):
        readers = [use for use in empty.results[0].uses if _reads(use)]
        if not readers or 0 in empty.results[0].type.shape:
            # A reduction over no elements would take the fill for one of them.
            continue
        with ir.InsertionPoint.after(empty), empty.location:
            filled = linalg_fill(_zero(empty.results[0].type.element_type), empty.results[0])
        for use in readers:
            use.owner.operands[use.operand_number] = filled


def _reads(use: ir.OpOperand) -> bool:
    user = use.owner.operation
    if user.name in VIEWS:
        return any(_reads(use) for use in user.results[0].uses)
    if user.name == "tensor.dim":
        return False
    if (maps := linalg.get_indexing_maps(user)) is None or not len(user.regions):
        return True
    is_output = use.operand_number >= len(maps) - len(user.results)
    return not is_output or any(True for _ in user.regions[0].blocks[0].arguments[use.operand_number].uses)


def _zero(type_: ir.Type) -> ir.Value:
    return complex_parts.constant(0, 0, type_) if isinstance(type_, ir.ComplexType) else literal(type_, 0)
