"""Rules of `tri_to_linalg` for parts of tensors: slices at run-time offsets, gathers, masks, run-time sizes.

Operands of rank 0 are scalars here. Reading one element is a `tensor.extract`, writing one a `tensor.insert`; writes in
sequential order (scatters, masks) are an `scf.for` that carries the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import arith, ir, linalg, linalg_fill, scf, tensor
from mlirtri.dialect.definition import type_of
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.indexing import resolved
from mlirtri.dialect.ops.op import Op
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.lowering.linalg.elementwise import (
    INT64,
    Values,
    aligned,
    index,
    moved,
    result_and_parameters,
    rule,
    scalar_rule,
)
from mlirtri.lowering.mlir_common.index_values import (  # fmt: skip
    Sizes,
    as_index,
    index_constant,
    index_value,
    loop_nest,
    offsets_in,
    size_of,
    sizes_of,
    split_sizes,
)
from mlirtri.lowering.mlir_common.linalg_builder import (  # fmt: skip
    cast_to,
    dimensions,
    empty,
    insert_slice,
    is_tensor,
    map_elements,
    reshape,
    tensor_type,
)

# --- slices --------------------------------------------------------------------------------------------------------


@scalar_rule("extract_slice")
def _extract_slice(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = result_and_parameters(op, operation)
    x, *indices = operands
    if not is_tensor(x):
        return x
    offsets, sizes = resolved(map(as_index, indices), parameters["offsets"], parameters["sizes"])
    if not result.rank:
        return tensor.extract(x, [index_value(offset) for offset in offsets])
    return extract_slice(x, result, offsets, sizes, parameters["strides"])


def extract_slice(
    x: ir.Value, result: TensorType, offsets: Sizes, sizes: Sizes, strides: Sequence[int] | None = None
) -> ir.Value:
    """Return a `tensor.extract_slice`; offsets and sizes are ints or `index` values; the result may drop axes."""
    if 0 in result.shape:
        return empty(result, sizes)
    moving_offsets, static_offsets = split_sizes(offsets_in(x, offsets))
    moving_sizes, static_sizes = split_sizes(sizes)
    return tensor.extract_slice(
        tensor_type(result), x, moving_offsets, moving_sizes, [], static_offsets, static_sizes,
        list(strides or [1] * len(static_sizes)),
    )  # fmt: skip


@scalar_rule("insert_slice")
def _insert_slice(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = result_and_parameters(op, operation)
    x, update, *indices = operands
    offsets, sizes = resolved(map(as_index, indices), parameters["offsets"], parameters["sizes"])
    if not result.rank:
        return update
    if not is_tensor(update):
        return tensor.insert(update, x, [index_value(offset) for offset in offsets])
    shape = [size for axis, size in enumerate(split_sizes(sizes)[1]) if axis not in parameters["drop"]]
    if 0 in shape:
        return x
    update = cast_to(update, ir.RankedTensorType.get(shape, update.type.element_type))
    return insert_slice(update, x, offsets, sizes, parameters["strides"])


# --- tensors of run-time sizes -------------------------------------------------------------------------------------


@scalar_rule("fill")
def _fill(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = result_and_parameters(op, operation)
    value, *indices = operands
    [sizes] = resolved(map(as_index, indices), parameters["shape"])
    return linalg_fill(value, empty(result, sizes)) if result.rank else value


@scalar_rule("empty")
def _empty(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = result_and_parameters(op, operation)
    [sizes] = resolved(map(as_index, operands), parameters["shape"])
    return empty(result, sizes) if result.rank else scalar.constant(0, result.dtype).value


@scalar_rule("iota")
def _iota(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = result_and_parameters(op, operation)
    [sizes] = resolved(map(as_index, operands), parameters["shape"])
    return map_elements(result, [], [], lambda: scalar.cast(index(parameters["axis"]), result.dtype), sizes)


@scalar_rule("dynamic_broadcast")
def _dynamic_broadcast(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = result_and_parameters(op, operation)
    x, *indices = operands
    [sizes] = resolved(map(as_index, indices), parameters["shape"])
    if not is_tensor(x):
        return linalg_fill(x, empty(result, sizes)) if result.rank else x
    return moved(result, *aligned(x, type_of(operation.operands[0].type), result), sizes)


@scalar_rule("dynamic_reshape")
def _dynamic_reshape(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    result, parameters = result_and_parameters(op, operation)
    x, *indices = operands
    [sizes] = resolved(map(as_index, indices), parameters["shape"])
    if not is_tensor(x):
        x = tensor.from_elements(tensor_type(result.with_shape(())), [x])
    return reshape(x, result.shape, result.dtype, sizes)


@rule("size")
def _size(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    size = size_of(operands[0], attributes.from_mlir(op, operation)["axis"])
    if isinstance(size, int):
        return scalar.constant(size, INT64).value
    return arith.index_cast(ir.IntegerType.get_signless(64), size)


# --- gather and scatter --------------------------------------------------------------------------------------------


@rule("gather")
@scalar_rule("gather")
def _gather(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    """Lower to a generic whose body computes the indices it reads."""
    result = type_of(operation.results[0].type)
    x, *positions = operands
    types = [type_of(operand.type) for operand in operation.operands[1:]]
    limits = [index_value(size_of(x, axis)) for axis in range(len(positions))]
    lead = types[0].rank

    def read(indices: list[ir.Value], trailing: list[ir.Value]) -> ir.Value:
        return tensor.extract(x, [*_clamped(indices, types, limits), *trailing])

    if not result.rank and not any(map(is_tensor, positions)):
        return read(positions, [])
    tensors = [position for position in positions if is_tensor(position)]
    maps = [dimensions(*range(lead), rank=result.rank)] * len(tensors)
    sizes = [*(sizes_of(tensors[0]) if tensors else []), *sizes_of(x)[len(positions) :]]

    def body(*elements: ir.Value) -> Scalar:
        trailing = [linalg.IndexOp(axis).result for axis in range(lead, result.rank)]
        return Scalar(read(list(elements) if tensors else positions, trailing), result.dtype)

    return map_elements(result, tensors, maps, body, sizes)


def _clamped(positions: Values, types: Sequence[TensorType], limits: Values) -> Values:
    triples = zip(positions, types, limits, strict=True)
    return [_clamped_index(Scalar(position, type_.dtype), limit) for position, type_, limit in triples]


def _clamped_index(position: Scalar, limit: ir.Value) -> ir.Value:
    """Return an index that may be negative, counted from the start and clamped to the limit."""
    clamped = as_index(scalar.cast(position, INT64).value)
    zero, one = index_constant(0), index_constant(1)
    is_negative = arith.cmpi(arith.CmpIPredicate.slt, clamped, zero)
    clamped = arith.select(is_negative, arith.addi(clamped, limit), clamped)
    return arith.maxsi(arith.minsi(clamped, arith.subi(limit, one)), zero)


@scalar_rule("scatter")
def _scatter(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    """Write sequentially, so that the last write to an index wins."""
    x, update, *positions = operands
    type_, _, *types = (type_of(operand.type) for operand in operation.operands)
    limits = [index_value(size_of(x, axis)) for axis in range(len(positions))]
    sizes = sizes_of(positions[0]) if is_tensor(positions[0]) else []
    row = type_.with_shape(type_.shape[len(positions) :])

    def step(indices: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        elements = [_element(position, indices) for position in positions]
        return [_write(_read(update, indices, row), carried[0], _clamped(elements, types, limits), row)]

    return loop_nest(sizes, [x], step)[0]


def _element(value: ir.Value, indices: list[ir.Value]) -> ir.Value:
    return tensor.extract(value, indices) if is_tensor(value) else value


def _read(value: ir.Value, indices: list[ir.Value], row: TensorType) -> ir.Value:
    """Return the element at an index of the leading axes, or the row of trailing axes there."""
    if not row.rank:
        return _element(value, indices)
    trailing = sizes_of(value)[len(indices) :]
    return extract_slice(value, row, [*indices, *(0 for _ in trailing)], [*(1 for _ in indices), *trailing])


def _write(value: ir.Value, target: ir.Value, indices: list[ir.Value], row: TensorType) -> ir.Value:
    if not row.rank:
        return tensor.insert(value, target, indices)
    trailing = sizes_of(target)[len(indices) :]
    shape = [size if isinstance(size, int) else ir.ShapedType.get_dynamic_size() for size in trailing]
    value = cast_to(value, ir.RankedTensorType.get(shape, value.type.element_type))
    return insert_slice(value, target, [*indices, *(0 for _ in trailing)], [*(1 for _ in indices), *trailing])


# --- masks ---------------------------------------------------------------------------------------------------------


@scalar_rule("compress")
def _compress(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    """Write every element at the next free index, which advances past selected elements only: branch-free."""
    x, mask = operands
    type_, result = type_of(operation.operands[0].type), type_of(operation.results[0].type)
    sizes, row = sizes_of(mask), type_.with_shape(result.shape[1:])
    bound = index_constant(1)
    for size in sizes:
        bound = arith.muli(bound, index_value(size))
    trailing = sizes_of(x)[len(sizes) :]
    space = empty(result, [bound, *trailing])

    def step(indices: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        selected, count = carried
        selected = _write(_read(x, indices, row), selected, [count], row)
        more = arith.index_castui(ir.IndexType.get(), tensor.extract(mask, indices))
        return [selected, arith.addi(count, more)]

    selected, count = loop_nest(sizes, [space, index_constant(0)], step)
    return extract_slice(selected, result, [0, *(0 for _ in trailing)], [count, *trailing])


@scalar_rule("place")
def _place_rule(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    x, mask, update = operands
    type_ = type_of(operation.operands[0].type)
    row = type_.with_shape(type_.shape[mask.type.rank :])
    given = index_value(sizes_of(update)[0])

    def step(indices: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        target, count = carried
        # A mask that takes more than there is leaves the rest: a check after the call says so.
        is_taken = arith.andi(tensor.extract(mask, indices), arith.cmpi(arith.CmpIPredicate.slt, count, given))
        branch = scf.IfOp(is_taken, [target.type, count.type], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            written = _write(_read(update, [count], row), target, indices, row)
            scf.YieldOp([written, arith.addi(count, index_constant(1))])
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp([target, count])
        return list(branch.results)

    return loop_nest(sizes_of(mask), [x, index_constant(0)], step)[0]
