"""Lower torch-mlir's `tm_tensor` dialect to loops: `scan`, `scatter`, `sort`, `topk` and `attention`.

A scatter to an index out of bounds is a failed assertion, and writes nothing. Sorting takes O(n log n) comparisons; NaN
is the largest element, as in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.base.dtypes import DTYPES, find_dtype
from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import arith, ir, linalg, operations_named, tensor
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.errors import ProgramIndexError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.tm_tensor_attention import attention
from mlirtri.lowering.linalg.arrays import less
from mlirtri.lowering.linalg.scans_as_reductions import kind_of, scan_as_reduction
from mlirtri.lowering.mlir_common import merge_sort
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.attributes import ERROR
from mlirtri.lowering.mlir_common.cloning import inlined, replace
from mlirtri.lowering.mlir_common.index_values import (
    at_most_one,
    index_constant,
    index_value,
    loop_nest,
    size_of,
    sizes_of,
    without_first,
)
from mlirtri.lowering.mlir_common.linalg_builder import generic
from mlirtri.lowering.mlir_common.reading import definition

Values = list[ir.Value]
Combine = Callable[[ir.Value, ir.Value], ir.Value]
RULES: Registry[str, Callable[[ir.Operation], Values]] = Registry("lowering of tm_tensor")


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Replace every operation of the dialect, in place."""
    # Chosen first: the terminators of replaced regions cannot be asked for their names any more.
    for operation in [operation for operation in operations_named(module, "tm_tensor.*") if operation.name in RULES]:
        rule = RULES[operation.name]
        with ir.InsertionPoint(operation), operation.location:
            is_reduction = context.target.is_cuda and operation.name == "tm_tensor.scan"
            results = (_scan_as_reduction(operation) if is_reduction else None) or rule(operation)
        replace(operation, results)


def _region(operation: ir.Operation) -> Callable[..., ir.Value]:
    block = operation.regions[0].blocks[0]

    def call(*arguments: ir.Value) -> ir.Value:
        [result] = inlined(block, arguments)
        return result

    return call


@RULES.register("tm_tensor.scan")
def _scan(operation: ir.Operation) -> Values:
    source, out, start = operation.operands
    axis, inclusive = operation.attributes["dimension"].value, ir.BoolAttr(operation.attributes["inclusive"]).value
    needs_last = any(True for _ in operation.results[1].uses)
    return scan(source, out, start, axis, inclusive, _region(operation), needs_last)


def _scan_as_reduction(operation: ir.Operation) -> Values | None:
    """Return a scan as a reduction, which CUDA has a schedule for; None where only a loop computes it."""
    source, _, start = operation.operands
    dtype, kind = find_dtype(str(source.type.element_type)), kind_of(operation.regions[0].blocks[0])
    is_plain = ir.BoolAttr(operation.attributes["inclusive"]).value and not any(operation.results[1].uses)
    if not is_plain or dtype is None or kind is None or not source.type.has_static_shape:
        return None
    tensor_type = TensorType(tuple(source.type.shape), dtype)
    return [scan_as_reduction(source, tensor_type, operation.attributes["dimension"].value, kind), start]


@RULES.register("tm_tensor.scatter")
def _scatter(operation: ir.Operation) -> Values:
    updates, indices, original = operation.operands
    axes = list(operation.attributes["dimension_map"])
    return [scatter(updates, indices, original, axes, _region(operation))]


@RULES.register("tm_tensor.topk")
def _topk(operation: ir.Operation) -> Values:
    count = operation.attributes["operandSegmentSizes"][0]
    inputs, outputs = list(operation.operands)[:count], list(operation.operands)[count:]
    axis = operation.attributes["dimension"].value
    return top_k(inputs[0], inputs[1] if count > 1 else None, outputs, axis, _region(operation))


@RULES.register("tm_tensor.attention")
def _attention(operation: ir.Operation) -> Values:
    *inputs, out = operation.operands
    return [attention(*inputs, out=out)]


@RULES.register("tm_tensor.sort")
def _sort(operation: ir.Operation) -> Values:
    fields, axis = list(operation.operands), operation.attributes["dimension"].value
    rows = merge_sort.rows_of(fields, sizes_of(fields[0]), axis)
    if (overtakes := _order_by_field(operation.regions[0].blocks[0])) is not None:
        return merge_sort.sort(rows, overtakes)
    stays = _region(operation)

    def by_region(later: Values, earlier: Values) -> ir.Value:
        pairs = [value for pair in zip(earlier, later, strict=True) for value in pair]
        return arith.xori(stays(*pairs), arith.constant(ir.IntegerType.get_signless(1), 1))

    return merge_sort.sort(rows, by_region, is_order=False)


