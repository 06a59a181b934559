"""Assert what eager torch raises for at run time: indices inside of their tensors, divisors other than zero.

Takes a module in linalg, as torch-mlir lowers it. Gives it with a `cf.assert` before each read at an index and each
integer division that depends on data. What range analysis proves gets none.

    tensor.extract %x[%i]   ──►   cf.assert %i <u dim; tensor.extract %x[%i]
    arith.divsi %x, %y      ──►   cf.assert %y != 0; arith.divsi %x, %y
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir
from mlirtri.errors import ProgramDivisionError, ProgramIndexError
from mlirtri.lowering.mlir_common.attributes import ERROR, KERNEL
from mlirtri.lowering.mlir_common.index_bounds import bounds_of
from mlirtri.lowering.mlir_common.index_values import index_value, size_of
from mlirtri.lowering.mlir_common.reading import definition

DIVISION_MESSAGE = "ZeroDivisionError: an integer is divided by zero"
INDEX_MESSAGE = "an index is out of bounds"
INDEX_MESSAGES = ("index must be larger or equal to 0", "index must be smaller than dim size")
"""What torch-mlir's own assertions on indices say."""
DIVISIONS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")
)
_FROM_INTEGER = ("arith.sitofp", "arith.uitofp")
_TO_INTEGER = ("arith.fptosi", "arith.fptoui")


def rewrite(module: ir.Module) -> None:
    """Assert before gathers that indices are inside, before integer divisions that the divisor is not 0."""
    functions = [operation for operation in module.body.operations if KERNEL not in operation.attributes]
    for operation in [inner for function in functions for inner in all_operations_in(function)]:
        with operation.location, ir.InsertionPoint(operation):
            if operation.name == "tensor.extract":
                _check_indices(operation)
            elif operation.name == "cf.assert" and operation.attributes["msg"].value in INDEX_MESSAGES:
                operation.attributes["msg"] = ir.StringAttr.get(INDEX_MESSAGE)
                operation.attributes[ERROR] = ir.StringAttr.get(ProgramIndexError.__name__)
            elif (divisor := _divisor(operation)) is not None:
                _check_divisor(divisor)


def _check_indices(extract: ir.Operation) -> None:
    if extract.parent.operation.name != "linalg.generic" or _has_assertions(extract.parent.operation):
        return
    source, *indices = extract.operands
    outside = [axis for axis, index in enumerate(indices) if not _is_inside(index, source.type.shape[axis])]
    for axis in outside:
        if not _is_data(indices[axis]):
            continue
        with ir.InsertionPoint(extract.parent.operation):
            size = index_value(size_of(source, axis))
        text = "" if source.type.is_dynamic_dim(axis) else f" for an axis of size {source.type.shape[axis]}"
        is_inside = arith.cmpi(arith.CmpIPredicate.ult, indices[axis], size)
        _assert(is_inside, INDEX_MESSAGE + text, ProgramIndexError)


def _has_assertions(generic: ir.Operation) -> bool:
    """Return whether torch-mlir has checked the indices, as in `gather`."""
    return any(
        operation.operation.name == "cf.assert" and ERROR in operation.operation.attributes
        and operation.operation.attributes["msg"].value == INDEX_MESSAGE
        for operation in generic.regions[0].blocks[0].operations
    )  # fmt: skip


def _is_inside(index: ir.Value, size: int) -> bool:
    bounds = bounds_of(index)
    return bounds is not None and bounds.low >= 0 and 0 <= bounds.high < size


def _divisor(operation: ir.Operation) -> ir.Value | None:
    """Return the divisor of an integer division, which torch-mlir may compute in floats."""
    if operation.name in DIVISIONS:
        return operation.operands[1]
    conversion = definition(operation.operands[1]) if operation.name == "arith.divf" else None
    if conversion is None:
        return None
    is_integer = conversion.name in _FROM_INTEGER and _is_rounded(operation.results[0])
    return conversion.operands[0] if is_integer else None


def _is_rounded(quotient: ir.Value) -> bool:
    """Return whether a float becomes an integer, at most rounded before."""
    users = [use.owner.operation for use in quotient.uses]
    return any(
        user.name in _TO_INTEGER or (user.name.startswith("math.") and _is_rounded(user.results[0])) for user in users
    )


def _check_divisor(divisor: ir.Value) -> None:
    bounds = bounds_of(divisor)
    if isinstance(divisor.type, ir.IndexType) or not _is_data(divisor):
        return
    if bounds is not None and (bounds.low > 0 or bounds.high < 0):
        return
    is_divisor = arith.cmpi(arith.CmpIPredicate.ne, divisor, arith.constant(divisor.type, 0))
    _assert(is_divisor, DIVISION_MESSAGE, ProgramDivisionError)


def _is_data(value: ir.Value) -> bool:
    """Return whether an integer depends on elements or numbers, and not on sizes and loop counters alone."""
    operation = definition(value)
    if operation is None:
        return isinstance(value.type, ir.IntegerType)
    if operation.name == "tensor.dim":
        return False
    return operation.name == "tensor.extract" or any(map(_is_data, operation.operands))


def _assert(condition: ir.Value, message: str, error: type[Exception]) -> None:
    attributes = {"msg": ir.StringAttr.get(message), ERROR: ir.StringAttr.get(error.__name__)}
    ir.Operation.create("cf.assert", operands=[condition], attributes=attributes)
