"""Rules of `tri_to_linalg` that sort along an axis: the comparison, and the values that move along.

The sort itself, a stable merge sort, is in `merge_sort`.
"""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.bindings.mlir import arith, ir, tensor
from mlirtri.dialect.definition import type_of
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.lowering.linalg.rules import rule
from mlirtri.lowering.mlir import merge_sort
from mlirtri.lowering.mlir.index_values import sizes_of
from mlirtri.lowering.mlir.linalg_builder import element_type

INT64 = DTYPES["int64"]
Values = list[ir.Value]


def less(x: Scalar, y: Scalar) -> Scalar:
    """Return whether x is sorted before y: NaN comes last, as in NumPy."""
    if x.dtype.is_complex:
        return _less_complex(x, y)
    if not x.dtype.is_float:
        return scalar.compare("lt", x, y)
    above_or_nan = Scalar(arith.cmpf(arith.CmpFPredicate.UGT, y.value, x.value), DTYPES["bool"])
    return scalar.bit_and(above_or_nan, scalar.logical_not(scalar.is_nan(x)))


def _less_complex(x: Scalar, y: Scalar) -> Scalar:
    """Order by real, then imaginary part; of non-NaN real parts, those with a NaN imaginary part come last."""
    (x_re, x_im), (y_re, y_im) = scalar.parts(x), scalar.parts(y)
    same = scalar.logical_not(scalar.bit_or(less(x_re, y_re), less(y_re, x_re)))
    in_order = scalar.bit_or(less(x_re, y_re), scalar.bit_and(same, less(x_im, y_im)))
    are_numbers = scalar.logical_not(scalar.bit_or(scalar.is_nan(x_re), scalar.is_nan(y_re)))
    differ = scalar.bit_and(are_numbers, scalar.bit_xor(scalar.is_nan(x_im), scalar.is_nan(y_im)))
    return scalar.select(differ, scalar.is_nan(y_im), in_order)


@rule("sort")
def _sort(op, operation, operands):
    result, parameters = type_of(operation.results[0].type), attributes.from_mlir(op, operation)
    [x] = operands
    rows = merge_sort.rows_of([x], sizes_of(x), parameters["axis"])
    [values] = merge_sort.sort(rows, _overtakes(result.dtype))
    return values


@rule("argsort")
def _argsort(op, operation, operands):
    """Sort with the indices as a second field."""
    parameters, dtype = attributes.from_mlir(op, operation), type_of(operation.operands[0].type)
    [x] = operands
    axis, position = parameters["axis"], element_type(INT64)

    def element(indices: Values) -> Values:
        return [tensor.extract(x, indices), arith.index_cast(position, indices[axis])]

    rows = merge_sort.Rows(sizes_of(x), axis, [x.type.element_type, position], element)
    _, positions = merge_sort.sort(rows, _overtakes(dtype.dtype))
    return positions


def _overtakes(dtype: DType) -> merge_sort.Overtakes:
    """Return the comparison of records by their first field."""
    return lambda later, earlier: less(Scalar(later[0], dtype), Scalar(earlier[0], dtype)).value
