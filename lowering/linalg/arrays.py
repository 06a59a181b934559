"""Rules of `tri_to_linalg` for whole arrays: padding, literals, correlation, scans, sorting, binary search, histograms.

Operations that depend on the order of elements (scans, adding at indices) are nests of `scf.for` with the written
tensors as iter_args; a search, in which the order does not matter, is the body of a generic.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import arith, ir, scf, tensor
from mlirtri.dialect.definition import type_of
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.op import Op
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.lowering.linalg.elementwise import INT64, Values, computed_in, result_and_parameters, rule
from mlirtri.lowering.linalg.matmul import multiply_and_add
from mlirtri.lowering.linalg.reductions import COMBINERS, converted
from mlirtri.lowering.linalg.scans_as_reductions import is_marked, scan_as_reduction
from mlirtri.lowering.mlir_common import merge_sort
from mlirtri.lowering.mlir_common.index_values import (
    at_most_one,
    index_constant,
    index_value,
    loop_nest,
    size_of,
    sizes_of,
    without_first,
)
from mlirtri.lowering.mlir_common.linalg_builder import (  # fmt: skip
    dimensions,
    element_type,
    empty,
    filled,
    generic,
    insert_slice,
    map_elements,
    tensor_type,
)


def _as_index(index: Scalar) -> ir.Value:
    return arith.index_cast(ir.IndexType.get(), index.value)


def _int64(value: int) -> Scalar:
    return scalar.constant(value, INT64)


# --- straight-line -------------------------------------------------------------------------------------------------


@rule("pad")
def _pad(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = result_and_parameters(op, operation)
    [x] = operands
    widths = zip(sizes_of(x), parameters["low"], parameters["high"], strict=True)
    sizes = [_sum(size, low + high) for size, low, high in widths]
    padded = filled(result, parameters["value"], sizes)
    return padded if 0 in x.type.shape else insert_slice(x, padded, parameters["low"], sizes_of(x))


def _sum(size: int | ir.Value, width: int) -> int | ir.Value:
    return size + width if isinstance(size, int) else arith.addi(size, index_constant(width))


@rule("literal")
def _literal(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = result_and_parameters(op, operation)
    kind = element_type(result.dtype)
    if result.dtype.is_float:
        elements = [ir.FloatAttr.get(kind, float(value)) for value in parameters["values"]]
    else:
        elements = [ir.IntegerAttr.get(kind, scalar.wrapped(int(v), result.dtype)) for v in parameters["values"]]
    return arith.constant(tensor_type(result), ir.DenseElementsAttr.get(elements, tensor_type(result)))


@rule("correlate")
def _correlate(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    """Lower to ``out[i] = Σ x[i + j] * y[j]``; fp16 and bf16 are accumulated in fp32."""
    result = type_of(operation.results[0].type)
    x, y = operands
    carried = result.with_dtype(computed_in(result.dtype))
    i, j = ir.AffineDimExpr.get(0), ir.AffineDimExpr.get(1)
    maps = [ir.AffineMap.get(2, 0, [ir.AffineExpr.get_add(i, j)]), dimensions(1, rank=2), dimensions(0, rank=2)]
    body = multiply_and_add((result.dtype, result.dtype), carried.dtype)
    [value] = generic([x, y], [filled(carried, 0, [_overlap(x, y)])], maps, ["parallel", "reduction"], body)
    return converted(value, carried, result.dtype)


def _overlap(x: ir.Value, y: ir.Value) -> int | ir.Value:
    longer, shorter = size_of(x, 0), size_of(y, 0)
    if isinstance(longer, int) and isinstance(shorter, int):
        return longer - shorter + 1
    return arith.addi(arith.subi(index_value(longer), index_value(shorter)), index_constant(1))


# --- scans ---------------------------------------------------------------------------------------------------------


@rule("scan")
def _scan(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = result_and_parameters(op, operation)
    [x] = operands
    axis, combine = parameters["axis"], COMBINERS[parameters["kind"]]
    if is_marked(operation):
        return scan_as_reduction(x, result, axis, parameters["kind"])
    out = empty(result, sizes_of(x))

    def combined(accumulated: ir.Value, element: ir.Value) -> ir.Value:
        wide = computed_in(result.dtype)
        operands_ = (scalar.cast(Scalar(value, result.dtype), wide) for value in (accumulated, element))
        return scalar.cast(combine(*operands_), result.dtype).value

    if axis == result.rank - 1:
        return _scan_rows(x, out, combined)
    return _scan_planes(x, out, axis, combined)


def _scan_rows(x: ir.Value, out: ir.Value, combined) -> ir.Value:
    *batch, size = sizes_of(x)

    def row(row_index: Values, carried: Values) -> list[ir.Value]:
        def start(first: Values, inner: Values) -> list[ir.Value]:
            element = tensor.extract(x, [*row_index, *first])
            written = tensor.insert(element, inner[0], [*row_index, *first])
            return loop_nest([without_first(size)], [written, element], step)[:1]

        def step(position: Values, inner: Values) -> list[ir.Value]:
            target = [*row_index, arith.addi(position[0], index_constant(1))]
            accumulated = combined(inner[1], tensor.extract(x, target))
            return [tensor.insert(accumulated, inner[0], target), accumulated]

        return loop_nest([at_most_one(size)], carried, start)

    return loop_nest(batch, [out], row)[0]


def _scan_planes(x: ir.Value, out: ir.Value, axis: int, combined) -> ir.Value:
    """Scan along another axis: combine each element with its predecessor; the innermost loop has stride 1."""
    sizes = sizes_of(x)

    def copy(indices: Values, carried: Values) -> list[ir.Value]:
        return [tensor.insert(tensor.extract(x, indices), carried[0], indices)]

    def step(indices: Values, carried: Values) -> list[ir.Value]:
        target = [arith.addi(index, index_constant(1)) if loop == axis else index for loop, index in enumerate(indices)]
        accumulated = combined(tensor.extract(carried[0], indices), tensor.extract(x, target))
        return [tensor.insert(accumulated, carried[0], target)]

    [out] = loop_nest([at_most_one(size) if loop == axis else size for loop, size in enumerate(sizes)], [out], copy)
    later = [without_first(size) if loop == axis else size for loop, size in enumerate(sizes)]
    return loop_nest(later, [out], step)[0]


# --- searches and histograms ---------------------------------------------------------------------------------------


@rule("searchsorted")
def _searchsorted(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    """Lower to a binary search per element; for a static size branch-free, with a constant number of steps."""
    result, parameters = result_and_parameters(op, operation)
    x, values = operands
    haystack = type_of(operation.operands[1].type)
    length, size = size_of(x, 0), _length(x)

    def halved(needle: Scalar, low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
        middle = Scalar(arith.shrui(scalar.add(low, high).value, _int64(1).value), INT64)
        last = scalar.minimum(middle, scalar.subtract(size, _int64(1)))
        element = Scalar(tensor.extract(x, [_as_index(scalar.maximum(last, _int64(0)))]), haystack.dtype)
        is_before = scalar.logical_not(less(needle, element)) if parameters["right"] else less(element, needle)
        is_open = scalar.bit_and(scalar.compare("lt", low, high), is_before)
        return scalar.select(is_open, scalar.add(middle, _int64(1)), low), scalar.select(is_open, high, middle)

    def body(value: ir.Value) -> Scalar:
        needle, low, high = Scalar(value, haystack.dtype), _int64(0), size
        if not isinstance(length, int):
            return _while_open(low, high, lambda low, high: halved(needle, low, high))
        for _ in range(length.bit_length()):
            low, high = halved(needle, low, high)
        return low

    return _mapped(result, values, body)


def _while_open(low: Scalar, high: Scalar, step: Callable[[Scalar, Scalar], tuple[Scalar, Scalar]]) -> Scalar:
    """Repeat a step on two int64 values while the first is less than the second; return the first."""
    kinds = [element_type(INT64)] * 2
    loop = scf.WhileOp(kinds, [low.value, high.value])
    locations = [ir.Location.current] * 2
    before = loop.regions[0].blocks.append(*kinds, arg_locs=locations)
    after = loop.regions[1].blocks.append(*kinds, arg_locs=locations)
    with ir.InsertionPoint(before):
        is_open = scalar.compare("lt", *(Scalar(bound, INT64) for bound in before.arguments))
        scf.ConditionOp(is_open.value, list(before.arguments))
    with ir.InsertionPoint(after):
        scf.YieldOp([bound.value for bound in step(*(Scalar(bound, INT64) for bound in after.arguments))])
    return Scalar(loop.results[0], INT64)


def _length(x: ir.Value) -> Scalar:
    size = size_of(x, 0)
    return _int64(size) if isinstance(size, int) else Scalar(arith.index_cast(element_type(INT64), size), INT64)


def _mapped(result: TensorType, values: ir.Value, body) -> ir.Value:
    return map_elements(result, [values], [ir.AffineMap.get_identity(result.rank)], body, sizes_of(values))


@rule("bins")
def _bins(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    """Compute the bin from its width, corrected by one where rounding crossed an edge, as `numpy.histogram` does."""
    result = type_of(operation.results[0].type)
    x, edges = operands
    dtype = type_of(operation.operands[1].type).dtype
    count = scalar.subtract(_length(edges), _int64(1))
    last_bin = scalar.subtract(count, _int64(1))
    wide = computed_in(dtype)

    def edge(number: Scalar) -> Scalar:
        return scalar.cast(Scalar(tensor.extract(edges, [_as_index(number)]), dtype), wide)

    def body(value: ir.Value) -> Scalar:
        element, low, high = scalar.cast(Scalar(value, dtype), wide), edge(_int64(0)), edge(count)
        # Loop-invariant, so there is one division in all. Rounding errors of up to half a bin are corrected below.
        scale = scalar.divide(scalar.cast(count, wide), scalar.subtract(high, low))
        guess = scalar.cast(scalar.multiply(scalar.subtract(element, low), scale), INT64)
        number = scalar.maximum(scalar.minimum(guess, last_bin), _int64(0))
        too_high = scalar.cast(scalar.compare("lt", element, edge(number)), INT64)
        number = scalar.maximum(scalar.subtract(number, too_high), _int64(0))
        above = scalar.compare("ge", element, edge(scalar.add(number, _int64(1))))
        too_low = scalar.bit_and(above, scalar.compare("ne", number, last_bin))
        number = scalar.add(number, scalar.cast(too_low, INT64))
        is_inside = scalar.bit_and(scalar.compare("ge", element, low), scalar.compare("le", element, high))
        return scalar.select(is_inside, number, count)

    return _mapped(result, x, body)


@rule("add_at")
def _add_at(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    """Add in order, since an index may occur twice; indices out of bounds add zero."""
    result = type_of(operation.results[0].type)
    x, indices, values = operands
    limit, dtype = _length(x), result.dtype
    zero = scalar.constant(-0.0 if dtype.is_float else 0, dtype)

    def step(position: Values, carried: Values) -> list[ir.Value]:
        index = Scalar(tensor.extract(indices, position), INT64)
        is_inside = scalar.bit_and(scalar.compare("ge", index, _int64(0)), scalar.compare("lt", index, limit))
        target = [_as_index(scalar.select(is_inside, index, _int64(0)))]
        value = scalar.select(is_inside, Scalar(tensor.extract(values, position), dtype), zero)
        wide = computed_in(dtype)
        old = scalar.cast(Scalar(tensor.extract(carried[0], target), dtype), wide)
        updated = scalar.cast(scalar.add(old, scalar.cast(value, wide)), dtype)
        return [tensor.insert(updated.value, carried[0], target)]

    return loop_nest(sizes_of(indices), [x], step)[0]


# --- sorting -------------------------------------------------------------------------------------------------------


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
def _sort(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = type_of(operation.results[0].type), attributes.from_mlir(op, operation)
    [x] = operands
    rows = merge_sort.rows_of([x], sizes_of(x), parameters["axis"])
    [values] = merge_sort.sort(rows, _overtakes(result.dtype))
    return values


@rule("argsort")
def _argsort(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    parameters, dtype = attributes.from_mlir(op, operation), type_of(operation.operands[0].type)
    [x] = operands
    axis, position = parameters["axis"], element_type(INT64)

    def element(indices: Values) -> Values:
        return [tensor.extract(x, indices), arith.index_cast(position, indices[axis])]

    rows = merge_sort.Rows(sizes_of(x), axis, [x.type.element_type, position], element)
    _, positions = merge_sort.sort(rows, _overtakes(dtype.dtype))
    return positions


def _overtakes(dtype: DType) -> merge_sort.Overtakes:
    return lambda later, earlier: less(Scalar(later[0], dtype), Scalar(earlier[0], dtype)).value
