"""Lower StableHLO's arithmetic on sizes, small integer tensors, to scalars, JAX's assertions on sizes to `cf.assert`.

    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>

as the shape operand of an operation becomes `tensor.from_elements` of two scalars, which later stages trace back to the
sizes and the elements of arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import prod

from mlirtri.dialect.bindings.mlir import all_operations, arith, ir, operations_named, tensor
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.reading import definition, integer_constant

ASSERTION = "shape_assertion"
"""The target of the custom call that JAX asserts sizes by."""
SHAPES = {
    "stablehlo.dynamic_broadcast_in_dim": (1,), "stablehlo.dynamic_conv": (2,), "stablehlo.dynamic_gather": (2,),
    "stablehlo.dynamic_iota": (0,), "stablehlo.dynamic_pad": (2, 3, 4), "stablehlo.dynamic_reshape": (1,),
    "stablehlo.real_dynamic_slice": (1, 2, 3),
}  # fmt: skip
"""Operations with operands that are shapes, and the positions of these."""
MOST_ELEMENTS, MOST_STEPS = 64, 200
"""The largest tensor that is written out, and how many operations an element is traced back."""

Elements = list[ir.Value]


def rewrite(module: ir.Module) -> None:
    """Write out what sizes are computed from, in place, if the module has sizes that are known at run time only."""
    if not has_dynamic_sizes(module):
        return
    for name, positions in SHAPES.items():
        for operation in operations_named(module, name):
            with operation.location, ir.InsertionPoint(operation):
                for position in positions:
                    operation.operands[position] = _written_out(operation.operands[position])
    for operation in operations_named(module, "stablehlo.get_dimension_size"):
        with operation.location, ir.InsertionPoint(operation):
            elements = tensor.from_elements(operation.results[0].type, _dimension_size(operation, MOST_STEPS))
        replace(operation, [elements])
    for operation in operations_named(module, "stablehlo.custom_call"):
        if ir.StringAttr(operation.attributes["call_target_name"]).value == ASSERTION:
            with operation.location, ir.InsertionPoint(operation):
                _assert(operation)
            operation.erase()


def has_dynamic_sizes(module: ir.Module) -> bool:
    """Return whether a size, or an operation on sizes, is known at run time only."""
    values = (value for operation in all_operations(module) for value in (*operation.results, *_arguments(operation)))
    kinds = (value.type for value in values if isinstance(value.type, ir.RankedTensorType))
    return bool(operations_named(module, "stablehlo.get_dimension_size")) or any(
        not kind.has_static_shape for kind in kinds
    )


def _arguments(operation: ir.Operation) -> Iterator[ir.Value]:
    for region in operation.regions:
        for block in region.blocks:
            yield from block.arguments


def shape_elements(value: ir.Value) -> list[int | ir.Value]:
    """Return the elements of a shape operand as integers or `index` values, at the insertion point."""
    sizes: list[int | ir.Value] = []
    for element in _elements(value, MOST_STEPS):
        if (number := integer_constant(element)) is not None:
            sizes.append(number)
        elif isinstance(element.type, ir.IndexType):
            sizes.append(element)
        else:
            sizes.append(arith.index_cast(ir.IndexType.get(), element))
    return sizes


def _written_out(value: ir.Value) -> ir.Value:
    if not value.type.has_static_shape or not value.type.shape[0] or definition(value) is None:
        return value
    return tensor.from_elements(value.type, _elements(value, MOST_STEPS))


def _elements(value: ir.Value, steps: int) -> Elements:
    """Return the elements in row-major order, as scalars."""
    operation = definition(value)
    if operation is not None and steps > 0 and _is_small(operation):
        rule = _RULES.get(operation.name)
        if (elements := rule(operation, steps - 1) if rule is not None else None) is not None:
            return elements
    shape = list(value.type.shape)
    return [tensor.extract(value, [index_constant(number) for number in index]) for index in _indices(shape)]


def _is_small(operation: ir.Operation) -> bool:
    """Return whether all tensors are short lists of signless integers; others are left to the lowering of elements."""
    shapes = [operation.results[0].type]
    if operation.name != "stablehlo.get_dimension_size":
        shapes += [value.type for value in operation.operands]
    return all(
        isinstance(kind, ir.RankedTensorType)
        and kind.has_static_shape
        and prod(kind.shape) <= MOST_ELEMENTS
        and isinstance(kind.element_type, (ir.IntegerType, ir.IndexType))
        and (isinstance(kind.element_type, ir.IndexType) or kind.element_type.is_signless)
        for kind in shapes
    )


def _indices(shape: list[int]) -> list[list[int]]:
    indices: list[list[int]] = [[]]
    for size in shape:
        indices = [[*index, number] for index in indices for number in range(size)]
    return indices


def _dimension_size(operation: ir.Operation, _steps: int) -> Elements:
    axis = index_constant(ir.IntegerAttr(operation.attributes["dimension"]).value)
    size = tensor.dim(operation.operands[0], axis)
    return [arith.index_cast(operation.results[0].type.element_type, size)]


def _constant(operation: ir.Operation, _steps: int) -> Elements | None:
    attribute, kind = operation.attributes["value"], operation.results[0].type
    if not isinstance(attribute, ir.DenseIntElementsAttr):
        return None
    return [arith.constant(kind.element_type, int(attribute[number])) for number in range(prod(kind.shape))]


def _same(operation: ir.Operation, steps: int) -> Elements:
    return _elements(operation.operands[0], steps)


def _convert(operation: ir.Operation, steps: int) -> Elements | None:
    source, target = operation.operands[0].type.element_type, operation.results[0].type.element_type
    if isinstance(source, ir.IndexType) or isinstance(target, ir.IndexType):
        return [arith.index_cast(target, element) for element in _elements(operation.operands[0], steps)]
    if target.width == 1:
        return None
    widen = arith.extui if source.width == 1 else arith.extsi
    cast = widen if target.width > source.width else arith.trunci if target.width < source.width else None
    elements = _elements(operation.operands[0], steps)
    return elements if cast is None else [cast(target, element) for element in elements]


def _concatenate(operation: ir.Operation, steps: int) -> Elements | None:
    if operation.results[0].type.rank != 1:
        return None
    return [element for operand in operation.operands for element in _elements(operand, steps)]


def _broadcast(operation: ir.Operation, steps: int) -> Elements | None:
    count, repeated = (prod(value.type.shape) for value in (operation.operands[0], operation.results[0]))
    if count == repeated:
        return _elements(operation.operands[0], steps)
    return _elements(operation.operands[0], steps) * repeated if count == 1 else None


def _slice(operation: ir.Operation, steps: int) -> Elements | None:
    if operation.results[0].type.rank != 1:
        return None
    [first], [last], [step] = (list(operation.attributes[name]) for name in _BOUNDS)
    return _elements(operation.operands[0], steps)[first:last:step]


_BOUNDS = ("start_indices", "limit_indices", "strides")


def _select(operation: ir.Operation, steps: int) -> Elements:
    conditions, *values = (_elements(operand, steps) for operand in operation.operands)
    conditions = conditions * len(values[0]) if len(conditions) == 1 else conditions
    return [arith.select(*of) for of in zip(conditions, *values, strict=True)]


def _compare(operation: ir.Operation, steps: int) -> Elements | None:
    kind = operation.operands[0].type.element_type
    if isinstance(kind, ir.IntegerType) and kind.width == 1:
        return None
    direction = re.search(r"comparison_direction (\w+)", str(operation.attributes["comparison_direction"]))
    predicate = _PREDICATES[direction[1]] if direction else None
    if predicate is None:
        return None
    pairs = zip(*(_elements(operand, steps) for operand in operation.operands), strict=True)
    return [arith.cmpi(predicate, *pair) for pair in pairs]


_PREDICATES = {
    "EQ": arith.CmpIPredicate.eq, "NE": arith.CmpIPredicate.ne, "LT": arith.CmpIPredicate.slt,
    "LE": arith.CmpIPredicate.sle, "GT": arith.CmpIPredicate.sgt, "GE": arith.CmpIPredicate.sge,
}  # fmt: skip


def _binary(build: Callable[[ir.Value, ir.Value], ir.Value]) -> Callable[[ir.Operation, int], Elements | None]:
    def rule(operation: ir.Operation, steps: int) -> Elements | None:
        kind = operation.results[0].type.element_type
        if isinstance(kind, ir.IntegerType) and kind.width == 1 and build not in (arith.andi, arith.ori, arith.xori):
            return None
        pairs = zip(*(_elements(operand, steps) for operand in operation.operands), strict=True)
        return [build(*pair) for pair in pairs]

    return rule


def _negate(operation: ir.Operation, steps: int) -> Elements:
    kind = operation.results[0].type.element_type
    return [arith.subi(arith.constant(kind, 0), element) for element in _elements(operation.operands[0], steps)]


def _not(operation: ir.Operation, steps: int) -> Elements:
    kind = operation.results[0].type.element_type
    ones = 1 if isinstance(kind, ir.IntegerType) and kind.width == 1 else -1
    return [arith.xori(element, arith.constant(kind, ones)) for element in _elements(operation.operands[0], steps)]


_RULES: dict[str, Callable[[ir.Operation, int], Elements | None]] = {
    "stablehlo.add": _binary(arith.addi),
    "stablehlo.and": _binary(arith.andi),
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.compare": _compare,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.constant": _constant,
    "stablehlo.convert": _convert,
    "stablehlo.divide": _binary(arith.divsi),
    "stablehlo.get_dimension_size": _dimension_size,
    "stablehlo.maximum": _binary(arith.maxsi),
    "stablehlo.minimum": _binary(arith.minsi),
    "stablehlo.multiply": _binary(arith.muli),
    "stablehlo.negate": _negate,
    "stablehlo.not": _not,
    "stablehlo.or": _binary(arith.ori),
    "stablehlo.remainder": _binary(arith.remsi),
    "stablehlo.reshape": _same,
    "stablehlo.select": _select,
    "stablehlo.slice": _slice,
    "stablehlo.subtract": _binary(arith.subi),
    "tensor.from_elements": lambda operation, _steps: list(operation.operands),
}


def _assert(operation: ir.Operation) -> None:
    message = "the sizes of the arguments do not match"
    if "error_message" in operation.attributes:
        # The message refers by number to values that nobody fills in.
        error_message = ir.StringAttr(operation.attributes["error_message"]).value
        message = re.sub(r"\s*[^.;]*\{\d+\}[^.;]*[.;]?", "", error_message).strip() or message
    [holds] = _elements(operation.operands[0], MOST_STEPS)
    ir.Operation.create("cf.assert", operands=[holds], attributes={"msg": ir.StringAttr.get(message)})
