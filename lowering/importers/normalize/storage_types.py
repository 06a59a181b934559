"""Lower element types that targets cannot store to signless integers: 8-bit floats, odd widths, signs in types.

Arithmetic on 8-bit floats is done in fp32 and rounded after each operation, arithmetic on odd widths in the next wider
integer. Attributes keep the dtypes that arguments and results have in Python.

    %y = arith.extf %x : f8E5M2 to f32   ──►   shifts and selects on %x : i8
    %y = arith.addi %x, %x : i4          ──►   a sum of %x : i8, sign-extended from bit 3
"""

from __future__ import annotations

import re

import numpy as np

from mlirtri.dialect.base.dtypes import find_stored
from mlirtri.dialect.bindings.locations import errors_at
from mlirtri.dialect.bindings.mlir import all_operations, arith, func, ir, public_functions
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.arithmetic.float8 import FORMATS, Format, narrowed, widened
from mlirtri.lowering.importers.normalize.arithmetic.odd_integers import lower_in_storage_type, storage_type
from mlirtri.lowering.importers.normalize.arithmetic.total_arithmetic import INTO_BODIES
from mlirtri.lowering.mlir_common.attributes import (
    DTYPE,
    argument_attributes,
    note_signs,
    result_attributes,
    set_signature,
)
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.constants import odd_constant, operation_constant
from mlirtri.lowering.mlir_common.linalg_builder import generalize
from mlirtri.lowering.toolchain.mlir_passes import run_passes

