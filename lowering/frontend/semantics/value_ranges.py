"""The range of an integer tensor's elements, from the operations that compute it: ``x % n``, ``argsort``, constants.

What has no rule has the range of its dtype: a uint8 is inside of any table of 256 elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.sizes import Size, Symbol, is_dynamic
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import TriValue
from mlirtri.dialect.definition import op_of, type_of
from mlirtri.dialect.ops import attributes

Range = tuple[int, int]
"""The least and the largest value that an element may have."""
DEPTH = 12
"""How many operations back a range is looked for."""
_SAME_ELEMENTS = frozenset("cast reshape dynamic_reshape transpose broadcast_to dynamic_broadcast flip slice "
                           "extract_slice gather compress fill sort".split())  # fmt: skip
"""Operations whose elements are those of their first operand."""


def range_of(x: TriValue) -> Range | None:
    """Return bounds of the elements of an integer or bool tensor; None for another dtype."""
    return _range(x.value, DEPTH)


def tightened(size: Size) -> Size:
    """Return the size with the bounds of those symbols that have none, where their operations tell."""
    return Size(tuple((_tightened(symbol), factor) for symbol, factor in size.terms), size.constant)


def _tightened(symbol: Symbol) -> Symbol:
    if symbol.lower is not None and symbol.upper is not None:
        return symbol
    known = range_of(symbol.value)
    assert known is not None
    lower, upper = map(Size.of, known)
    return replace(symbol, lower=symbol.lower or lower, upper=symbol.upper or upper)


def _range(value: ir.Value, depth: int) -> Range | None:
    dtype = type_of(value.type).dtype
    if not (dtype.is_integer or dtype.is_bool):
        return None
    owner = value.owner
    if not depth or isinstance(owner, ir.Block) or not owner.operation.name.startswith("tri."):
        return _of_dtype(dtype)
    known, limits = _of_operation(owner.operation, depth - 1), _of_dtype(dtype)
    # An operation that leaves its dtype wraps around.
    return known if known is not None and limits[0] <= known[0] <= known[1] <= limits[1] else limits


def _of_dtype(dtype: DType) -> Range:
    if dtype.is_bool:
        return 0, 1
    lowest = 0 if dtype.is_unsigned else -(1 << dtype.bits - 1)
    return lowest, lowest + (1 << dtype.bits) - 1


def _of_operation(operation: ir.Operation, depth: int) -> Range | None:
    name = operation.name.removeprefix("tri.")
    if name in _BY_ATTRIBUTES:
        return _BY_ATTRIBUTES[name](operation)
    if name in _SAME_ELEMENTS:
        return _range(operation.operands[0], depth)
    if name not in _BY_OPERANDS:
        return None
    # The first operand of `where` is its condition.
    operands = [_range(operand, depth) for operand in list(operation.operands)[name == "where" :]]
    return _BY_OPERANDS[name]([known for known in operands if known]) if all(operands) else None


def _literal(operation: ir.Operation) -> Range | None:
    values = attributes.from_mlir(op_of(operation), operation)["values"]
    return (int(min(values)), int(max(values))) if values else None


def _constant(operation: ir.Operation) -> Range:
    value = int(attributes.from_mlir(op_of(operation), operation)["value"])
    return value, value


def _arange(operation: ir.Operation) -> Range | None:
    values = attributes.from_mlir(op_of(operation), operation)
    if not values["size"]:
        return None
    ends = int(values["start"]), int(values["start"] + (values["size"] - 1) * values["step"])
    return min(ends), max(ends)


def _positions(operation: ir.Operation) -> Range | None:
    """Return the range of positions in the axes that an operation goes along."""
    shape, values = type_of(operation.operands[0].type).shape, attributes.from_mlir(op_of(operation), operation)
    axes = values.get("axes", (values.get("axis", 0),))
    sizes = [shape[axis] for axis in axes]
    return None if any(map(is_dynamic, sizes)) else (0, max(0, prod(map(int, sizes)) - 1))


def _gaps(operation: ir.Operation) -> Range | None:
    size = type_of(operation.operands[0].type).shape[0]
    return None if is_dynamic(size) else (0, int(size))


def _remainder(operands: Sequence[Range]) -> Range | None:
    (low, high), (least, most) = operands
    if least < 1:
        return None
    return (low, high) if low >= 0 and high < least else (0, most - 1)


def _bitwise_and(operands: Sequence[Range]) -> Range | None:
    most = [high for low, high in operands if low >= 0]
    return (0, min(most)) if most else None


def _corners(combine: Callable[[int, int], int]) -> Callable[[Sequence[Range]], Range]:
    def combined(operands: Sequence[Range]) -> Range:
        values = [combine(x, y) for x, y in product(*operands)]
        return min(values), max(values)

    return combined


def _floor_divide(operands: Sequence[Range]) -> Range | None:
    return _corners(lambda x, y: x // y)(operands) if operands[1][0] > 0 else None


_BY_ATTRIBUTES: dict[str, Callable[[ir.Operation], Range | None]] = {
    "constant": _constant, "literal": _literal, "arange": _arange, "argsort": _positions, "argmax": _positions,
    "argmin": _positions, "searchsorted": _gaps,
}  # fmt: skip
_BY_OPERANDS: dict[str, Callable[[Sequence[Range]], Range | None]] = {
    "concatenate": lambda operands: (min(low for low, _ in operands), max(high for _, high in operands)),
    "where": lambda operands: (min(low for low, _ in operands), max(high for _, high in operands)),
    "minimum": lambda operands: (min(low for low, _ in operands), min(high for _, high in operands)),
    "maximum": lambda operands: (max(low for low, _ in operands), max(high for _, high in operands)),
    "add": _corners(lambda x, y: x + y), "subtract": _corners(lambda x, y: x - y),
    "multiply": _corners(lambda x, y: x * y), "floor_divide": _floor_divide, "remainder": _remainder,
    "bitwise_and": _bitwise_and,
}  # fmt: skip
