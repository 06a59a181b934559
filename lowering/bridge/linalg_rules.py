"""Rules of the bridge for linalg, for constants, and for arith and math on whole tensors.

Structured operations become calls of PrimFuncs (`structured`); constants stay literals until a tensor is needed.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.bridge.builder import RelaxBuilder, Splat, Uninitialized, rule
from mlirtri.lowering.bridge.scalar.rules import literal
from mlirtri.lowering.bridge.structured import build_elementwise, build_structured
from mlirtri.lowering.mlir.constants import array_constant
from mlirtri.lowering.mlir.reading import dtype_of, scalar_constant, shape_of
from mlirtri.lowering.toolchain.tvm_names import relax


@rule("arith.constant")
def _constant(builder: RelaxBuilder, operation: ir.Operation) -> None:
    result = operation.results[0]
    attribute = operation.attributes["value"]
    number = scalar_constant(attribute)
    if number is not None:
        element = literal(number, dtype_of(result.type))
        return builder.write(result, Splat(element, shape_of(result.type)))
    # Without a dtype, relax.const narrows 64 bits to 32.
    return builder.write(result, relax.const(array_constant(attribute), dtype_of(result.type)))


@rule("tensor.empty")
def _empty(builder: RelaxBuilder, operation: ir.Operation) -> None:
    result = operation.results[0]
    builder.write(result, Uninitialized(shape_of(result.type), dtype_of(result.type)))


@rule("linalg.fill")
def _fill(builder: RelaxBuilder, operation: ir.Operation) -> None:
    element = builder.literal(operation.operands[0])
    if element is None:
        return structured(builder, operation)
    result = operation.results[0]
    return builder.write(result, Splat(element, shape_of(result.type)))


def structured(builder: RelaxBuilder, operation: ir.Operation) -> None:
    """Translate any linalg operation with indexing maps and a body."""
    built = build_structured(operation, builder.literal)
    builder.call(operation, built.function, built.name, built.arguments)


def elementwise(builder: RelaxBuilder, operation: ir.Operation) -> None:
    """Translate an operation of arith or math on whole tensors."""
    built = build_elementwise(operation, builder.literal)
    builder.call(operation, built.function, built.name, built.arguments)


@rule("func.return")
def _return(builder: RelaxBuilder, operation: ir.Operation) -> None:
    builder.results = builder.read_all(operation.operands)
