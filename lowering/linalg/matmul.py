"""Rules of `tri_to_linalg` for matrix products.

Straight-line code gets `linalg.matmul` and `linalg.batch_matmul` where the batch axes allow it. In imperative functions
a product with a single row or column is a generic without that axis: a loop over the vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import ir, linalg
from mlirtri.dialect.definition import type_of
from mlirtri.dialect.ops.op import Op
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.lowering.linalg.elementwise import Values, axes_walked, computed_in, rule
from mlirtri.lowering.linalg.reductions import converted, iterators
from mlirtri.lowering.mlir_common.index_values import size_of
from mlirtri.lowering.mlir_common.linalg_builder import dimensions, filled, generic, loop_sizes, map_elements, reshape

SMALL_PRODUCT = 4096
"""Complex products of up to this many multiplications are one loop nest."""


@rule("matmul")
def _matmul(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    x, y = (type_of(operand.type) for operand in operation.operands)
    result = type_of(operation.results[0].type)
    if x.rank == y.rank == 2 and 1 in result.shape:
        return _vector_product(operands, x, y, result)
    if not result.dtype.is_complex:
        return _product(operands, x, y, result)
    # The named operations would multiply with upstream's complex dialect, which rounds differently.
    return (_by_parts if _is_large(x, y) else _broadcast_matmul)(operands, x, y, result)


def _is_large(x: TensorType, y: TensorType) -> bool:
    """Return whether four fast real products pay for splitting and joining complex matrices."""
    sizes = (*x.shape[-2:], y.shape[-1])
    return any(map(is_dynamic, sizes)) or prod(sizes) > SMALL_PRODUCT


def _by_parts(operands: Values, x: TensorType, y: TensorType, result: TensorType) -> ir.Value:
    """Multiply complex matrices by real products: (a + bi)(c + di) = (ac - bd) + (ad + bc)i."""
    (a, b), (c, d) = (_parts(value, type_) for value, type_ in zip(operands, (x, y), strict=True))
    real = result.with_dtype(result.dtype.part)
    products = [
        _product(list(pair), x.with_dtype(real.dtype), y.with_dtype(real.dtype), real)
        for pair in ((a, c), (b, d), (a, d), (b, c))
    ]

    def body(*elements: ir.Value) -> Scalar:
        ac, bd, ad, bc = (Scalar(element, real.dtype) for element in elements)
        return scalar.create(scalar.subtract(ac, bd), scalar.add(ad, bc))

    return map_elements(result, products, [ir.AffineMap.get_identity(result.rank)] * 4, body)


def _parts(value: ir.Value, type_: TensorType) -> list[ir.Value]:
    result, maps = type_.with_dtype(type_.dtype.part), [ir.AffineMap.get_identity(type_.rank)]
    return [
        map_elements(result, [value], maps, lambda e, p=part: scalar.parts(Scalar(e, type_.dtype))[p])
        for part in (0, 1)
    ]


def _product(operands: Values, x: TensorType, y: TensorType, result: TensorType) -> ir.Value:
    """Return `linalg.matmul` or `linalg.batch_matmul` where the batch axes allow it, else a broadcasting generic."""
    flat = result.with_dtype(computed_in(result.dtype))
    rows, inner, columns = x.shape[-2], x.shape[-1], y.shape[-1]
    if x.rank == y.rank == 2:
        value = _named(linalg.matmul, operands[0], operands[1], flat)
    elif not (x.is_static and y.is_static) or (y.rank > 2 and x.shape[:-2] != y.shape[:-2]):
        value = _broadcast_matmul(operands, x, y, flat)
    elif y.rank == 2:
        # One matrix on the right: batch axes are merged into the rows.
        count = rows * prod(x.shape[:-2])
        flat = flat.with_shape((count, columns))
        value = _named(linalg.matmul, reshape(operands[0], (count, inner), x.dtype), operands[1], flat)
    else:
        batch = prod(x.shape[:-2])
        left = reshape(operands[0], (batch, rows, inner), x.dtype)
        right = reshape(operands[1], (batch, inner, columns), y.dtype)
        flat = flat.with_shape((batch, rows, columns))
        value = _named(linalg.batch_matmul, left, right, flat)
    return reshape(converted(value, flat, result.dtype), result.shape, result.dtype)


def _named(builder: Callable[..., ir.Value], left: ir.Value, right: ir.Value, result: TensorType) -> ir.Value:
    rows_and_columns = [size_of(left, left.type.rank - 2), size_of(right, right.type.rank - 1)]
    sizes = [*result.shape[:-2], *rows_and_columns]
    return builder(left, right, outs=[filled(result, 0, sizes)])


def _broadcast_matmul(operands: Values, x: TensorType, y: TensorType, result: TensorType) -> ir.Value:
    """Return a generic with loops (batch…, row, column, inner); operands lose their broadcast batch axes."""
    rank = result.rank + 1
    row, column, inner = rank - 3, rank - 2, rank - 1
    values, maps = [], []
    for value, type_, last in ((operands[0], x, (row, inner)), (operands[1], y, (inner, column))):
        lead = result.rank - type_.rank
        batch = [axis for axis in axes_walked(type_, result) if axis < type_.rank - 2]
        shape = [*(type_.shape[axis] for axis in batch), *type_.shape[-2:]]
        values.append(reshape(value, shape, type_.dtype))
        maps.append(dimensions(*(lead + axis for axis in batch), *last, rank=rank))

    body = multiply_and_add((x.dtype, y.dtype), result.dtype)
    init = filled(result, 0, loop_sizes(result, values, maps))
    maps.append(dimensions(*range(rank - 1), rank=rank))
    [value] = generic(values, [init], maps, iterators(rank, (inner,)), body)
    return value


def _vector_product(operands: Values, x: TensorType, y: TensorType, result: TensorType) -> ir.Value:
    """Return a product with a row or a column as a sum: its producers can fuse, since it reads each element once."""
    carried = computed_in(result.dtype)
    # Loops (row, column, inner), without those of one iteration.
    loops = [axis for axis, size in enumerate((*result.shape, None)) if size != 1]
    position = {axis: number for number, axis in enumerate(loops)}
    values, maps = [], []
    for value, type_, axes in ((operands[0], x, (0, 2)), (operands[1], y, (2, 1))):
        factors = [(axis, size) for axis, size in zip(axes, type_.shape, strict=True) if axis in position]
        values.append(reshape(value, [size for _, size in factors], type_.dtype))
        maps.append(dimensions(*(position[axis] for axis, _ in factors), rank=len(loops)))
    flat = TensorType(tuple(size for size in result.shape if size != 1), carried)
    init = filled(flat, 0, loop_sizes(flat, values, maps))
    maps.append(dimensions(*range(flat.rank), rank=len(loops)))
    body = multiply_and_add((x.dtype, y.dtype), carried)
    [value] = generic(values, [init], maps, iterators(len(loops), (len(loops) - 1,)), body)
    return reshape(converted(value, flat, result.dtype), result.shape, result.dtype)


def multiply_and_add(dtypes: tuple[DType, DType], carried: DType) -> Callable[..., list[ir.Value]]:
    """Return the body of a generic that adds the product of two elements to an accumulator."""

    def body(left, right, accumulator):
        factors = [scalar.cast(Scalar(e, dtype), carried) for e, dtype in zip((left, right), dtypes, strict=True)]
        return [scalar.add(Scalar(accumulator, carried), scalar.multiply(*factors)).value]

    return body