_FLOAT8 = re.compile(r"f8E\w+|f4E\w+|f6E\w+")
_SIGNED = re.compile(r"[us]i(\d+)")
_ODD = re.compile(r"i(?!(?:1|8|16|32|64)$)(?:[0-9]|[1-5][0-9]|6[0-3])")
_CASTS = ("arith.bitcast", "tensor.bitcast", "builtin.unrealized_conversion_cast")
_TYPE_AGNOSTIC = ("arith.select", *_CASTS)
"""Operations of `arith` that do not depend on the element type."""


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Lower all such element types of `module`, in place; raises `UnsupportedOperationError`."""
    elements = {_element(kind) for kind in _kinds(module)}
    if not any(_is_foreign(element) for element in elements):
        return
    if any(_FLOAT8.fullmatch(element) or _ODD.fullmatch(element) for element in elements):
        _lower_foreign_arithmetic(module, context)
    [function] = public_functions(module)
    _note_dtypes(function)
    attributes = argument_attributes(function), result_attributes(function)
    for operation in all_operations(module):
        for value in (*operation.results, *(a for region in operation.regions for b in region for a in b.arguments)):
            value.set_type(_stored(value.type))
    for operation in all_operations(module):
        if operation.name in _CASTS and operation.operands[0].type == operation.results[0].type:
            replace(operation, [operation.operands[0]])
    set_signature(function, *attributes)


def _is_foreign(element: str) -> bool:
    return any(form.fullmatch(element) for form in (_FLOAT8, _SIGNED, _ODD))


def _kinds(module: ir.Module) -> list[ir.Type]:
    operations = all_operations(module)
    blocks = [block for operation in operations for region in operation.regions for block in region]
    results = [result.type for operation in operations for result in operation.results]
    return [*results, *(argument.type for block in blocks for argument in block.arguments)]


def _element(type_: ir.Type) -> str:
    return str(type_.element_type) if isinstance(type_, ir.ShapedType) else str(type_)


def _stored(type_: ir.Type) -> ir.Type:
    element = _element(type_)
    if _FLOAT8.fullmatch(element):
        stored = ir.IntegerType.get_signless(8)
    elif signed := _SIGNED.fullmatch(element):
        stored = ir.IntegerType.get_signless(int(signed[1]))
    else:
        stored = storage_type(type_.element_type if isinstance(type_, ir.ShapedType) else type_)
    if stored is None:
        return type_
    return ir.RankedTensorType.get(type_.shape, stored) if isinstance(type_, ir.RankedTensorType) else stored


def _note_dtypes(function: func.FuncOp) -> None:
    note_signs(function)
    groups = argument_attributes(function), result_attributes(function)
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    for types, attributes in zip((kind.inputs, kind.results), groups, strict=True):
        for type_, group in zip(types, attributes, strict=True):
            if (element := _element(type_)) in FORMATS:
                group[DTYPE] = ir.StringAttr.get(find_stored(element).name)
            elif element.startswith("si"):
                group[DTYPE] = ir.StringAttr.get(f"int{element[2:]}")
    set_signature(function, *groups)


def _lower_foreign_arithmetic(module: ir.Module, context: CompileContext) -> None:
    """Leave only moves of 8-bit floats and odd integers, and casts from and to the types that store them."""
    run_passes(module, INTO_BODIES, context)
    for operation in all_operations(module):
        if operation.name.startswith("linalg.") and operation.name != "linalg.generic" and _computes(operation):
            generalize(operation)
    # A conversion between the two first becomes one of the wider integer.
    for form, replacement in ((_ODD, _in_wider_integer), (_FLOAT8, _in_float32)):
        for operation in all_operations(module):
            if not _is_arithmetic(operation, form):
                continue
            with errors_at(operation), ir.InsertionPoint(operation), operation.location:
                values = _constant(operation) if operation.name == "arith.constant" else replacement(operation)
            replace(operation, values)


def _computes(operation: ir.Operation) -> bool:
    operations = [inner.operation for region in operation.regions for block in region for inner in block]
    return any(_is_arithmetic(inner, form) for inner in operations for form in (_ODD, _FLOAT8))


def _is_arithmetic(operation: ir.Operation, form: re.Pattern[str]) -> bool:
    if not operation.name.startswith(("arith.", "math.")) or operation.name in _TYPE_AGNOSTIC:
        return False
    return any(form.fullmatch(_element(value.type)) for value in (*operation.operands, *operation.results))


def _in_wider_integer(operation: ir.Operation) -> list[ir.Value]:
    result = lower_in_storage_type(operation, [_stored_wider(value) for value in operation.operands])
    kind = operation.results[0].type
    return [result if result.type == kind else _cast(kind, result)]


def _stored_wider(value: ir.Value) -> ir.Value:
    return value if storage_type(value.type) is None else _cast(storage_type(value.type), value)


def _format(type_: ir.Type) -> Format:
    if (format := FORMATS.get(_element(type_))) is None:
        raise UnsupportedOperationError(f"there is no dtype for {_element(type_)} here", help="use f8E4M3FN or f8E5M2")
    return format


def _constant(operation: ir.Operation) -> list[ir.Value]:
    kind = operation.results[0].type
    if _ODD.fullmatch(_element(kind)):
        return [_cast(kind, _odd_constant(operation, kind))]
    _format(kind)
    if isinstance(kind, ir.RankedTensorType):
        return [_cast(kind, _dense(operation_constant(operation).view(np.int8), _stored(kind)))]
    number = np.array(operation.attributes["value"].value).astype(find_stored(_element(kind)).numpy)
    return [_cast(kind, arith.constant(_stored(kind), int(number.view(np.int8))))]


def _odd_constant(operation: ir.Operation, type_: ir.Type) -> ir.Value:
    if isinstance(type_, ir.RankedTensorType):
        return _dense(odd_constant(operation), _stored(type_))
    return arith.constant(_stored(type_), operation.attributes["value"].value)


def _dense(array: np.ndarray, type_: ir.Type) -> ir.Value:
    return arith.constant(type_, ir.DenseElementsAttr.get(np.ascontiguousarray(array), type=type_))


def _in_float32(operation: ir.Operation) -> list[ir.Value]:
    """Compute in fp32 and round the results; conversions from integers go through fp64, which is exact for more."""
    operands = [_wide(value) for value in operation.operands]
    if operation.name == "arith.extf":
        return [_resized(operands[0], operation.results[0].type)]
    if operation.name == "arith.truncf":
        return [_rounded(_resized_to_32(operands[0]), operation.results[0].type)]
    middle = ir.F64Type.get() if operation.name in ("arith.sitofp", "arith.uitofp") else ir.F32Type.get()
    kinds = [middle if _FLOAT8.fullmatch(_element(result.type)) else result.type for result in operation.results]
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    computed = ir.Operation.create(operation.name, results=kinds, operands=operands, attributes=attributes)
    return [
        _rounded(value, result.type) if _FLOAT8.fullmatch(_element(result.type)) else value
        for value, result in zip(computed.results, operation.results, strict=True)
    ]


def _wide(value: ir.Value) -> ir.Value:
    if not _FLOAT8.fullmatch(_element(value.type)):
        return value
    return widened(_cast(ir.IntegerType.get_signless(8), value), _format(value.type))


def _rounded(value: ir.Value, type_: ir.Type) -> ir.Value:
    return _cast(type_, narrowed(value, _format(type_)))


def _resized(value: ir.Value, type_: ir.Type) -> ir.Value:
    """Convert an fp32 that holds an 8-bit float to another float type, all of which represent it exactly."""
    if value.type == type_:
        return value
    return arith.extf(type_, value) if isinstance(type_, ir.F64Type) else arith.truncf(type_, value)


def _resized_to_32(value: ir.Value) -> ir.Value:
    return value if isinstance(value.type, (ir.F32Type, ir.F64Type)) else arith.extf(ir.F32Type.get(), value)


def _cast(type_: ir.Type, value: ir.Value) -> ir.Value:
    """Cast to a type of the same bits; the cast disappears once all types are integers."""
    return ir.Operation.create("builtin.unrealized_conversion_cast", results=[type_], operands=[value]).results[0]