def _order_by_field(block: ir.Block) -> merge_sort.Overtakes | None:
    compared = terminator(block).operands[0]
    operation = definition(compared)
    if operation is None or operation.name not in ("arith.cmpf", "arith.cmpi"):
        return None
    arguments, operands = list(block.arguments), list(operation.operands)
    if not all(operand in arguments for operand in operands):
        return None
    first, second = (arguments.index(operand) for operand in operands)
    if first // 2 != second // 2 or first == second:
        return None
    predicate = _predicate(operation)
    if predicate is None:
        return None
    field, dtype = first // 2, find_dtype(_dtype_name(arguments[first].type, predicate))
    if dtype is None:
        return None
    word = predicate[-2:] if first < second else {"l": "g", "g": "l"}[predicate[-2]] + predicate[-1]

    def before(x: ir.Value, y: ir.Value) -> ir.Value:
        return less(Scalar(x, dtype), Scalar(y, dtype)).value

    def overtakes(later: Values, earlier: Values) -> ir.Value:
        x, y = later[field], earlier[field]
        if word == "le":
            return before(x, y)
        if word == "ge":
            return before(y, x)
        stays = before(y, x) if word == "lt" else before(x, y)
        return scalar.logical_not(Scalar(stays, DTYPES["bool"])).value

    return overtakes


def _predicate(operation: ir.Operation) -> str | None:
    predicate = operation.attributes["predicate"].value
    if operation.name == "arith.cmpi":
        return {2: "slt", 3: "sle", 4: "sgt", 5: "sge", 6: "ult", 7: "ule", 8: "ugt", 9: "uge"}.get(predicate)
    return {2: "ogt", 3: "oge", 4: "olt", 5: "ole", 9: "ugt", 10: "uge", 11: "ult", 12: "ule"}.get(predicate)


def _dtype_name(type_: ir.Type, predicate: str) -> str:
    is_unsigned = isinstance(type_, ir.IntegerType) and type_.width > 1 and predicate[0] == "u"
    return f"u{type_}" if is_unsigned else str(type_)


def scan(
    source: ir.Value, out: ir.Value, start: ir.Value, axis: int, inclusive: bool, combine: Combine, needs_last: bool
) -> Values:
    """Return the scan along `axis`, which if exclusive begins with `start`, and its last elements, or `start`."""
    sizes = sizes_of(source)
    nest = _scan_line if axis == len(sizes) - 1 else _scan_planes
    scanned = nest(source, out, start, axis, inclusive, combine)
    return [scanned, _last(scanned, start, axis) if needs_last else start]


def _scan_line(
    source: ir.Value, out: ir.Value, start: ir.Value, axis: int, inclusive: bool, combine: Combine
) -> ir.Value:
    """Scan along the last axis: the accumulator stays a scalar."""
    *batch, size = sizes_of(source)

    def line(indices: Values, carried: Values) -> Values:
        def begin(zero: Values, inner: Values) -> Values:
            first = tensor.extract(source, [*indices, *zero]) if inclusive else tensor.extract(start, indices)
            written = tensor.insert(first, inner[0], [*indices, *zero])
            return loop_nest([without_first(size)], [written, first], step)[:1]

        def step(position: Values, inner: Values) -> Values:
            next_indices = [*indices, arith.addi(position[0], index_constant(1))]
            accumulated = combine(
                inner[1], tensor.extract(source, next_indices if inclusive else [*indices, *position])
            )
            return [tensor.insert(accumulated, inner[0], next_indices), accumulated]

        return loop_nest([at_most_one(size)], carried, begin)

    return loop_nest(batch, [out], line)[0]


def _scan_planes(
    source: ir.Value, out: ir.Value, start: ir.Value, axis: int, inclusive: bool, combine: Combine
) -> ir.Value:
    """Scan along another axis: the innermost loop walks through contiguous memory."""
    sizes = sizes_of(source)

    def begin(indices: Values, carried: Values) -> Values:
        start_indices = [index for loop, index in enumerate(indices) if loop != axis]
        first = tensor.extract(source, indices) if inclusive else tensor.extract(start, start_indices)
        return [tensor.insert(first, carried[0], indices)]

    def step(indices: Values, carried: Values) -> Values:
        next_indices = [
            arith.addi(index, index_constant(1)) if loop == axis else index for loop, index in enumerate(indices)
        ]
        accumulated = combine(
            tensor.extract(carried[0], indices), tensor.extract(source, next_indices if inclusive else indices)
        )
        return [tensor.insert(accumulated, carried[0], next_indices)]

    begun = loop_nest([at_most_one(size) if loop == axis else size for loop, size in enumerate(sizes)], [out], begin)
    return loop_nest([without_first(size) if loop == axis else size for loop, size in enumerate(sizes)], begun, step)[0]


