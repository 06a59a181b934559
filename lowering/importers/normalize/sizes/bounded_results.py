"""Return results of data-dependent size as tensors of their largest possible size, plus their sizes.

A size is bounded by the tensor that it was sliced from and by the operands of `minsi`.

    -> tensor<?xf32>   ──►   -> (tensor<40xf32> {mlirtri.lengths = [0, 1]}, tensor<i64>)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from mlirtri.dialect.bindings.mlir import arith, func, ir, public_functions, tensor
from mlirtri.lowering.core.size_program import OPERATIONS
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.attributes import LENGTHS, argument_attributes, result_attributes, set_signature
from mlirtri.lowering.mlir_common.index_values import cast_to_index, index_constant, mixed_sizes
from mlirtri.lowering.mlir_common.reading import definition, integer_constant, is_block_argument
from mlirtri.lowering.sizes.conditions import dim
from mlirtri.lowering.sizes.infer_size_program import size_values_of
from mlirtri.lowering.sizes.loop_sizes import DESTINATION_STYLE

ResultAxis = tuple[int, int]
"""A result and one of its axes."""
MAX_STEPS = 64
"""How many operations a size is traced back."""


def rewrite(module: ir.Module) -> None:
    """Change the results of the module's only function, in place."""
    [function] = public_functions(module)
    axes = _open_axes(function)
    if not axes:
        return
    inferred = size_values_of(
        module, lambda clone: [dim(_results(clone)[result], axis) for result, axis in _open_axes(clone)]
    )
    unknown = [axis for axis, value in zip(axes, inferred.values, strict=True) if value is None]
    if not unknown:
        return
    end = terminator(function.regions[0].blocks[0])
    with ir.InsertionPoint(end), end.location:
        bounds = {(result, axis): _size_bound(end.operands[result], axis, MAX_STEPS) for result, axis in unknown}
    _return_bounded(function, {axis: bound for axis, bound in bounds.items() if bound is not None})


def _results(function: func.FuncOp) -> list[ir.Value]:
    return list(terminator(function.regions[0].blocks[0]).operands)


def _open_axes(function: func.FuncOp) -> list[ResultAxis]:
    kinds = [value.type for value in _results(function)]
    return [(result, axis) for result, kind in enumerate(kinds) for axis, size in enumerate(kind.shape) if size < 0]


def _size_bound(value: ir.Value, axis: int, depth: int) -> ir.Value | None:
    size = value.type.shape[axis]
    if size >= 0:
        return index_constant(size)
    operation = definition(value)
    if operation is None:
        return tensor.dim(value, index_constant(axis))
    if depth == 0:
        return None
    if operation.name == "tensor.empty":
        unknown = [position for position, size in enumerate(value.type.shape) if size < 0]
        return _upper_bound(operation.operands[unknown.index(axis)], depth - 1)
    if operation.name in _VIEWS:
        return _VIEWS[operation.name](operation, axis, depth - 1)
    if operation.name.startswith(DESTINATION_STYLE):
        first = len(operation.operands) - len(operation.results)
        return _size_bound(operation.operands[first + value.result_number], axis, depth - 1)
    if operation.name in ("tensor.insert", "tensor.insert_slice"):
        return _size_bound(operation.operands[1], axis, depth - 1)
    return _size_bound(operation.operands[0], axis, depth - 1) if operation.name == "tensor.cast" else None


def _bound_of_slice(operation: ir.Operation, axis: int, depth: int) -> ir.Value | None:
    static = list(operation.attributes["static_sizes"])
    dropped = operation.operands[0].type.rank - operation.results[0].type.rank
    # Whichever axes of size 1 are dropped, the others follow each other in the same order.
    ones = [position for position, size in enumerate(static) if size == 1][:dropped]
    axis = [position for position in range(len(static)) if position not in ones][axis]
    dynamic_before = sum(size < 0 for size in static[:axis])
    offsets = list(operation.attributes["operandSegmentSizes"])[1]
    size = _upper_bound(operation.operands[1 + offsets + dynamic_before], depth)
    return size if size is not None else _size_bound(operation.operands[0], axis, depth)


def _bound_of_expanded(operation: ir.Operation, axis: int, depth: int) -> ir.Value | None:
    shape = list(operation.attributes["static_output_shape"])
    for source, group in enumerate(operation.attributes["reassociation"]):
        axes = [position.value for position in group]
        if axis in axes and all(position == axis or shape[position] == 1 for position in axes):
            return _size_bound(operation.operands[0], source, depth)
    return None


