"""Decide which functions are imperative: compiled as loops, as one unit, instead of as one kernel per operation.

A module is imperative, at any stage, if it has control flow, dynamic shapes, complex elements or strided arguments; or
if it updates arguments and multiplies no matrices. Straight-line tensor code of static shapes is not.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import all_operations, ir, public_functions
from mlirtri.lowering.mlir_common.attributes import noted_strides, strides_of

UPDATED_BY = "mlirtri.updated_by"
"""Attribute of a function's argument: the index of the result that is the argument's new content."""
PRODUCTS = ("tri.matmul", "linalg.matmul", "linalg.batch_matmul")
ELEMENTS = ("tensor.insert", "memref.load", "memref.store")
"""Operations that occur outside `linalg` bodies only in imperative code."""
SLICES = {"tensor.extract_slice": 1, "tensor.insert_slice": 2, "tensor.pad": 1}
"""Slicing operations, with their number of operands when all offsets and sizes are static."""


def is_imperative(module: ir.Module) -> bool:
    """Return whether any function of `module` must, or better should, be compiled as one imperative unit.

    A function that only updates its arguments could be either: in place it copies nothing, but a matmul justifies the
    copy, since straight-line code has schedules for it.
    """
    operations, functions = all_operations(module), public_functions(module)
    # The type of an unused argument shows in no operation.
    arguments = [argument for function in functions for argument in function.regions[0].blocks[0].arguments]
    if (
        noted_strides(module)
        or any(map(strides_of, functions))
        or any(_needs_loops(argument.type) for argument in arguments)
        or any(map(is_imperative_operation, operations))
    ):
        return True
    updates = any(updates_of(function) for function in functions)
    return updates and not any(_is_product(operation) for operation in operations)


def _is_product(operation: ir.Operation) -> bool:
    """Return whether an operation is a matmul in which neither operand is a row or a column."""
    if operation.name in PRODUCTS:
        result = operation.results[0].type if len(operation.results) else None
        return isinstance(result, ir.RankedTensorType) and 1 not in list(result.shape)[-2:]
    if operation.name != "linalg.generic":
        return False
    iterators = str(operation.attributes["iterator_types"])
    return "reduction" in iterators and iterators.count("parallel") >= 2 and len(operation.operands) >= 3


def updates_of(function: ir.OpView) -> dict[int, int]:
    """Return the arguments that a function updates, with the results that have their new contents."""
    if "arg_attrs" not in function.attributes:
        return {}
    attributes = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
    return {
        position: attribute[UPDATED_BY].value
        for position, attribute in enumerate(attributes)
        if UPDATED_BY in attribute
    }


def is_imperative_operation(operation: ir.Operation) -> bool:
    """Return whether an operation, apart from its regions, needs loops of its own."""
    name = operation.name
    if name.startswith(("scf.", "complex.")):
        return True
    if name in ELEMENTS and operation.parent.name == "func.func":
        return True
    if name in SLICES and len(operation.operands) > SLICES[name]:
        return True
    return any(_needs_loops(value.type) for value in (*operation.operands, *operation.results))


def _needs_loops(type_: ir.Type) -> bool:
    if not isinstance(type_, ir.RankedTensorType | ir.MemRefType):
        return False
    return not type_.has_static_shape or isinstance(type_.element_type, ir.ComplexType)
