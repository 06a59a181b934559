"""Accumulate contractions and convolutions of fp16 and bf16 in fp32, and round once.

Upstream's lowering rounds every sum to the result's element type. StableHLO leaves the accumulator type open.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import all_operations, arith, ir, linalg, linalg_fill, tensor
from mlirtri.lowering.mlir_common.cloning import clone, replace
from mlirtri.lowering.mlir_common.index_values import sizes_of
from mlirtri.lowering.mlir_common.linalg_builder import dimensions, generic
from mlirtri.lowering.mlir_common.reading import defined_by

NAMED = ("linalg.dot", "linalg.matvec", "linalg.vecmat", "linalg.matmul", "linalg.batch_matmul")
CONVOLUTIONS = ("linalg.conv_", "linalg.depthwise_conv_")
HALVES = ("f16", "bf16")


def rewrite(module: ir.Module) -> None:
    """Widen the accumulators of `module`, in place."""
    # Replacing an operation erases the operations of its body, too.
    for operation in [operation for operation in all_operations(module) if _is_sum_of_halves(operation)]:
        out, kind = operation.operands[len(operation.operands) - 1], operation.results[0].type
        with ir.InsertionPoint(operation), operation.location:
            wide = ir.RankedTensorType.get(kind.shape, ir.F32Type.get())
            build = _generic if operation.name == "linalg.generic" else _named
            summed = build(operation, _start(out, wide), wide)
            value = _converted(summed, kind)
        replace(operation, [value])


def _is_sum_of_halves(operation: ir.Operation) -> bool:
    if len(operation.results) != 1 or not isinstance(operation.results[0].type, ir.RankedTensorType):
        return False
    if str(operation.results[0].type.element_type) not in HALVES:
        return False
    if operation.name == "linalg.generic":
        return "reduction" in str(operation.attributes["iterator_types"]) and _addend(operation) is not None
    return operation.name in NAMED or operation.name.startswith(CONVOLUTIONS)


def _addend(operation: ir.Operation) -> ir.Value | None:
    block = operation.regions[0].blocks[0]
    *_, last = block.operations
    accumulator = block.arguments[len(block.arguments) - 1]
    added = getattr(last.operands[0].owner, "operation", None)
    if added is None or added.name != "arith.addf" or len(list(accumulator.uses)) != 1:
        return None
    others = [operand for operand in added.operands if operand != accumulator]
    return others[0] if len(others) == 1 and len(list(added.results[0].uses)) == 1 else None


def _start(out: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """Return the initial value in fp32; a constant stays one, by which later stages recognise products."""
    fill = defined_by(out, "linalg.fill")
    initial = None if fill is None else defined_by(fill.operands[0], "arith.constant")
    if initial is None:
        return _converted(out, type_)
    value = arith.constant(type_.element_type, ir.FloatAttr(initial.attributes["value"]).value)
    return linalg_fill(value, tensor.empty(sizes_of(out), type_.element_type))


def _named(operation: ir.Operation, out: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """Return the same operation with another output; upstream's builder of its body widens the factors."""
    operands = [*list(operation.operands)[:-1], out]
    attributes = {name: operation.attributes[name] for name in operation.attributes.keys()}
    widened = ir.Operation.create(operation.name, [type_], operands, attributes, regions=1)
    linalg.fill_builtin_region(widened)
    return widened.results[0]


def _generic(operation: ir.Operation, out: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    widened = clone(operation, {})
    widened.operands[len(widened.operands) - 1] = out
    widened.results[0].set_type(type_)
    block = widened.regions[0].blocks[0]
    accumulator = block.arguments[len(block.arguments) - 1]
    accumulator.set_type(type_.element_type)
    value = _addend(widened)
    *_, last = block.operations
    with ir.InsertionPoint(last), operation.location:
        summed = arith.addf(accumulator, _widened(value, type_.element_type))
    added = last.operands[0].owner
    last.operands[0] = summed
    added.erase()
    return widened.results[0]


def _widened(value: ir.Value, type_: ir.Type) -> ir.Value:
    """Return an element in fp32; a product is widened before it is rounded."""
    owner = getattr(value.owner, "operation", None)
    if owner is not None and owner.name == "arith.mulf":
        return arith.mulf(*(arith.extf(type_, operand) for operand in owner.operands))
    return arith.extf(type_, value)


def _converted(value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    convert = arith.extf if str(type_.element_type) == "f32" else arith.truncf
    same = dimensions(*range(type_.rank), rank=type_.rank)
    out = tensor.empty(sizes_of(value), type_.element_type)
    [result] = generic(
        [value],
        [out],
        [same, same],
        ["parallel"] * type_.rank,
        lambda element, _: [convert(type_.element_type, element)],
    )
    return result
