"""Attribute values of the op table to and from MLIR attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlirtri.dialect.base.sizes import DYNAMIC, is_dynamic
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.ops.op import Op
from mlirtri.errors import KernelValueError


def _integer(value) -> ir.Attribute:
    value = int(value)
    # 64 bits hold literals of all integer dtypes; the upper half of uint64 wraps to negative numbers.
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value - (1 << 64) if value >= 1 << 63 else value)


def _numbers(values) -> ir.Attribute:
    values = list(values)
    if any(isinstance(value, float) for value in values):
        return ir.DenseF64ArrayAttr.get([float(value) for value in values])
    return ir.DenseI64ArrayAttr.get([_integer(value).value for value in values])


def _number(value) -> ir.Attribute:
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, complex):
        # The format of `complex.constant`.
        return ir.ArrayAttr.get([ir.FloatAttr.get_f64(value.real), ir.FloatAttr.get_f64(value.imag)])
    return ir.FloatAttr.get_f64(value) if isinstance(value, float) else _integer(value)


def _word(number: int) -> int:
    if not -_WORDS <= number < _WORDS:
        raise KernelValueError("a size or an index is past 64 bits", help="check the shape")
    return number


_WORDS = 1 << 63
KINDS = {
    "int": _integer,
    "ints": lambda value: ir.DenseI64ArrayAttr.get([DYNAMIC if is_dynamic(size) else _word(size) for size in value]),
    "float": lambda value: ir.FloatAttr.get_f64(float(value)),
    "bool": ir.BoolAttr.get,
    "string": lambda value: ir.StringAttr.get(str(value)),
    "number": _number,
    "numbers": _numbers,
}


def to_mlir(op: Op, values: Mapping[str, object]) -> dict[str, ir.Attribute]:
    """Return the MLIR attributes of one operation, for every attribute that the row declares."""
    return {name: KINDS[kind](values[name]) for name, kind in op.attributes.items()}


def from_mlir(op: Op, operation: ir.Operation) -> dict[str, Any]:
    """Return the attributes of an operation as Python scalars, strings and tuples."""
    return {name: _python(operation.attributes[name]) for name in op.attributes}


def _python(attribute: ir.Attribute):
    if isinstance(attribute, (ir.DenseI64ArrayAttr, ir.DenseF64ArrayAttr)):
        return tuple(attribute)
    if isinstance(attribute, ir.ArrayAttr):
        return complex(*(part.value for part in attribute))
    return attribute.value
