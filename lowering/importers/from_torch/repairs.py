"""Rewrite operators that torch-mlir lowers incorrectly, so that the result is torch's.

Takes a module in the torch dialect, before its lowering to linalg. Gives it with
- a sum of floats with an inferred integer result, which would be rounded, as a float;
- batched products of quantised tensors, whose zero points are dropped, as products of integers;
- tensors quantised by channel, whose integers are all taken as signed, as floats;
- grid samples as gathers;
- powers of integers;
- bit casts to a dtype of the same width, which have no lowering.

Refuses grid samples in other modes.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.bindings.mlir import all_operations, ir
from mlirtri.lowering.importers.from_torch.builder import (
    as_type,
    bare_type,
    cast,
    compute,
    element_of,
    integer,
    integers,
    shape_of,
    tensor_op,
    tensor_type,
)
from mlirtri.lowering.importers.from_torch.grid_sampler import sample


def rewrite(module: ir.Module) -> None:
    """Rewrite all such operators of `module`; raises `UnsupportedOperationError`."""
    for operation in all_operations(module):
        if (repair := _REPAIRS.get(operation.name)) is not None:
            with operation.location, ir.InsertionPoint(operation):
                repair(operation)


def _sum(operation: ir.Operation) -> None:
    element = element_of(operation.operands[0])
    dtype = operation.operands[len(operation.operands) - 1].owner
    has_dtype = isinstance(dtype, ir.Block) or dtype.operation.name != "torch.constant.none"
    if has_dtype or not element.startswith(("f", "bf")) or element_of(operation.results[0]) == element:
        return
    operation.results[0].set_type(as_type(operation.results[0].type, element))


def _quantised_product(operation: ir.Operation) -> None:
    producers = [operand.owner for operand in operation.operands]
    if any(isinstance(producer, ir.Block) or producer.operation.name != _QUANTISED for producer in producers):
        return
    for position, producer in enumerate(producers):
        operation.operands[position] = _without_zero_point(*list(producer.operands)[0:3:2])


def _dequantised(operation: ir.Operation) -> None:
    """Compute ``(x - zero point) * scale`` with a scale and zero point per index along an axis."""
    producer = operation.operands[0].owner
    if isinstance(producer, ir.Block) or producer.operation.name != "torch.aten._make_per_channel_quantized_tensor":
        return
    value, scale, zero_point, axis = producer.operands
    index = ir.IntegerAttr(axis.owner.attributes["value"]).value
    sizes = [1 for _ in shape_of(value)]
    [sizes[index]] = shape_of(scale)
    factors = [
        tensor_op("view", tensor_type(sizes, element_of(operand)), operand, integers(sizes))
        for operand in (scale, zero_point)
    ]
    difference = cast(value, "si32")
    difference = tensor_op("sub.Tensor", difference.type, difference, cast(factors[1], "si32"), integer(1))
    kind = operation.results[0].type
    result = tensor_op("mul.Tensor", kind, cast(difference, element_of(operation.results[0])), factors[0])
    operation.results[0].replace_all_uses_with(result)
    operation.erase()


_QUANTISED = "torch.aten._make_per_tensor_quantized_tensor"


def _without_zero_point(value: ir.Value, zero_point: ir.Value) -> ir.Value:
    """Return the integers of a quantised tensor minus its zero point, as int32."""
    wide = cast(value, "si32")
    return tensor_op("sub.Scalar", wide.type, wide, zero_point, integer(1))


def _bitcast(operation: ir.Operation) -> None:
    result = operation.results[0]
    shape, element = shape_of(result), element_of(result)
    if shape != shape_of(operation.operands[0]):
        return
    source, target = (bare_type(shape, operand) for operand in (element_of(operation.operands[0]), element))
    bits = ir.Operation.create("torch_c.to_builtin_tensor", [source], [operation.operands[0]]).result
    if source != target:
        bits = ir.Operation.create("tensor.bitcast", [target], [bits]).result
    result.replace_all_uses_with(ir.Operation.create("torch_c.from_builtin_tensor", [result.type], [bits]).result)
    operation.erase()


def _power(operation: ir.Operation) -> None:
    """Lower the power of two tensors of signed integers of one type."""
    result = operation.results[0]
    if not element_of(result).startswith("si") or len(_types(operation)) > 1:
        return
    compute(operation, lambda x, exponent: ir.Operation.create("math.ipowi", [x.type], [x, exponent]).result)


def _types(operation: ir.Operation) -> set[ir.Type]:
    return {value.type for value in (*operation.operands, *operation.results)}


_REPAIRS: dict[str, Callable[[ir.Operation], None]] = {
    "torch.aten.sum": _sum,
    "torch.aten.sum.dim_IntList": _sum,
    "torch.aten.bmm": _quantised_product,
    "torch.aten.dequantize.self": _dequantised,
    "torch.aten.dequantize.tensor": _dequantised,
    "torch.aten.grid_sampler": sample,
    "torch.aten.view.dtype": _bitcast,
    "torch.aten.pow.Tensor_Tensor": _power,
}