def _bound_of_collapsed(operation: ir.Operation, axis: int, depth: int) -> ir.Value | None:
    source = operation.operands[0]
    bounds = [_size_bound(source, position.value, depth) for position in operation.attributes["reassociation"][axis]]
    return _combined(bounds, arith.muli)


def _bound_of_concatenated(operation: ir.Operation, axis: int, depth: int) -> ir.Value | None:
    along = ir.IntegerAttr(operation.attributes["dim"]).value
    operands = list(operation.operands) if axis == along else [operation.operands[0]]
    bounds = [_size_bound(operand, axis, depth) for operand in operands]
    return _combined(bounds, arith.addi)


def _combined(bounds: list[ir.Value | None], combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value | None:
    """Return the sum or product of bounds; None if one is not known."""
    known = [bound for bound in bounds if bound is not None]
    return reduce(combine, known) if len(known) == len(bounds) else None


_VIEWS = {
    "tensor.concat": _bound_of_concatenated,
    "tensor.extract_slice": _bound_of_slice,
    "tensor.expand_shape": _bound_of_expanded,
    "tensor.collapse_shape": _bound_of_collapsed,
}


def _upper_bound(value: ir.Value, depth: int) -> ir.Value | None:
    operation = definition(value)
    if operation is None or depth == 0:
        return None
    if _depends_on_sizes(value, depth):
        return cast_to_index(value)
    if operation.name == "tensor.dim":
        axis = integer_constant(operation.operands[1])
        return None if axis is None else _size_bound(operation.operands[0], axis, depth - 1)
    if operation.name == "arith.index_cast":
        return _upper_bound(operation.operands[0], depth - 1)
    if operation.name not in _BINARY:
        return None
    bounds = [_upper_bound(operand, depth - 1) for operand in list(operation.operands)[-2:]]
    if operation.name == "arith.minsi":
        determined = [bound for bound in bounds if bound is not None]
        return arith.minsi(*determined) if len(determined) == 2 else next(iter(determined), None)
    return _combined(bounds, arith.addi if operation.name == "arith.addi" else arith.maxsi)


def _depends_on_sizes(value: ir.Value, depth: int) -> bool:
    operation = definition(value)
    if operation is None or depth == 0:
        return False
    if operation.name == "tensor.dim":
        return is_block_argument(operation.operands[0])
    if operation.name not in OPERATIONS and operation.name != "affine.apply":
        return operation.name == "arith.constant"
    return all(_depends_on_sizes(operand, depth - 1) for operand in operation.operands)


_BINARY = ("arith.minsi", "arith.maxsi", "arith.select", "arith.addi")


def _return_bounded(function: func.FuncOp, bounds: dict[ResultAxis, ir.Value]) -> None:
    end = terminator(function.regions[0].blocks[0])
    arguments, results = argument_attributes(function), result_attributes(function)
    values, sizes = list(end.operands), []
    with ir.InsertionPoint(end), end.location:
        for result, value in enumerate(list(end.operands)):
            axes = [axis for owner, axis in bounds if owner == result]
            if not axes:
                continue
            positions = []
            for axis in axes:
                positions += [axis, len(values) + len(sizes)]
                size = arith.index_cast(ir.IntegerType.get_signless(64), dim(value, axis))
                sizes.append(tensor.from_elements(ir.RankedTensorType.get([], size.type), [size]))
            results[result][LENGTHS] = ir.DenseI64ArrayAttr.get(positions)
            values[result] = _inserted(value, {axis: bounds[result, axis] for axis in axes})
        ir.Operation.create(end.name, operands=[*values, *sizes])
    end.erase()
    set_signature(function, arguments, [*results, *({} for _ in sizes)])


def _inserted(value: ir.Value, largest: dict[int, ir.Value]) -> ir.Value:
    kind, rank = value.type, value.type.rank
    sizes = [largest[axis] if axis in largest else dim(value, axis) for axis in range(rank) if kind.shape[axis] < 0]
    destination = tensor.EmptyOp(mixed_sizes(kind, sizes), kind.element_type).result
    inner_sizes = [dim(value, axis) for axis in range(rank) if kind.shape[axis] < 0]
    return tensor.insert_slice(value, destination, [], inner_sizes, [], [0] * rank, list(kind.shape), [1] * rank)
