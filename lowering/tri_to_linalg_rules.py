"""The way down from each `tri` operation to linalg: one rule for all elementwise ones, one each for the rest.

Every rule is ``rule(op, operation, operands) -> value``; the driver has set the location and the insertion point.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from mlirtri.dialect import attributes, scalar
from mlirtri.dialect.definition import type_of
from mlirtri.dialect.dtypes import DTYPES, DType
from mlirtri.dialect.mlir import arith, ir, linalg, tensor
from mlirtri.dialect.ops import Op
from mlirtri.dialect.reductions import LONGEST_HALF_SUM, LONGEST_SUM
from mlirtri.dialect.scalar import Scalar
from mlirtri.dialect.types import TensorType
from mlirtri.lowering.linalg_builder import (
    dimensions,
    empty,
    filled,
    generic,
    map_elements,
    reshape,
    splat,
    tensor_type,
)  # fmt: skip

FLOAT32, FLOAT64, INT64 = DTYPES["float32"], DTYPES["float64"], DTYPES["int64"]
Rule = Callable[[Op, ir.Operation, list[ir.Value]], ir.Value]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for ops of the table; a second one for the same name is a mistake."""

    def register(function: Rule) -> Rule:
        for name in names:
            if RULES.setdefault(name, function) is not function:
                raise ValueError(f"two linalg rules for {name!r}")
        return function

    return register


