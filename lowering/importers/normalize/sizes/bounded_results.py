"""Results of sizes that only the run shows become arrays of the largest size they can have, and numbers.

Takes a function on tensors. Gives it with every result whose size depends on elements, not on the arguments' sizes
alone, inside of an array of a size that does not, and with one more result that says the size. A size can be no larger
than what it was cut from, nor than what it was compared with by `minsi`. Leaves results of which neither is known.

    -> tensor<?xf32>   ──►   -> (tensor<40xf32> {mlirtri.lengths = [0, 1]}, tensor<i64>)
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import arith, func, ir, public_functions, tensor
from mlirtri.lowering.core.size_program import OPERATIONS
from mlirtri.lowering.mlir.aliasing import terminator
from mlirtri.lowering.mlir.attributes import LENGTHS, argument_attributes, result_attributes, set_signature
from mlirtri.lowering.mlir.index_values import index_constant
from mlirtri.lowering.sizes.conditions import dim
from mlirtri.lowering.sizes.infer_size_program import numbers_of
from mlirtri.lowering.sizes.loop_sizes import DESTINATION_STYLE

Axis = tuple[int, int]
"""A result and an axis of it."""
MOST_STEPS = 64
"""How far back a size is followed."""


def rewrite(module: ir.Module) -> None:
    """Change the results of the only function, in place."""
    [function] = public_functions(module)
    axes = _open_axes(function)
    if not axes:
        return
    known = numbers_of(module, lambda clone: [dim(_results(clone)[result], axis) for result, axis in _open_axes(clone)])
    unknown = [axis for axis, value in zip(axes, known.values, strict=True) if value is None]
    if not unknown:
        return
    end = terminator(function.regions[0].blocks[0])
    with ir.InsertionPoint(end), end.location:
        bounds = {(result, axis): _largest(end.operands[result], axis, MOST_STEPS) for result, axis in unknown}
    _give_largest(function, {axis: bound for axis, bound in bounds.items() if bound is not None})


def _results(function: func.FuncOp) -> list[ir.Value]:
    return list(terminator(function.regions[0].blocks[0]).operands)


def _open_axes(function: func.FuncOp) -> list[Axis]:
    kinds = [value.type for value in _results(function)]
    return [(result, axis) for result, kind in enumerate(kinds) for axis, size in enumerate(kind.shape) if size < 0]


# --- how large a size can be -----------------------------------------------------------------------------------------


def _largest(value: ir.Value, axis: int, depth: int) -> ir.Value | None:
    """A number that the size of an axis of `value` cannot be above, made at the insertion point."""
    size = value.type.shape[axis]
    if size >= 0:
        return index_constant(size)
    if isinstance(value.owner, ir.Block):
        return tensor.dim(value, index_constant(axis))
    operation = value.owner.operation
    if depth == 0:
        return None
    if operation.name == "tensor.empty":
        unknown = [position for position, size in enumerate(value.type.shape) if size < 0]
        return _most(operation.operands[unknown.index(axis)], depth - 1)
    if operation.name == "tensor.extract_slice" and value.type.rank == operation.operands[0].type.rank:
        return _of_slice(operation, axis, depth - 1)
    if operation.name == "tensor.expand_shape":
        return _of_expanded(operation, axis, depth - 1)
    if operation.name.startswith(DESTINATION_STYLE):
        return _largest(
            operation.operands[len(operation.operands) - len(operation.results) + value.result_number], axis, depth - 1
        )
    if operation.name in ("tensor.insert", "tensor.insert_slice"):
        return _largest(operation.operands[1], axis, depth - 1)
    return _largest(operation.operands[0], axis, depth - 1) if operation.name == "tensor.cast" else None


def _of_slice(operation: ir.Operation, axis: int, depth: int) -> ir.Value | None:
    static = list(operation.attributes["static_sizes"])
    before = sum(size < 0 for size in static[:axis])
    offsets = list(operation.attributes["operandSegmentSizes"])[1]
    size = _most(operation.operands[1 + offsets + before], depth)
    return size if size is not None else _largest(operation.operands[0], axis, depth)


def _of_expanded(operation: ir.Operation, axis: int, depth: int) -> ir.Value | None:
    """Of an axis that only axes of size 1 were put beside."""
    shape = list(operation.attributes["static_output_shape"])
    for source, group in enumerate(operation.attributes["reassociation"]):
        axes = [position.value for position in group]
        if axis in axes and all(position == axis or shape[position] == 1 for position in axes):
            return _largest(operation.operands[0], source, depth)
    return None


def _most(number: ir.Value, depth: int) -> ir.Value | None:
    """A number that `number` cannot be above, made at the insertion point of what is known there before the run."""
    if isinstance(number.owner, ir.Block) or depth == 0:
        return None
    if _is_of_sizes(number, depth):
        is_index = isinstance(number.type, ir.IndexType)
        return number if is_index else arith.index_cast(ir.IndexType.get(), number)
    operation = number.owner.operation
    if operation.name == "tensor.dim":
        axis = operation.operands[1].owner.operation if not isinstance(operation.operands[1].owner, ir.Block) else None
        known = axis is not None and axis.name == "arith.constant"
        return _largest(operation.operands[0], axis.attributes["value"].value, depth - 1) if known else None
    if operation.name == "arith.index_cast":
        return _most(operation.operands[0], depth - 1)
    bounds = (
        [_most(operand, depth - 1) for operand in list(operation.operands)[-2:]] if operation.name in _OF_TWO else []
    )
    if operation.name == "arith.minsi":
        known = [bound for bound in bounds if bound is not None]
        return arith.minsi(*known) if len(known) == 2 else next(iter(known), None)
    if not bounds or any(bound is None for bound in bounds):
        return None
    return arith.addi(*bounds) if operation.name == "arith.addi" else arith.maxsi(*bounds)


def _is_of_sizes(number: ir.Value, depth: int) -> bool:
    """Whether a number is arithmetic on the sizes of arguments."""
    if isinstance(number.owner, ir.Block) or depth == 0:
        return False
    operation = number.owner.operation
    if operation.name == "tensor.dim":
        return isinstance(operation.operands[0].owner, ir.Block)
    if operation.name not in OPERATIONS and operation.name != "affine.apply":
        return operation.name == "arith.constant"
    return all(_is_of_sizes(operand, depth - 1) for operand in operation.operands)


_OF_TWO = ("arith.minsi", "arith.maxsi", "arith.select", "arith.addi")


# --- results ---------------------------------------------------------------------------------------------------------


def _give_largest(function: func.FuncOp, bounds: dict[Axis, ir.Value]) -> None:
    """Return arrays of the sizes `bounds` around the results, and the results' own sizes behind all others."""
    end = terminator(function.regions[0].blocks[0])
    arguments, results = argument_attributes(function), result_attributes(function)
    values, lengths = list(end.operands), []
    with ir.InsertionPoint(end), end.location:
        for result, value in enumerate(list(end.operands)):
            axes = [axis for owner, axis in bounds if owner == result]
            if not axes:
                continue
            numbers = []
            for axis in axes:
                numbers += [axis, len(values) + len(lengths)]
                size = arith.index_cast(ir.IntegerType.get_signless(64), dim(value, axis))
                lengths.append(tensor.from_elements(ir.RankedTensorType.get([], size.type), [size]))
            results[result][LENGTHS] = ir.DenseI64ArrayAttr.get(numbers)
            values[result] = _inside_of(value, {axis: bounds[result, axis] for axis in axes})
        ir.Operation.create(end.name, operands=[*values, *lengths])
    end.erase()
    set_signature(function, arguments, [*results, *({} for _ in lengths)])


def _inside_of(value: ir.Value, largest: dict[int, ir.Value]) -> ir.Value:
    kind, rank = value.type, value.type.rank
    sizes = [largest[axis] if axis in largest else dim(value, axis) for axis in range(rank) if kind.shape[axis] < 0]
    whole = tensor.EmptyOp(_mixed(kind, sizes), kind.element_type).result
    own = [dim(value, axis) for axis in range(rank) if kind.shape[axis] < 0]
    return tensor.insert_slice(value, whole, [], own, [], [0] * rank, list(kind.shape), [1] * rank)


def _mixed(kind: ir.RankedTensorType, sizes: list[ir.Value]) -> list[int | ir.Value]:
    unknown = iter(sizes)
    return [size if size >= 0 else next(unknown) for size in kind.shape]
