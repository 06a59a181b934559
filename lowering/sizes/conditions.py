"""Collect the conditions on dynamic sizes under which a function reads and writes in bounds.

Gives pairs of index values that have to be equal, or of which the first must not be larger; `infer_size_program.py`
expresses them by the arguments' sizes. MLIR's verifier has checked operations of static shape.

    linalg.matmul ins(%a: tensor<?x?>, %b: tensor<?x?>)   ──►   dim %a 1 == dim %b 0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, linalg, tensor
from mlirtri.lowering.mlir_common.aliasing import is_inside
from mlirtri.lowering.mlir_common.index_values import cast_to_index, index_constant
from mlirtri.lowering.mlir_common.linalg_builder import is_tensor
from mlirtri.lowering.mlir_common.reading import definition, is_block_argument, kept_axes

EQUAL, NOT_MORE = "==", "<="
Values = list[ir.Value]


@dataclass(frozen=True)
class Requirement:
    """Two index values, how they have to compare, and the operation that requires it."""

    left: ir.Value
    relation: str
    right: ir.Value
    operation: ir.Operation = field(repr=False)


Rule = Callable[[ir.Operation], Iterator[Requirement]]


def conditions_of(operation: ir.Operation) -> Iterator[Requirement]:
    """Yield the conditions on the sizes of an operation's operands and results, computed at the insertion point."""
    if not any(_is_dynamic(value) for value in (*operation.operands, *operation.results)):
        if operation.name != "tensor.pad" or len(operation.operands) == 1:
            return
    if (rule := _RULES.get(operation.name)) is not None:
        yield from rule(operation)
    elif operation.name.startswith("linalg."):
        yield from _structured(operation)
    elif operation.name.startswith(("arith.", "math.")):
        yield from _elementwise(operation)


def _structured(operation: ir.Operation) -> Iterator[Requirement]:
    """Require one extent per loop, and indices of maps in bounds."""
    maps = linalg.get_indexing_maps(operation)
    if maps is None:
        return
    shaped = [
        (value, attribute.value) for value, attribute in zip(operation.operands, maps, strict=False) if is_tensor(value)
    ]
    extents: dict[int, ir.Value] = {}
    for value, mapping in shaped:
        for axis, result in enumerate(mapping.results):
            if not isinstance(result, ir.AffineDimExpr):
                continue
            size = dim(value, axis)
            if result.position in extents:
                yield Requirement(size, EQUAL, extents[result.position], operation)
            else:
                extents[result.position] = size
    for value, mapping in shaped:
        for axis, result in enumerate(mapping.results):
            if not isinstance(result, ir.AffineDimExpr) and all(loop in extents for loop in _loops(result)):
                first, last = _range_of(result, extents)
                end = _if_any(extents, arith.addi(last, index_constant(1)))
                yield Requirement(end, NOT_MORE, dim(value, axis), operation)
                if _may_be_negative(result):
                    yield Requirement(index_constant(0), NOT_MORE, _if_any(extents, first), operation)
    yield from _reads_in_body(operation, extents)


def _if_any(extents: dict[int, ir.Value], value: ir.Value) -> ir.Value:
    for extent in extents.values():
        value = arith.select(arith.cmpi(arith.CmpIPredicate.eq, extent, index_constant(0)), index_constant(0), value)
    return value


def _loops(expression: ir.AffineExpr) -> set[int]:
    if isinstance(expression, ir.AffineDimExpr):
        return {expression.position}
    if isinstance(expression, ir.AffineConstantExpr):
        return set()
    return _loops(expression.lhs) | _loops(expression.rhs)


