"""Rules of `tri_to_linalg` for reductions: sums, minima and maxima, any, all, argmin and argmax.

The accumulator comes first in every body. Long sums of narrow floats are accumulated one size wider.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import arith, ir
from mlirtri.dialect.definition import type_of
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.op import Op
from mlirtri.dialect.ops.reductions import LONGEST_HALF_SUM, LONGEST_SUM
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.lowering.linalg.elementwise import FLOAT32, FLOAT64, INT64, Values, index, rule
from mlirtri.lowering.mlir_common.index_values import size_of, unnamed  # fmt: skip
from mlirtri.lowering.mlir_common.linalg_builder import dimensions, filled, generic, map_elements, reshape  # fmt: skip

COMPLEX128 = DTYPES["complex128"]
_IDENTITIES = {"sum": 0, "prod": 1, "any": 0, "all": 1}
COMBINERS = {
    "sum": scalar.add, "prod": scalar.multiply, "any": scalar.bit_or, "all": scalar.bit_and,
    "max": scalar.maximum, "min": scalar.minimum,
}  # fmt: skip


def extreme(dtype: DType, lowest: bool) -> complex | float | int:
    """Return the neutral element of a maximum (`lowest`) or a minimum."""
    if dtype.is_inexact:
        infinity = float("-inf") if lowest else float("inf")
        return complex(infinity, infinity) if dtype.is_complex else infinity
    if dtype.kind == "i":
        return -(1 << (dtype.bits - 1)) if lowest else (1 << (dtype.bits - 1)) - 1
    return 0 if lowest else (1 << dtype.bits) - 1


def identity(name: str, dtype: DType) -> complex | float | int:
    """Return the result of a reduction over nothing."""
    return _IDENTITIES[name] if name in _IDENTITIES else extreme(dtype, lowest=name == "max")


@rule(*COMBINERS)
def _reduce(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    operand, result = type_of(operation.operands[0].type), type_of(operation.results[0].type)
    axes = attributes.from_mlir(op, operation)["axes"]
    carried = _carried(op.name, operand, axes)
    kept = [axis for axis in range(operand.rank) if axis not in axes]
    folded = TensorType(tuple(operand.shape[axis] for axis in kept), carried)

    def body(element, accumulator):
        # The accumulator comes first: TVM's reduction rules look for ``C = C + x``.
        value = scalar.cast(Scalar(element, operand.dtype), carried)
        return [COMBINERS[op.name](Scalar(accumulator, carried), value).value]

    maps = [ir.AffineMap.get_identity(operand.rank), dimensions(*kept, rank=operand.rank)]
    init = filled(folded, identity(op.name, carried), [size_of(operands[0], axis) for axis in kept])
    [value] = generic(operands, [init], maps, iterators(operand.rank, axes), body)
    value = converted(value, folded, operand.dtype)
    return reshape(value, result.shape, operand.dtype)


def _carried(name: str, operand: TensorType, axes) -> DType:
    """Return the accumulator's dtype: fp32 for fp16 and bf16, one size wider for sums long enough to lose precision.

    Sequential addition of n numbers has a relative error of up to n/2 roundings (Higham 1993); libraries add in
    pairs or blocks, whose error grows with log n.
    """
    dtype = operand.dtype
    if name not in ("sum", "prod") or not dtype.is_inexact or dtype.part.bits == 64:
        return dtype
    narrow, wide = (dtype, COMPLEX128) if dtype.is_complex else (FLOAT32, FLOAT64)
    if any(is_dynamic(operand.shape[axis]) for axis in axes):
        return wide
    count = prod(operand.shape[axis] for axis in axes)
    return wide if count > (LONGEST_HALF_SUM if dtype.is_half else LONGEST_SUM) else narrow


def iterators(rank: int, axes: Collection[int]) -> list[str]:
    return ["reduction" if axis in axes else "parallel" for axis in range(rank)]


def converted(value: ir.Value, type_: TensorType, dtype: DType) -> ir.Value:
    """Return a tensor cast to a dtype, element by element."""
    if type_.dtype == dtype:
        return value
    identity = ir.AffineMap.get_identity(type_.rank)
    return map_elements(
        type_.with_dtype(dtype), [value], [identity], lambda e: scalar.cast(Scalar(e, type_.dtype), dtype)
    )


@rule("argmax", "argmin")
def _arg_reduce(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    """Reduce to two results, the extreme and its index; ties and NaN give the first index in any order."""
    operand, result = type_of(operation.operands[0].type), type_of(operation.results[0].type)
    axes = attributes.from_mlir(op, operation)["axes"]
    better_than = "gt" if op.name == "argmax" else "lt"
    kept = [axis for axis in range(operand.rank) if axis not in axes]
    values = TensorType(tuple(operand.shape[axis] for axis in kept), operand.dtype)
    lengths = {axis: _length(operands[0], axis) for axis in axes[1:]}

    def body(element, best, best_position):
        x, best, first = Scalar(element, operand.dtype), Scalar(best, operand.dtype), Scalar(best_position, INT64)
        position = _flat_position(lengths, axes)
        better, equal = scalar.compare(better_than, x, best), scalar.compare("eq", x, best)
        if operand.dtype.is_inexact:
            x_nan, best_nan = scalar.is_nan(x), scalar.is_nan(best)
            better = scalar.bit_or(better, scalar.bit_and(x_nan, scalar.logical_not(best_nan)))
            equal = scalar.bit_or(equal, scalar.bit_and(x_nan, best_nan))
        earlier = scalar.bit_and(equal, scalar.compare("lt", position, first))
        take = scalar.bit_or(better, earlier)
        return [scalar.select(take, x, best).value, scalar.select(take, position, first).value]

    sizes = [size_of(operands[0], axis) for axis in kept]
    inits = [
        filled(values, extreme(operand.dtype, lowest=op.name == "argmax"), sizes),
        filled(values.with_dtype(INT64), extreme(INT64, lowest=False), sizes),
    ]
    out = dimensions(*kept, rank=operand.rank)
    maps = [ir.AffineMap.get_identity(operand.rank), out, out]
    [_, positions] = generic(operands, inits, maps, iterators(operand.rank, axes), body)
    return reshape(positions, result.shape, INT64)


def _length(value: ir.Value, axis: int) -> int | Scalar:
    """Return the size of an axis: an int, or a run-time int64 that bodies capture."""
    size = size_of(value, axis)
    if isinstance(size, int):
        return size
    return Scalar(arith.index_cast(ir.IntegerType.get_signless(64), size, loc=unnamed()), INT64)


def _flat_position(lengths: dict[int, int | Scalar], axes) -> Scalar:
    position = index(axes[0]) if axes else scalar.constant(0, INT64)
    for axis in axes[1:]:
        length = lengths[axis]
        length = length if isinstance(length, Scalar) else scalar.constant(length, INT64)
        position = scalar.add(scalar.multiply(position, length), index(axis))
    return position