def elementwise(op: Op, operation: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    result = type_of(operation.results[0].type)
    types = [type_of(operand.type) for operand in operation.operands]
    values, maps = zip(*(_aligned(value, of, result) for value, of in zip(operands, types, strict=True)), strict=True)
    parameters = attributes.from_mlir(op, operation)

    def body(*elements: ir.Value) -> Scalar:
        scalars = [Scalar(element, of.dtype) for element, of in zip(elements, types, strict=True)]
        if op.name == "cast":
            return op.scalar(*scalars, **parameters)
        value = op.scalar(*(_widened(element) for element in scalars), **parameters)
        return scalar.cast(value, result.dtype) if value.dtype.is_float else value

    return map_elements(result, values, maps, body)


def _widened(element: Scalar) -> Scalar:
    """Half precision is computed in fp32 and rounded after each operation, as NumPy and torch do."""
    return scalar.cast(element, FLOAT32) if element.dtype.is_half else element


def _aligned(value: ir.Value, of: TensorType, result: TensorType) -> tuple[ir.Value, ir.AffineMap]:
    """The operand without the axes it is broadcast along, and the map that reads it from the result's loops."""
    lead = result.rank - of.rank
    kept = [axis for axis, size in enumerate(of.shape) if size == result.shape[lead + axis]]
    # Dropping broadcast axes lets `keepdims` reductions meet their consumers without a reshape in between.
    return (
        reshape(value, [of.shape[axis] for axis in kept], of.dtype),
        dimensions(*(lead + axis for axis in kept), rank=result.rank),
    )


@rule("constant")
def _constant(op, operation, operands):
    return splat(type_of(operation.results[0].type), attributes.from_mlir(op, operation)["value"])


@rule("arange")
def _arange(op, operation, operands):
    """start + i * step, in float64 or int64, then rounded to the dtype."""
    result, parameters = type_of(operation.results[0].type), attributes.from_mlir(op, operation)
    wide = FLOAT64 if result.dtype.is_float else INT64

    def body() -> Scalar:
        index = scalar.cast(_index(0), wide)
        step, start = scalar.constant(parameters["step"], wide), scalar.constant(parameters["start"], wide)
        return scalar.cast(scalar.add(start, scalar.multiply(index, step)), result.dtype)

    return map_elements(result, [], [], body)


@rule("eye")
def _eye(op, operation, operands):
    result, diagonal = type_of(operation.results[0].type), attributes.from_mlir(op, operation)["diagonal"]

    def body() -> Scalar:
        shifted = scalar.add(_index(0), scalar.constant(diagonal, INT64))
        return scalar.cast(scalar.compare("eq", shifted, _index(1)), result.dtype)

    return map_elements(result, [], [], body)


def _index(dimension: int) -> Scalar:
    return Scalar(arith.index_cast(ir.IntegerType.get_signless(64), linalg.IndexOp(dimension).result), INT64)


@rule("reshape")
def _reshape(op, operation, operands):
    result = type_of(operation.results[0].type)
    return reshape(operands[0], result.shape, result.dtype)


@rule("transpose")
def _transpose(op, operation, operands):
    result = type_of(operation.results[0].type)
    permutation = attributes.from_mlir(op, operation)["permutation"]
    positions = [permutation.index(axis) for axis in range(result.rank)]
    return _moved(result, operands[0], dimensions(*positions, rank=result.rank))


@rule("broadcast_to")
def _broadcast_to(op, operation, operands):
    result = type_of(operation.results[0].type)
    value, map_ = _aligned(operands[0], type_of(operation.operands[0].type), result)
    return _moved(result, value, map_)


@rule("flip")
def _flip(op, operation, operands):
    result, axes = type_of(operation.results[0].type), attributes.from_mlir(op, operation)["axes"]
    reads = [
        ir.AffineExpr.get_add(
            ir.AffineExpr.get_mul(ir.AffineDimExpr.get(axis), ir.AffineConstantExpr.get(-1)),
            ir.AffineConstantExpr.get(size - 1),
        )
        if axis in axes
        else ir.AffineDimExpr.get(axis)
        for axis, size in enumerate(result.shape)
    ]
    return _moved(result, operands[0], ir.AffineMap.get(result.rank, 0, reads))


def _moved(result: TensorType, value: ir.Value, map_: ir.AffineMap) -> ir.Value:
    return map_elements(result, [value], [map_], lambda element: Scalar(element, result.dtype))


@rule("slice")
def _slice(op, operation, operands):
    result, parameters = type_of(operation.results[0].type), attributes.from_mlir(op, operation)
    if result.size == 0:
        return empty(result)
    return tensor.extract_slice(
        tensor_type(result), operands[0], [], [], [],
        parameters["offsets"], parameters["sizes"], parameters["strides"],
    )  # fmt: skip


@rule("concatenate")
def _concatenate(op, operation, operands):
    """One `tensor.concat` for a whole chain of them; the shorter ones are dead then."""
    result, axis = type_of(operation.results[0].type), attributes.from_mlir(op, operation)["axis"]
    first = operands[0].owner
    is_chain = not isinstance(first, ir.Block) and first.operation.name == "tensor.concat"
    if is_chain and first.attributes["dim"].value == axis:
        operands = [*first.operands, *operands[1:]]
    return tensor.concat(tensor_type(result), axis, operands)


_IDENTITIES = {"sum": 0, "prod": 1, "any": 0, "all": 1}
_COMBINERS = {
    "sum": scalar.add, "prod": scalar.multiply, "any": scalar.bit_or, "all": scalar.bit_and,
    "max": scalar.maximum, "min": scalar.minimum,
}  # fmt: skip


def extreme(dtype: DType, lowest: bool) -> float | int:
    """The value that every other one replaces in a maximum (`lowest`) or a minimum."""
    if dtype.is_float:
        return float("-inf") if lowest else float("inf")
    if dtype.kind == "i":
        return -(1 << (dtype.bits - 1)) if lowest else (1 << (dtype.bits - 1)) - 1
    return 0 if lowest else (1 << dtype.bits) - 1


@rule(*_COMBINERS)
def _reduce(op, operation, operands):
    operand, result = type_of(operation.operands[0].type), type_of(operation.results[0].type)
    axes = attributes.from_mlir(op, operation)["axes"]
    carried = _carried(op.name, operand, axes)
    identity = _IDENTITIES[op.name] if op.name in _IDENTITIES else extreme(carried, lowest=op.name == "max")
    kept = [axis for axis in range(operand.rank) if axis not in axes]
    folded = TensorType(tuple(operand.shape[axis] for axis in kept), carried)

    def body(element, accumulator):
        # The accumulator comes first: TVM's reduction rules look for ``C = C + x``.
        value = scalar.cast(Scalar(element, operand.dtype), carried)
        return [_COMBINERS[op.name](Scalar(accumulator, carried), value).value]

    maps = [ir.AffineMap.get_identity(operand.rank), dimensions(*kept, rank=operand.rank)]
    [value] = generic(operands, [filled(folded, identity)], maps, _iterators(operand.rank, axes), body)
    value = _converted(value, folded, operand.dtype)
    return reshape(value, result.shape, operand.dtype)


def _carried(name: str, operand: TensorType, axes) -> DType:
    """The dtype of the accumulator: halves in fp32, and what is long enough for roundings to pile up one size wider.

    Adding n numbers one after the other has a relative error of up to n/2 roundings (Higham 1993); libraries add in
    pairs or blocks, whose error grows with log n.
    """
    if name not in ("sum", "prod") or not operand.dtype.is_float or operand.dtype.bits == 64:
        return operand.dtype
    count = prod(operand.shape[axis] for axis in axes)
    longest = LONGEST_HALF_SUM if operand.dtype.is_half else LONGEST_SUM
    return FLOAT64 if count > longest else FLOAT32


def _iterators(rank: int, axes) -> list[str]:
    return ["reduction" if axis in axes else "parallel" for axis in range(rank)]


def _converted(value: ir.Value, of: TensorType, dtype: DType) -> ir.Value:
    if of.dtype == dtype:
        return value
    identity = ir.AffineMap.get_identity(of.rank)
    return map_elements(of.with_dtype(dtype), [value], [identity], lambda e: scalar.cast(Scalar(e, of.dtype), dtype))


@rule("argmax", "argmin")
def _arg_reduce(op, operation, operands):
    """Two results are carried, the extreme and its position; ties and NaN go to the first position in any order."""
    operand, result = type_of(operation.operands[0].type), type_of(operation.results[0].type)
    axes = attributes.from_mlir(op, operation)["axes"]
    better_than = "gt" if op.name == "argmax" else "lt"
    kept = [axis for axis in range(operand.rank) if axis not in axes]
    values = TensorType(tuple(operand.shape[axis] for axis in kept), operand.dtype)

    def body(element, best, best_position):
        x, best, first = Scalar(element, operand.dtype), Scalar(best, operand.dtype), Scalar(best_position, INT64)
        position = _flat_position(operand, axes)
        better, equal = scalar.compare(better_than, x, best), scalar.compare("eq", x, best)
        if operand.dtype.is_float:
            x_nan, best_nan = scalar.is_nan(x), scalar.is_nan(best)
            better = scalar.bit_or(better, scalar.bit_and(x_nan, scalar.logical_not(best_nan)))
            equal = scalar.bit_or(equal, scalar.bit_and(x_nan, best_nan))
        earlier = scalar.bit_and(equal, scalar.compare("lt", position, first))
        take = scalar.bit_or(better, earlier)
        return [scalar.select(take, x, best).value, scalar.select(take, position, first).value]

    inits = [
        filled(values, extreme(operand.dtype, lowest=op.name == "argmax")),
        filled(values.with_dtype(INT64), extreme(INT64, lowest=False)),
    ]
    out = dimensions(*kept, rank=operand.rank)
    maps = [ir.AffineMap.get_identity(operand.rank), out, out]
    [_, positions] = generic(operands, inits, maps, _iterators(operand.rank, axes), body)
    return reshape(positions, result.shape, INT64)


def _flat_position(operand: TensorType, axes) -> Scalar:
    """The row-major position within the reduced axes."""
    position = _index(axes[0]) if axes else scalar.constant(0, INT64)
    for axis in axes[1:]:
        position = scalar.add(scalar.multiply(position, scalar.constant(operand.shape[axis], INT64)), _index(axis))
    return position


@rule("matmul")
def _matmul(op, operation, operands):
    """`linalg.matmul` or `linalg.batch_matmul` where the batch axes allow it, else a generic that broadcasts them."""
    x, y = (type_of(operand.type) for operand in operation.operands)
    result = type_of(operation.results[0].type)
    carried = FLOAT32 if result.dtype.is_half else result.dtype
    rows, inner, columns = x.shape[-2], x.shape[-1], y.shape[-1]
    if y.rank == 2:
        # One matrix on the right: the batch is more rows.
        count = rows * prod(x.shape[:-2])
        left = reshape(operands[0], (count, inner), x.dtype)
        value = _named(linalg.matmul, left, operands[1], TensorType((count, columns), carried))
        flat = TensorType((count, columns), carried)
    elif x.shape[:-2] == y.shape[:-2]:
        batch = prod(x.shape[:-2])
        left = reshape(operands[0], (batch, rows, inner), x.dtype)
        right = reshape(operands[1], (batch, inner, columns), y.dtype)
        flat = TensorType((batch, rows, columns), carried)
        value = _named(linalg.batch_matmul, left, right, flat)
    else:
        flat = result.with_dtype(carried)
        value = _broadcast_matmul(operands, x, y, flat)
    return reshape(_converted(value, flat, result.dtype), result.shape, result.dtype)


def _named(builder, left, right, result: TensorType) -> ir.Value:
    return builder(left, right, outs=[filled(result, 0)])


def _broadcast_matmul(operands, x: TensorType, y: TensorType, result: TensorType) -> ir.Value:
    """Loops (batch…, row, column, inner); operands lose the batch axes along which they are broadcast."""
    rank = result.rank + 1
    row, column, inner = rank - 3, rank - 2, rank - 1
    values, maps = [], []
    for value, of, last in ((operands[0], x, (row, inner)), (operands[1], y, (inner, column))):
        lead = result.rank - of.rank
        batch = [axis for axis in range(of.rank - 2) if of.shape[axis] == result.shape[lead + axis]]
        shape = [*(of.shape[axis] for axis in batch), *of.shape[-2:]]
        values.append(reshape(value, shape, of.dtype))
        maps.append(dimensions(*(lead + axis for axis in batch), *last, rank=rank))

    def body(left, right, accumulator):
        factors = [scalar.cast(Scalar(e, x.dtype), result.dtype) for e in (left, right)]
        return [scalar.add(Scalar(accumulator, result.dtype), scalar.multiply(*factors)).value]

    maps.append(dimensions(*range(rank - 1), rank=rank))
    [value] = generic(values, [filled(result, 0)], maps, _iterators(rank, (inner,)), body)
    return value