def _range_of(expression: ir.AffineExpr, extents: dict[int, ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Return the smallest and the largest value of a map's result, where every loop has iterations."""
    if isinstance(expression, ir.AffineDimExpr):
        return index_constant(0), arith.subi(extents[expression.position], index_constant(1))
    if isinstance(expression, ir.AffineConstantExpr):
        return index_constant(expression.value), index_constant(expression.value)
    (low, high), (least, most) = (_range_of(side, extents) for side in (expression.lhs, expression.rhs))
    if isinstance(expression, ir.AffineModExpr):
        largest = arith.subi(most, index_constant(1))
        return index_constant(0), largest if _may_be_negative(expression.lhs) else arith.minsi(high, largest)
    if isinstance(expression, ir.AffineMulExpr) and _may_be_negative(expression.rhs):
        low, high = high, low
    combine = _ARITHMETIC[type(expression)]
    return combine(low, least), combine(high, most)


def _may_be_negative(expression: ir.AffineExpr) -> bool:
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value < 0
    is_leaf = isinstance(expression, ir.AffineDimExpr)
    return not is_leaf and (_may_be_negative(expression.lhs) or _may_be_negative(expression.rhs))


_ARITHMETIC = {
    ir.AffineAddExpr: arith.addi,
    ir.AffineMulExpr: arith.muli,
    ir.AffineFloorDivExpr: arith.floordivsi,
    ir.AffineCeilDivExpr: arith.ceildivsi,
}


def _reads_in_body(operation: ir.Operation, extents: dict[int, ir.Value]) -> Iterator[Requirement]:
    for read in all_operations_in(operation):
        if read.name != "tensor.extract" or is_inside(read.operands[0], operation):
            continue
        source, *indices = read.operands
        for axis, index in enumerate(indices):
            size = dim(source, axis)
            if (loop := _loop_of(index)) is None or loop not in extents:
                # The index is clamped to the tensor, which needs at least one element.
                yield Requirement(_if_any(extents, index_constant(1)), NOT_MORE, size, read)
                continue
            if _broadcasts_one(index):
                # An axis of size 1 is broadcast; any other size has to be the loop's extent.
                is_one = arith.cmpi(arith.CmpIPredicate.eq, size, index_constant(1))
                yield Requirement(arith.select(is_one, size, extents[loop]), EQUAL, size, read)
            else:
                yield Requirement(_if_any(extents, extents[loop]), NOT_MORE, size, read)


def _loop_of(index: ir.Value) -> int | None:
    operation = definition(index)
    if operation is None:
        return None
    if operation.name == "linalg.index":
        return operation.attributes["dim"].value
    if operation.name in ("arith.maxsi", "arith.minsi", "arith.select"):
        loops = {loop for operand in list(operation.operands)[-2:] if (loop := _loop_of(operand)) is not None}
        return loops.pop() if len(loops) == 1 else None
    return None


def _broadcasts_one(index: ir.Value) -> bool:
    """Return whether an index is 0 where its axis has size 1."""
    operation = index.owner.operation
    if operation.name == "arith.select":
        return True
    operands = [operand for operand in operation.operands if not is_block_argument(operand)]
    return operation.name in ("arith.maxsi", "arith.minsi") and any(_broadcasts_one(operand) for operand in operands)


def _elementwise(operation: ir.Operation) -> Iterator[Requirement]:
    first, *others = [value for value in operation.operands if is_tensor(value)]
    for other in others:
        if other.type.rank == first.type.rank:
            for axis in range(first.type.rank):
                yield Requirement(dim(other, axis), EQUAL, dim(first, axis), operation)


def _cast(operation: ir.Operation) -> Iterator[Requirement]:
    source, result = operation.operands[0], operation.results[0]
    if not (is_tensor(source) and is_tensor(result)):
        return
    for axis, size in enumerate(result.type.shape):
        if size >= 0:
            yield Requirement(dim(source, axis), EQUAL, index_constant(size), operation)


def _expand(operation: ir.Operation) -> Iterator[Requirement]:
    source, *dynamic = operation.operands
    sizes = mixed(operation.attributes["static_output_shape"], dynamic)
    for axis, group in enumerate(operation.attributes["reassociation"]):
        product = index_constant(1)
        for position in group:
            product = arith.muli(product, sizes[position.value])
        yield Requirement(product, EQUAL, dim(source, axis), operation)
    for size in dynamic:
        yield Requirement(index_constant(0), NOT_MORE, size, operation)


def _reshape(operation: ir.Operation) -> Iterator[Requirement]:
    source, shape = operation.operands
    if shape.type.shape[0] < 0:
        return
    count, product = index_constant(1), index_constant(1)
    for axis in range(source.type.rank):
        count = arith.muli(count, dim(source, axis))
    for position, size in enumerate(operation.results[0].type.shape):
        requested = cast_to_index(tensor.extract(shape, [index_constant(position)]))
        product = arith.muli(product, requested)
        yield Requirement(index_constant(0), NOT_MORE, requested, operation)
        if size >= 0:
            yield Requirement(requested, EQUAL, index_constant(size), operation)
    yield Requirement(product, EQUAL, count, operation)


def _extract_slice(operation: ir.Operation) -> Iterator[Requirement]:
    offsets, sizes, strides = slice_of(operation)
    yield from _slice_within(operation, operation.operands[0], offsets, sizes, strides)


def _insert_slice(operation: ir.Operation) -> Iterator[Requirement]:
    source, target = list(operation.operands)[:2]
    offsets, sizes, strides = slice_of(operation)
    yield from _slice_within(operation, target, offsets, sizes, strides)
    source_sizes = sizes
    if source.type.rank < len(sizes):
        static = list(operation.attributes["static_sizes"])
        source_sizes = [sizes[axis] for axis in kept_axes(static, source.type.rank)]
    for axis, size in enumerate(source_sizes):
        yield Requirement(dim(source, axis), EQUAL, size, operation)


def _slice_within(
    operation: ir.Operation, sliced: ir.Value, offsets: Values, sizes: Values, strides: Values
) -> Iterator[Requirement]:
    for axis, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
        yield Requirement(index_constant(0), NOT_MORE, offset, operation)
        yield Requirement(index_constant(0), NOT_MORE, size, operation)
        end = arith.addi(offset, arith.addi(arith.muli(arith.subi(size, index_constant(1)), stride), index_constant(1)))
        yield Requirement(_if_any({axis: size}, end), NOT_MORE, dim(sliced, axis), operation)


def _concat(operation: ir.Operation) -> Iterator[Requirement]:
    joined, (first, *others) = operation.attributes["dim"].value, operation.operands
    for other in others:
        for axis in range(first.type.rank):
            if axis != joined:
                yield Requirement(dim(other, axis), EQUAL, dim(first, axis), operation)


def _pad(operation: ir.Operation) -> Iterator[Requirement]:
    counts = list(operation.attributes["operandSegmentSizes"])
    operands = list(operation.operands)[1:]
    low, high = (
        mixed(operation.attributes[f"static_{name}"], dynamic)
        for name, dynamic in (("low", operands[: counts[1]]), ("high", operands[counts[1] :]))
    )
    for width in (*low, *high):
        yield Requirement(index_constant(0), NOT_MORE, width, operation)
    for axis, size in enumerate(operation.results[0].type.shape):
        if size >= 0:
            padded = arith.addi(arith.addi(low[axis], dim(operation.operands[0], axis)), high[axis])
            yield Requirement(padded, EQUAL, index_constant(size), operation)


def _sized(operation: ir.Operation) -> Iterator[Requirement]:
    for size in operation.operands:
        if isinstance(size.type, ir.IndexType):
            yield Requirement(index_constant(0), NOT_MORE, size, operation)


def _element_access(operation: ir.Operation) -> Iterator[Requirement]:
    accessed, *indices = list(operation.operands)[operation.name == "tensor.insert" :]
    for axis, index in enumerate(indices):
        yield Requirement(index_constant(0), NOT_MORE, index, operation)
        yield Requirement(arith.addi(index, index_constant(1)), NOT_MORE, dim(accessed, axis), operation)


_RULES: dict[str, Rule] = {
    "tensor.cast": _cast,
    "tensor.expand_shape": _expand,
    "tensor.reshape": _reshape,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
    "tensor.concat": _concat,
    "tensor.pad": _pad,
    "tensor.empty": _sized,
    "tensor.splat": _sized,
    "tensor.generate": _sized,
    "tensor.extract": _element_access,
    "tensor.insert": _element_access,
}


def dim(value: ir.Value, axis: int) -> ir.Value:
    """Return the size of an axis as an index value: a constant where it is static."""
    size = value.type.shape[axis]
    return index_constant(size) if size >= 0 else tensor.dim(value, index_constant(axis))


def mixed(static: Sequence[int], dynamic: Sequence[ir.Value]) -> Values:
    """Return a ``static_…`` attribute as index values, with the operands that stand for its dynamic entries."""
    operands = iter(dynamic)
    return [next(operands) if size == ir.ShapedType.get_dynamic_size() else index_constant(size) for size in static]


def slice_of(operation: ir.Operation) -> tuple[Values, Values, Values]:
    """Return the offsets, sizes and strides of a slice as index values."""
    counts = list(operation.attributes["operandSegmentSizes"])
    first = 2 if operation.name == "tensor.insert_slice" else 1
    operands = iter(list(operation.operands)[first:])
    parts = []
    for name, count in zip(("offsets", "sizes", "strides"), counts[first:], strict=True):
        parts.append(mixed(operation.attributes[f"static_{name}"], [next(operands) for _ in range(count)]))
    return parts[0], parts[1], parts[2]


def _is_dynamic(value: ir.Value) -> bool:
    return is_tensor(value) and not value.type.has_static_shape
