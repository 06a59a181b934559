"""Lower StableHLO's `sort`, `scatter` and `select_and_scatter`, whose regions compare or combine elements.

Upstream's lowering leaves them, with regions of linalg on rank-0 tensors. A sort becomes `tm_tensor.sort`, the others
loops of `scf`: updates are applied in order, and a `scatter` drops those out of bounds. A window of
`select_and_scatter`, the gradient of a pool, selects the first among equal elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import arith, dimension_numbers, ir, linalg_fill, operations_named, scf, tensor
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import index_constant, index_value, loop_nest, sizes_of

Values = list[ir.Value]


def _rewriting(name: str, lower: Callable[[ir.Operation], Sequence[ir.Value]]) -> Callable[[ir.Module], None]:
    def rewrite(module: ir.Module) -> None:
        for operation in operations_named(module, name):
            with operation.location, ir.InsertionPoint(operation):
                results = lower(operation)
            replace(operation, results)

    return rewrite


def _sorted(operation: ir.Operation) -> Sequence[ir.Value]:
    types = [result.type for result in operation.results]
    attributes = {
        "dimension": operation.attributes["dimension"],
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(types)]),
    }
    sort = ir.Operation.create("tm_tensor.sort", types, list(operation.operands), attributes, regions=1)
    elements = [kind.element_type for kind in types for _ in range(2)]
    block = sort.regions[0].blocks.append(*elements, arg_locs=[operation.location] * len(elements))
    with ir.InsertionPoint(block):
        # StableHLO's region returns whether the first element comes before the second, torch-mlir's whether it may stay
        # there, which holds for equal elements.
        pairs = list(zip(block.arguments[0::2], block.arguments[1::2], strict=True))
        swapped = [element for first, second in pairs for element in (second, first)]
        [comes_after] = inline_scalars(operation.regions[0].blocks[0], swapped)
        stays = arith.xori(comes_after, arith.constant(comes_after.type, 1))
        ir.Operation.create("tm_tensor.yield", operands=[stays])
    return sort.results


def _scattered(operation: ir.Operation) -> Sequence[ir.Value]:
    count = (len(operation.operands) - 1) // 2
    operands, indices = list(operation.operands[:count]), operation.operands[count]
    updates = list(operation.operands[count + 1 :])
    dimensions = dimension_numbers("Scatter", operation.attributes["scatter_dimension_numbers"])

    def element(loop_indices: Values, carried: Values) -> Values:
        target = _target_index(loop_indices, indices, dimensions, operands[0].type.rank)
        in_bounds = is_in_bounds(target, operands[0])
        branch = scf.IfOp(in_bounds, [value.type for value in carried], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            old = [tensor.extract(operand, target) for operand in carried]
            new = [tensor.extract(update, loop_indices) for update in updates]
            values = inline_scalars(operation.regions[0].blocks[0], [*old, *new])
            scf.YieldOp([tensor.insert(v, into, target) for v, into in zip(values, carried, strict=True)])
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(carried)
        return list(branch.results)

    return loop_nest(sizes_of(updates[0]), operands, element)


def _target_index(loop_indices: list[ir.Value], indices: ir.Value, dimensions: Any, rank: int) -> list[ir.Value]:
    scattered = [index for loop, index in enumerate(loop_indices) if loop not in dimensions.update_window_dims]
    window = iter(index for loop, index in enumerate(loop_indices) if loop in dimensions.update_window_dims)
    skipped = (*dimensions.inserted_window_dims, *dimensions.input_batching_dims)
    target = [index_constant(0) if axis in skipped else next(window) for axis in range(rank)]
    for column, dimension in enumerate(dimensions.scattered_dims_to_operand_dims):
        start = start_index(indices, scattered, column, dimensions.index_vector_dim)
        target[dimension] = arith.addi(target[dimension], start)
    batches = zip(dimensions.input_batching_dims, dimensions.scatter_indices_batching_dims, strict=True)
    for dimension, of_indices in batches:
        target[dimension] = scattered[of_indices - (of_indices > dimensions.index_vector_dim)]
    return target


def start_index(indices: ir.Value, scattered: Sequence[ir.Value], column: int, vector_dim: int) -> ir.Value:
    """Return one index of a start, whose indices stand along axis `vector_dim` of the start indices."""
    position = list(scattered)
    if vector_dim < indices.type.rank:
        position.insert(vector_dim, index_constant(column))
    return arith.index_cast(ir.IndexType.get(), tensor.extract(indices, position))


def is_in_bounds(position: list[ir.Value], operand: ir.Value) -> ir.Value:
    """Return whether `position` is in bounds; as unsigned, a negative index is too large."""
    in_bounds = arith.constant(ir.IntegerType.get_signless(1), 1)
    for index, size in zip(position, sizes_of(operand), strict=True):
        in_bounds = arith.andi(in_bounds, arith.cmpi(arith.CmpIPredicate.ult, index, index_value(size)))
    return in_bounds


def _selected(operation: ir.Operation) -> Sequence[ir.Value]:
    operand, source, start = operation.operands
    rank = operand.type.rank
    window = numbers_of(operation, "window_dimensions", [1] * rank)
    strides = numbers_of(operation, "window_strides", [1] * rank)
    padding = numbers_of(operation, "padding", [0] * 2 * rank)[::2]
    empty = tensor.empty(sizes_of(operand), operand.type.element_type)
    filled = linalg_fill(tensor.extract(start, []), empty)

    def add_to_selected(window_index: Values, carried: Values) -> Values:
        corner = [
            arith.subi(arith.muli(index, index_constant(step)), index_constant(low))
            for index, step, low in zip(window_index, strides, padding, strict=True)
        ]
        first = [_boolean(False), tensor.extract(start, []), *[index_constant(0)] * rank]
        is_found, _, *position = loop_nest(
            window, first, lambda offset, best: _select_element(operation, corner, offset, best)
        )
        branch = scf.IfOp(is_found, [carried[0].type], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            elements = [tensor.extract(carried[0], position), tensor.extract(source, window_index)]
            [value] = inline_scalars(operation.regions[1].blocks[0], elements)
            scf.YieldOp([tensor.insert(value, carried[0], position)])
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(carried)
        return list(branch.results)

    return loop_nest(sizes_of(source), [filled], add_to_selected)


def pad_windows_apart(module: ir.Module) -> None:
    """Give windows that do not overlap a padding that moves none of them, in place.

    Upstream lowers such a `select_and_scatter` only where nothing is padded, and wrongly: it selects the last among
    equal elements, and fails for unsigned ones. With a padding it is left to `REWRITES`.
    """
    for operation in operations_named(module, "stablehlo.select_and_scatter"):
        shape = operation.operands[0].type.shape
        window, strides = (
            numbers_of(operation, name, [1] * len(shape)) for name in ("window_dimensions", "window_strides")
        )
        padding = numbers_of(operation, "padding", [0] * 2 * len(shape))
        apart = [axis for axis, stride in enumerate(strides) if stride > 1 and stride >= window[axis]]
        if not apart or any(padding):
            continue
        axis = apart[0]
        remainder = (shape[axis] - window[axis]) % strides[axis]
        padding[2 * axis + 1] = 1 if remainder + 1 < strides[axis] else -1
        with operation.context:
            numbers = np.array(padding, np.int64).reshape(-1, 2)
            operation.attributes["padding"] = ir.DenseIntElementsAttr.get(numbers)


def _select_element(operation: ir.Operation, corner: Values, offset: Values, best: Values) -> Values:
    operand = operation.operands[0]
    is_found, value, *position = best
    element = [arith.addi(*pair) for pair in zip(corner, offset, strict=True)]
    branch = scf.IfOp(is_in_bounds(element, operand), [value.type for value in best], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        new = tensor.extract(operand, element)
        [keeps] = inline_scalars(operation.regions[0].blocks[0], [value, new])
        keeps = arith.andi(is_found, keeps)
        values = [arith.select(keeps, *pair) for pair in zip([value, *position], [new, *element], strict=True)]
        scf.YieldOp([_boolean(True), *values])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp(best)
    return list(branch.results)


def numbers_of(operation: ir.Operation, name: str, otherwise: list[int]) -> list[int]:
    """Return an attribute of several integers, or `otherwise` without one."""
    if name not in operation.attributes:
        return otherwise
    attribute = operation.attributes[name]
    if isinstance(attribute, ir.DenseElementsAttr):
        return [int(value) for value in ir.DenseIntElementsAttr(attribute)]
    return list(attribute)


def _boolean(value: bool) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(1), int(value))


Scalars = dict[ir.Value, ir.Value]


def inline_scalars(block: ir.Block, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """Return what `block` returns for these scalars; raises `UnsupportedOperationError` for larger tensors."""
    scalars: Scalars = dict(zip(block.arguments, arguments, strict=True))
    *operations, last = block.operations
    for inner in operations:
        operation = inner.operation
        if operation.name in _RULES:
            _RULES[operation.name](operation, scalars)
        elif operation.regions or any(isinstance(result.type, ir.ShapedType) for result in operation.results):
            raise UnsupportedOperationError(
                f"{operation.name} in a region that compares or combines elements is not lowered to linalg",
                span_of(operation.location),
                help="compare or combine elements by scalar operations",
            )
        else:
            _clone(operation, scalars)
    return [_scalar(value, scalars) for value in last.operands]


def _scalar(value: ir.Value, scalars: Scalars) -> ir.Value:
    if value not in scalars:
        scalars[value] = tensor.extract(value, []) if isinstance(value.type, ir.ShapedType) else value
    return scalars[value]


def _clone(operation: ir.Operation, scalars: Scalars) -> None:
    copy = operation.clone()
    for position, operand in enumerate(operation.operands):
        copy.operands[position] = scalars.get(operand, operand)
    scalars.update(zip(operation.results, copy.results, strict=True))


def _generic(operation: ir.Operation, scalars: Scalars) -> None:
    body = operation.regions[0].blocks[0]
    for argument, operand in zip(body.arguments, operation.operands, strict=True):
        if any(True for _ in argument.uses):
            scalars[argument] = _scalar(operand, scalars)
    *inner, last = body.operations
    for step in inner:
        _clone(step.operation, scalars)
    scalars.update(zip(operation.results, [scalars.get(value, value) for value in last.operands], strict=True))


def _constant(operation: ir.Operation, scalars: Scalars) -> None:
    attribute = operation.attributes["value"]
    if isinstance(operation.results[0].type, ir.ShapedType):
        attribute = ir.DenseElementsAttr(attribute).get_splat_value()
    scalars[operation.results[0]] = arith.ConstantOp(attribute.type, attribute).result


def _extract(operation: ir.Operation, scalars: Scalars) -> None:
    scalars[operation.results[0]] = _scalar(operation.operands[0], scalars)


def _skip(operation: ir.Operation, scalars: Scalars) -> None:
    """Skip a `tensor.empty`: its elements are not read."""


_RULES: dict[str, Callable[[ir.Operation, Scalars], None]] = {
    "linalg.generic": _generic,
    "arith.constant": _constant,
    "tensor.extract": _extract,
    "tensor.from_elements": _extract,
    "tensor.empty": _skip,
}
REWRITES = {
    "sorts": _rewriting("stablehlo.sort", _sorted),
    "scatters": _rewriting("stablehlo.scatter", _scattered),
    "selections": _rewriting("stablehlo.select_and_scatter", _selected),
}
"""The rewrites by the names that show among the passes of the stage, in order."""
