"""Computations of tensors that have no elements become tensors that nothing was written into.

Takes and gives a module on tensors, in place. Such an operation has nothing to compute; but some of them make views of
memory that upstream's bufferization and verifier then find out of bounds. Refuses nothing.

    %p = tensor.pad %x low[0, 1] high[0, 1] : tensor<0x3xf32> to tensor<0x5xf32>   ──►   %p = tensor.empty()
    %i = tensor.insert_slice %none into %x …                                       ──►   %x
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import all_operations, ir, tensor
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir.cloning import replace

PURE = ("linalg.", "tensor.", "arith.", "math.", "complex.")
"""Dialects whose operations on tensors do nothing but give their results."""


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Rewrite all such operations of `module`."""
    for operation in reversed(all_operations(module)):
        if operation.name == "tensor.insert_slice" and _is_elementless(operation.operands[0]):
            replace(operation, [operation.operands[1]])
        elif operation.name != "tensor.empty" and operation.name.startswith(PURE) and _gives_nothing(operation):
            with ir.InsertionPoint(operation), operation.location:
                replace(
                    operation, [tensor.empty(each.type.shape, each.type.element_type) for each in operation.results]
                )


def _gives_nothing(operation: ir.Operation) -> bool:
    results = list(operation.results)
    return bool(results) and all(_is_elementless(each) and each.type.has_static_shape for each in results)


def _is_elementless(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and 0 in value.type.shape