def _last(scanned: ir.Value, start: ir.Value, axis: int) -> ir.Value:
    """Return the last element of each scan of two or more elements."""
    size = size_of(scanned, axis)
    if isinstance(size, int) and size < 2:
        return start
    rank = start.type.rank
    identity = ir.AffineMap.get_identity(rank)
    last = arith.subi(index_value(size), index_constant(1))

    def body(previous: ir.Value, *_: ir.Value) -> Values:
        indices = [linalg.IndexOp(loop).result for loop in range(rank)]
        position = arith.maxsi(last, index_constant(0))
        element = tensor.extract(scanned, [*indices[:axis], position, *indices[axis:]])
        if isinstance(size, int):
            return [element]
        return [arith.select(arith.cmpi(arith.CmpIPredicate.sgt, last, index_constant(0)), element, previous)]

    out = tensor.empty(sizes_of(start), start.type.element_type)
    [result] = generic([start], [out], [identity, identity], ["parallel"] * rank, body)
    return result


def scatter(
    updates: ir.Value, indices: ir.Value, original: ir.Value, axes: Sequence[int], combine: Combine
) -> ir.Value:
    """Return `original` with ``combine(update, element)`` stored at each index, one update after the other.

    Row n of `indices` holds the start of update n along `axes`; the axes of an update are the last ones of `original`.
    An update out of bounds fails an assertion and changes nothing.
    """
    count, *inner = sizes_of(updates)
    rank = original.type.rank
    behind = rank - len(inner)

    def update(update_index: Values, carried: Values) -> Values:
        starts, is_inside = _starts(indices, update_index, original, axes, inner, behind)
        message = "an index to scatter to is out of bounds"
        error = ir.StringAttr.get(ProgramIndexError.__name__)
        attributes = {"msg": ir.StringAttr.get(message), ERROR: error}
        ir.Operation.create("cf.assert", operands=[is_inside], attributes=attributes)

        def element(offsets: Values, target: Values) -> Values:
            padded: Values = [index_constant(0)] * behind + offsets
            position = [arith.addi(starts[axis], step) if axis in starts else step for axis, step in enumerate(padded)]
            old = tensor.extract(target[0], position)
            new = combine(tensor.extract(updates, [*update_index, *offsets]), old)
            return [tensor.insert(arith.select(is_inside, new, old), target[0], position)]

        return loop_nest(inner, carried, element)

    # A tensor without elements has nothing to update.
    if 0 in original.type.shape:
        return original
    return loop_nest([count], [original], update)[0]


def _starts(
    indices: ir.Value,
    update_index: Values,
    original: ir.Value,
    axes: Sequence[int],
    inner: Sequence[int | ir.Value],
    behind: int,
) -> tuple[dict[int, ir.Value], ir.Value]:
    starts, is_inside = {}, arith.constant(ir.IntegerType.get_signless(1), 1)
    for column, axis in enumerate(axes):
        start = arith.index_cast(ir.IndexType.get(), tensor.extract(indices, [*update_index, index_constant(column)]))
        extent = inner[axis - behind] if axis >= behind else 1
        last_start = arith.subi(index_value(size_of(original, axis)), index_value(extent))
        in_bounds = arith.cmpi(arith.CmpIPredicate.sge, start, index_constant(0))
        in_bounds = arith.andi(in_bounds, arith.cmpi(arith.CmpIPredicate.sle, start, last_start))
        is_inside = arith.andi(is_inside, in_bounds)
        starts[axis] = arith.maxsi(arith.minsi(start, last_start), index_constant(0))
    return starts, is_inside


def top_k(
    values: ir.Value, positions: ir.Value | None, outputs: Sequence[ir.Value], axis: int, is_better: Combine
) -> Values:
    """Insert each element into the sorted `outputs` of its line, with its position; equal elements keep their order."""
    sizes, count = sizes_of(values), size_of(outputs[0], axis)
    kind = outputs[1].type.element_type

    def element(indices: Values, carried: Values) -> Values:
        position = arith.index_cast(kind, indices[axis]) if positions is None else tensor.extract(positions, indices)

        def insert(position: Values, inner: Values) -> Values:
            *sorted_outputs, value, position_of_value = inner
            indices_of_other = [*indices[:axis], *position, *indices[axis + 1 :]]
            other, other_position = (tensor.extract(destination, indices_of_other) for destination in sorted_outputs)
            wins, loses = is_better(value, other), is_better(other, value)
            is_equal = arith.cmpi(arith.CmpIPredicate.eq, wins, loses)
            is_first = arith.cmpi(arith.CmpIPredicate.slt, position_of_value, other_position)
            goes_before = arith.ori(wins, arith.andi(is_equal, is_first))
            sorted_outputs = [
                tensor.insert(arith.select(goes_before, *pair), destination, indices_of_other)
                for destination, pair in zip(
                    sorted_outputs, ((value, other), (position_of_value, other_position)), strict=True
                )
            ]
            displaced = [
                arith.select(goes_before, *pair) for pair in ((other, value), (other_position, position_of_value))
            ]
            return [*sorted_outputs, *displaced]

        return loop_nest([count], [*carried, tensor.extract(values, indices), position], insert)[:2]

    return loop_nest(sizes, list(outputs), element)
