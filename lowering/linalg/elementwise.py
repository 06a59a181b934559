"""Lowering rules from `tri` operations to linalg: the registry, elementwise operations, creation, shapes.

Every rule is ``rule(op, operation, operands) -> value``; the driver has set the location and the insertion point.
Operands are tensors; in imperative functions, rules of `SCALAR_RULES` get those of rank 0 as scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import arith, ir, linalg, tensor
from mlirtri.dialect.definition import type_of
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.op import Op
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.lowering.mlir_common.index_values import (  # fmt: skip
    Sizes,
    index_constant,
    index_value,
    size_of,
    sizes_of,
    unnamed,
)
from mlirtri.lowering.mlir_common.linalg_builder import (  # fmt: skip
    dimensions,
    empty,
    insert_slice,
    is_tensor,
    map_elements,
    reshape,
    splat,
    tensor_type,
)

FLOAT32, FLOAT64, INT64 = DTYPES["float32"], DTYPES["float64"], DTYPES["int64"]
Values = list[ir.Value]
Rule = Callable[[Op, ir.Operation, Values], ir.Value]
RULES: Registry[str, Rule] = Registry("linalg rule")
rule = RULES.register
SCALAR_RULES: Registry[str, Rule] = Registry("linalg rule on scalars")
"""Rules of imperative functions, where a value of rank 0 is a scalar; without one the other rules apply."""
scalar_rule = SCALAR_RULES.register


def elementwise(op: Op, operation: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    """Lower to one generic; or to scalar operations alone, when all operands are scalars."""
    result = type_of(operation.results[0].type)
    types = [type_of(operand.type) for operand in operation.operands]
    parameters = attributes.from_mlir(op, operation)
    tensors = [position for position, operand in enumerate(operands) if is_tensor(operand)]

    def body(*elements: ir.Value) -> Scalar:
        # A scalar operand is the same for all elements: the body captures it.
        arguments = operands.copy()
        for position, element in zip(tensors, elements, strict=True):
            arguments[position] = element
        scalars = [Scalar(element, type_.dtype) for element, type_ in zip(arguments, types, strict=True)]
        if op.name in ("cast", "bitcast"):
            return op.scalar(*scalars, **parameters)
        value = op.scalar(*(scalar.cast(element, computed_in(element.dtype)) for element in scalars), **parameters)
        return scalar.cast(value, result.dtype) if value.dtype.is_float else value

    if not tensors:
        return body().value
    values, maps = zip(*(aligned(operands[position], types[position], result) for position in tensors), strict=True)
    return map_elements(result, values, maps, body)


def computed_in(dtype: DType) -> DType:
    """Return fp32 for fp16 and bf16: each operation computes in fp32 and rounds, as NumPy and torch do."""
    return FLOAT32 if dtype.is_half else dtype


def aligned(value: ir.Value, type_: TensorType, result: TensorType) -> tuple[ir.Value, ir.AffineMap]:
    """Return the operand without its broadcast axes, and the map that reads it from the result's loops."""
    axes = axes_walked(type_, result)
    # Without broadcast axes, `keepdims` reductions fuse with their consumers, with no reshape in between.
    lead = result.rank - type_.rank
    return (
        reshape(value, [type_.shape[axis] for axis in axes], type_.dtype),
        dimensions(*(lead + axis for axis in axes), rank=result.rank),
    )


def axes_walked(operand: TensorType, result: TensorType) -> list[int]:
    """Return the axes along which an operand is not broadcast to the result's last axes."""
    sizes = zip(operand.shape, result.shape[result.rank - operand.rank :], strict=True)
    return [axis for axis, (size, extent) in enumerate(sizes) if size != 1 or extent == 1]


def result_and_parameters(op: Op, operation: ir.Operation) -> tuple[TensorType, dict[str, Any]]:
    """Return the type of an operation's result, and its attributes as Python values."""
    return type_of(operation.results[0].type), attributes.from_mlir(op, operation)


