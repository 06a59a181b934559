"""Refuse attributes of ours that a text from elsewhere has with other values than we give them.

They say how a function is called: a dtype of other bits would read past an array, an error's name is that of a class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES, find_stored
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import func, ir, operations_named, public_functions
from mlirtri.errors import ParseError, error_class
from mlirtri.lowering.mlir_common.attributes import (
    BOUND,
    CHECK,
    CHECK_LOCATION,
    DTYPE,
    ERROR,
    LENGTHS,
    NAME,
    NUMBER,
    SIGNATURE,
    SIZES,
    STATE,
    argument_attributes,
    result_attributes,
)
from mlirtri.lowering.mlir_common.imperative import UPDATED_BY

_LOCATION = re.compile(r".*:\d{1,9}:\d{1,9}", re.DOTALL)


def check_attributes(module: ir.Module) -> None:
    """Raise `ParseError` for the first attribute of a public function, or of an assertion in it, that is not ours."""
    for function in public_functions(module):
        if function.operation.name == "func.func":
            _check_function(function, _results_of(module, function))
    for assertion in operations_named(module, "cf.assert"):
        if ERROR in assertion.attributes and not _is_error(assertion.attributes[ERROR]):
            raise _wrong(assertion, ERROR, assertion.attributes[ERROR], "the name of an error class")


def _results_of(module: ir.Module, function: func.FuncOp) -> list[ir.Type]:
    """Return the types of the results, which a function of buffers has among its arguments."""
    signature = module.operation.attributes[SIGNATURE] if SIGNATURE in module.operation.attributes else None
    is_type = isinstance(signature, ir.TypeAttr) and isinstance(signature.value, ir.FunctionType)
    return list(signature.value.results if is_type else function.type.results)


def _check_function(function: func.FuncOp, outputs: list[ir.Type]) -> None:
    arguments, results = argument_attributes(function), result_attributes(function)
    inputs, returned = list(function.type.inputs), list(function.type.results)
    bound = {_text(named[BOUND]): kind for named, kind in zip(arguments, inputs, strict=True) if BOUND in named}
    for kinds, groups, rules in ((inputs, arguments, _ARGUMENTS), (returned, results, _RESULTS)):
        for kind, named in zip(kinds, groups, strict=True):
            for name, (is_right, form) in rules.items():
                if name in named and not is_right(named[name], kind, outputs, bound):
                    raise _wrong(function, name, named[name], form)
    flags = [BOUND in named for named in arguments]
    if flags != sorted(flags):
        raise _wrong(function, BOUND, next(iter(bound)), "an attribute of the last arguments")


def _wrong(operation: Any, name: str, attribute: Any, form: str) -> ParseError:
    return ParseError(f"{name} = {str(attribute)[:60]} is not {form}", span_of(operation.location))


def _text(attribute: ir.Attribute) -> str | None:
    return ir.StringAttr(attribute).value if isinstance(attribute, ir.StringAttr) else None


def _is_error(attribute: ir.Attribute) -> bool:
    try:
        return error_class((_text(attribute) or "").partition(": ")[0]) is not None
    except AttributeError:
        return False


def _is_dtype(attribute: ir.Attribute, type_: ir.Type) -> bool:
    name = _text(attribute) or ""
    if (dtype := find_stored(name) or DTYPES.get(name)) is None:
        return False
    if not isinstance(type_, ir.RankedTensorType):  # torch-mlir's types have signs themselves
        return True
    return _bits(type_.element_type) == (1 if dtype.is_bool else dtype.bits)


def _bits(element: ir.Type) -> int:
    if isinstance(element, ir.ComplexType):
        return 2 * _bits(element.element_type)
    return element.width if isinstance(element, (ir.IntegerType, ir.FloatType)) else 0


def _are_names(attribute: ir.Attribute, type_: ir.Type) -> bool:
    is_list = isinstance(attribute, ir.ArrayAttr) and all(isinstance(name, ir.StringAttr) for name in attribute)
    return is_list and isinstance(type_, ir.ShapedType) and type_.has_rank and len(attribute) == type_.rank


def _are_lengths(attribute: ir.Attribute, type_: ir.Type, outputs: Sequence[ir.Type]) -> bool:
    if not isinstance(attribute, ir.DenseI64ArrayAttr) or len(attribute) % 2 or not isinstance(type_, ir.ShapedType):
        return False
    numbers = list(attribute)
    return all(0 <= axis < type_.rank for axis in numbers[::2]) and all(
        0 <= result < len(outputs) and _is_scalar(outputs[result]) for result in numbers[1::2]
    )


def _is_scalar(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and type_.rank == 0


def _is_result(attribute: ir.Attribute, type_: ir.Type, outputs: Sequence[ir.Type]) -> bool:
    if not isinstance(attribute, ir.IntegerAttr):
        return False
    if not 0 <= attribute.value < len(outputs):
        return False
    return isinstance(type_, ir.MemRefType) or outputs[attribute.value] == type_


_Rule = tuple[Callable[[Any, Any, Sequence[Any], Mapping[Any, Any]], bool], str]
_ARGUMENTS: dict[str, _Rule] = {
    BOUND: (lambda value, kind, outputs, bound: _text(value) is not None, "a name"),
    NAME: (lambda value, kind, outputs, bound: bool(_text(value)), "a name"),
    DTYPE: (lambda value, kind, outputs, bound: _is_dtype(value, kind), "a dtype of the argument's bits"),
    SIZES: (lambda value, kind, outputs, bound: _are_names(value, kind), "a name per axis"),
    UPDATED_BY: (
        lambda value, kind, outputs, bound: _is_result(value, kind, outputs),
        "a result of the argument's type",
    ),
}
_RESULTS: dict[str, _Rule] = {
    CHECK: (lambda value, kind, outputs, bound: _is_error(value) and _is_scalar(kind), "an error of a rank-0 result"),
    CHECK_LOCATION: (lambda value, kind, outputs, bound: bool(_LOCATION.fullmatch(_text(value) or "")), "a position"),
    STATE: (
        lambda value, kind, outputs, bound: bound.get(_text(value)) == kind,
        "a bound argument of the result's type",
    ),
    LENGTHS: (lambda value, kind, outputs, bound: _are_lengths(value, kind, outputs), "axes and their rank-0 results"),
    NUMBER: (lambda value, kind, outputs, bound: _is_scalar(kind), "an attribute of a rank-0 result"),
    DTYPE: (lambda value, kind, outputs, bound: _is_dtype(value, kind), "a dtype of the result's bits"),
}
"""Predicate and description of each attribute: by its value, the tensor's type, the results' types, the bound types."""