@rule("constant")
def _constant(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    return splat(type_of(operation.results[0].type), attributes.from_mlir(op, operation)["value"])


@scalar_rule("constant")
def _scalar_constant(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, number = type_of(operation.results[0].type), attributes.from_mlir(op, operation)["value"]
    return splat(result, number) if result.rank else scalar.constant(number, result.dtype).value


@rule("arange")
def _arange(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    """Compute start + i * step in float64 or int64, then round to the dtype."""
    result, parameters = result_and_parameters(op, operation)
    wide = FLOAT64 if result.dtype.is_inexact else INT64

    def body() -> Scalar:
        position = scalar.cast(index(0), wide)
        step, start = scalar.constant(parameters["step"], wide), scalar.constant(parameters["start"], wide)
        return scalar.cast(scalar.add(start, scalar.multiply(position, step)), result.dtype)

    return map_elements(result, [], [], body)


@rule("eye")
def _eye(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, diagonal = type_of(operation.results[0].type), attributes.from_mlir(op, operation)["diagonal"]

    def body() -> Scalar:
        shifted = scalar.add(index(0), scalar.constant(diagonal, INT64))
        return scalar.cast(scalar.compare("eq", shifted, index(1)), result.dtype)

    return map_elements(result, [], [], body)


def index(dimension: int) -> Scalar:
    """Return the index of a loop of the generic as an int64."""
    return Scalar(arith.index_cast(ir.IntegerType.get_signless(64), linalg.IndexOp(dimension).result), INT64)


@rule("reshape")
def _reshape(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result = type_of(operation.results[0].type)
    return reshape(operands[0], result.shape, result.dtype)


@rule("transpose")
def _transpose(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result = type_of(operation.results[0].type)
    permutation = attributes.from_mlir(op, operation)["permutation"]
    positions = [permutation.index(axis) for axis in range(result.rank)]
    return moved(result, operands[0], dimensions(*positions, rank=result.rank))


@rule("broadcast_to")
def _broadcast_to(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result = type_of(operation.results[0].type)
    value, map_ = aligned(operands[0], type_of(operation.operands[0].type), result)
    return moved(result, value, map_)


@rule("flip")
def _flip(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, axes = type_of(operation.results[0].type), attributes.from_mlir(op, operation)["axes"]
    if any(is_dynamic(result.shape[axis]) for axis in axes):
        return _flipped_at_run_time(result, operands[0], axes)
    loops = [ir.AffineDimExpr.get(axis) for axis in range(result.rank)]
    reads = [loop * -1 + (result.shape[axis] - 1) if axis in axes else loop for axis, loop in enumerate(loops)]
    return moved(result, operands[0], ir.AffineMap.get(result.rank, 0, reads))


def _flipped_at_run_time(result: TensorType, value: ir.Value, axes) -> ir.Value:
    """Reverse axes of run-time size: affine maps have no dynamic sizes, so the body computes the indices it reads."""
    last = {axis: arith.subi(index_value(size_of(value, axis)), index_constant(1)) for axis in axes}

    def body() -> Scalar:
        indices = [linalg.IndexOp(axis).result for axis in range(result.rank)]
        reads = [
            arith.subi(last[axis], position) if axis in last else position for axis, position in enumerate(indices)
        ]
        return Scalar(tensor.extract(value, reads), result.dtype)

    return map_elements(result, [], [], body, sizes_of(value))


def moved(result: TensorType, value: ir.Value, map_: ir.AffineMap, sizes: Sizes | None = None) -> ir.Value:
    """Return a generic that reads a value by a map and computes nothing."""
    return map_elements(result, [value], [map_], lambda element: Scalar(element, result.dtype), sizes)


@rule("slice")
def _slice(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = result_and_parameters(op, operation)
    if result.size == 0:
        return empty(result)
    return tensor.extract_slice(
        tensor_type(result), operands[0], [], [], [],
        parameters["offsets"], parameters["sizes"], parameters["strides"],
    )  # fmt: skip


@rule("concatenate")
def _concatenate(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    """Lower a whole chain of concatenations to one `tensor.concat`; the inner ones become dead."""
    result, axis = type_of(operation.results[0].type), attributes.from_mlir(op, operation)["axis"]
    if not all(value.type.has_static_shape for value in operands):
        return _joined_at_run_time(result, operands, axis)
    first = operands[0].owner
    is_chain = not isinstance(first, ir.Block) and first.operation.name == "tensor.concat"
    if is_chain and first.attributes["dim"].value == axis:
        operands = [*first.operands, *operands[1:]]
    return tensor.concat(tensor_type(result), axis, operands)


def _joined_at_run_time(result: TensorType, operands: list[ir.Value], axis: int) -> ir.Value:
    sizes = sizes_of(operands[0])
    starts = [index_constant(0)]
    for operand in operands:
        starts.append(arith.addi(starts[-1], index_value(size_of(operand, axis)), loc=unnamed()))
    joined = empty(result, [starts[-1] if number == axis else size for number, size in enumerate(sizes)])
    for operand, start in zip(operands, starts[:-1], strict=True):
        offsets = [start if number == axis else 0 for number in range(result.rank)]
        joined = insert_slice(operand, joined, offsets, sizes_of(operand))
    return joined
