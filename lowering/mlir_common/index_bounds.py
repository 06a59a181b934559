"""Range analysis: bound integer and index values of MLIR by Python integers, from the operations that define them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.mlir_common.reading import definition


class Bounds(NamedTuple):
    """The smallest and the largest value of an integer, both included."""

    low: int
    high: int


_Pair = tuple[int, int]
_WIDEST = (-(2**63), 2**63 - 1)
_LESS = 2
"""The predicate `slt` of `arith.cmpi`."""
_MAX_ELEMENTS = 4096
"""Larger constants are not looked through."""
_SAME_ELEMENTS = frozenset(
    f"tensor.{name}" for name in ("cast", "collapse_shape", "expand_shape", "extract_slice", "reshape")
)
_SELECTIONS = frozenset({"arith.select", "arith.maxsi", "arith.minsi"})


def bounds_of(value: ir.Value, depth: int = 12) -> Bounds | None:
    """Return the bounds of `value`, looking `depth` operations back."""
    bounds = _bounds(value, depth)
    fits = _of_type(value.type)
    low, high = fits or _WIDEST
    if bounds is None or bounds[0] < low or bounds[1] > high:
        bounds = fits
    return None if bounds is None else Bounds(*bounds)


def _bounds(value: ir.Value, depth: int) -> _Pair | None:
    if not depth:
        return None
    if isinstance(value.owner, ir.Block):
        return _of_counter(value, depth) if _around(value) == "scf.for" else _of_element(value, depth)
    operation = value.owner.operation
    if operation.name in _RULES:
        return _RULES[operation.name](operation, depth)
    if operation.name in _OF_OPERANDS:
        operands = [bounds_of(operand, depth - 1) for operand in operation.operands]
        return None if None in operands else _OF_OPERANDS[operation.name](*operands)
    return None


def _of_type(type_: ir.Type) -> _Pair | None:
    """Return a type's bounds; signless integers are signed, as indices are."""
    if isinstance(type_, ir.IntegerType) and 1 < type_.width <= 32:
        return -(2 ** (type_.width - 1)), 2 ** (type_.width - 1) - 1
    return None


def _of_counter(value: ir.Value, depth: int) -> _Pair | None:
    loop = value.owner.owner.operation
    if value.arg_number != 0:
        return None
    lower, upper = (bounds_of(loop.operands[position], depth - 1) for position in (0, 1))
    return None if lower is None or upper is None else (lower[0], max(upper[1] - 1, lower[0]))


def _around(argument: ir.Value) -> str:
    block = argument.owner
    return "" if block.owner is None else block.owner.operation.name


# --- elements of tensors -------------------------------------------------------------------------------------------


def _of_element(value: ir.Value, depth: int) -> _Pair | None:
    """Bound an element that a `linalg.generic` reads; an accumulator has the bounds of its initial value."""
    if _around(value) != "linalg.generic":
        return None
    operand = value.owner.owner.operation.operands[value.arg_number]
    return _of_elements(operand, depth - 1) if isinstance(operand.type, ir.ShapedType) else bounds_of(operand, depth)


def _of_elements(value: ir.Value, depth: int) -> _Pair | None:
    """Return the bounds of all elements of a tensor."""
    if not depth or isinstance(value.owner, ir.Block):
        return _of_type(value.type.element_type)
    operation = value.owner.operation
    if operation.name in _SAME_ELEMENTS:
        return _of_elements(operation.operands[0], depth - 1)
    if operation.name == "linalg.fill":
        return bounds_of(operation.operands[0], depth - 1)
    if operation.name == "arith.constant":
        return _of_dense(operation.attributes["value"])
    if operation.name == "linalg.generic":
        return _of_result(operation, value.result_number, depth)
    return _of_type(value.type.element_type)


def _of_dense(attribute: ir.Attribute) -> _Pair | None:
    if not isinstance(attribute, ir.DenseIntElementsAttr) or len(attribute) > _MAX_ELEMENTS:
        return None
    numbers = [attribute.get_splat_value().value] if attribute.is_splat else [int(number) for number in attribute]
    return (min(numbers), max(numbers)) if numbers else None


def _of_result(generic: ir.Operation, position: int, depth: int) -> _Pair | None:
    """Bound what a generic yields; a reduction may choose between its accumulator and other values."""
    block = generic.regions[0].blocks[0]
    accumulator = block.arguments[len(generic.operands) - len(generic.results) + position]
    yielded = list(block.operations)[-1].operation.operands[position]
    bounds = bounds_of(yielded, depth - 1)
    if bounds is None or not any("reduction" in str(kind) for kind in generic.attributes["iterator_types"]):
        return bounds
    first = bounds_of(accumulator, depth - 1)
    if first is None or any(not _chooses(use.owner.operation, yielded) for use in accumulator.uses):
        return _of_type(yielded.type)
    return min(first[0], bounds[0]), max(first[1], bounds[1])


def _chooses(operation: ir.Operation, yielded: ir.Value) -> bool:
    """Return whether the operation compares, or yields one of its operands."""
    is_chosen = operation.name in _SELECTIONS and operation.results[0] == yielded
    return is_chosen or operation.name in ("arith.cmpi", "linalg.yield")


def _constant(operation: ir.Operation, _depth: int) -> _Pair | None:
    attribute = operation.attributes["value"]
    return (attribute.value, attribute.value) if isinstance(attribute, ir.IntegerAttr) else None


def _loop(operation: ir.Operation, _depth: int) -> _Pair | None:
    around = operation.parent.operation
    if around.name != "linalg.generic":
        return None
    loop = operation.attributes["dim"].value
    for operand, mapping in zip(around.operands, around.attributes["indexing_maps"], strict=True):
        for axis, index in enumerate(mapping.value.results):
            if isinstance(index, ir.AffineDimExpr) and index.position == loop:
                size = operand.type.shape[axis]
                return (0, max(size - 1, 0)) if size >= 0 else None
    return None


def _size(operation: ir.Operation, depth: int) -> _Pair | None:
    axis = bounds_of(operation.operands[1], depth - 1)
    shape = operation.operands[0].type.shape
    if axis is None or axis[0] != axis[1] or not 0 <= axis[0] < len(shape) or shape[axis[0]] < 0:
        return None
    return shape[axis[0]], shape[axis[0]]


def _select(operation: ir.Operation, depth: int) -> _Pair | None:
    if (divisor := _floored_by(operation)) is not None:
        bounds = bounds_of(divisor, depth - 1)
        return (0, bounds[1] - 1) if bounds is not None and bounds[0] > 0 else None
    condition, *chosen = operation.operands
    if (decided := _decided(condition, depth)) is not None:
        chosen = [chosen[0 if decided else 1]] * 2
    arms = [bounds for arm in chosen if (bounds := bounds_of(arm, depth - 1)) is not None]
    return None if len(arms) < 2 else (min(low for low, _ in arms), max(high for _, high in arms))


def _decided(condition: ir.Value, depth: int) -> bool | None:
    """Return whether ``x < y`` holds, if their bounds say so."""
    comparison = definition(condition)
    if comparison is None or comparison.name != "arith.cmpi" or comparison.attributes["predicate"].value != _LESS:
        return None
    x, y = (bounds_of(operand, depth - 1) for operand in comparison.operands)
    if x is None or y is None or (x[0] < y[1] and x[1] >= y[0]):
        return None
    return x[1] < y[0]


def _floored_by(select: ir.Operation) -> ir.Value | None:
    """Return y where `select` gives x modulo y: ``r = remsi(x, y); r != 0 and r < 0 … ? r + y : r``."""
    _, above, rest = select.operands
    if isinstance(rest.owner, ir.Block) or isinstance(above.owner, ir.Block):
        return None
    remainder, total = rest.owner.operation, above.owner.operation
    if remainder.name != "arith.remsi" or total.name != "arith.addi" or total.operands[0] != rest:
        return None
    return remainder.operands[1] if total.operands[1] == remainder.operands[1] else None


def _clamped(larger: bool) -> Callable[[ir.Operation, int], _Pair | None]:
    def rule(operation: ir.Operation, depth: int) -> _Pair | None:
        bounded = [bounds for operand in operation.operands if (bounds := bounds_of(operand, depth - 1)) is not None]
        if not bounded:
            return None
        both = [*bounded, *([_WIDEST] if len(bounded) == 1 else [])]
        choose = max if larger else min
        return choose(low for low, _ in both), choose(high for _, high in both)

    return rule


def _remainder(x: _Pair, y: _Pair) -> _Pair | None:
    if y[0] <= 0:
        return None
    return max(-(y[1] - 1), min(x[0], 0)), min(y[1] - 1, max(x[1], 0))


def _quotient(x: _Pair, y: _Pair) -> _Pair | None:
    return (x[0] // y[1], x[1] // y[0]) if x[0] >= 0 and y[0] > 0 else None


def _unsigned(rule: Callable[[_Pair, _Pair], _Pair | None]) -> Callable[[_Pair, _Pair], _Pair | None]:
    return lambda x, y: rule(x, y) if x[0] >= 0 and y[0] >= 0 else None


def _product(x: _Pair, y: _Pair) -> _Pair:
    corners = [a * b for a in x for b in y]
    return min(corners), max(corners)


def _widened(operation: ir.Operation, depth: int) -> _Pair | None:
    """Bound a conversion: it keeps the value, or truncates to the bounds of its type."""
    [operand] = operation.operands
    bounds = bounds_of(operand, depth - 1)
    if bounds is None:
        return None
    fits = _of_type(operation.results[0].type) or _WIDEST
    return bounds if fits[0] <= bounds[0] and bounds[1] <= fits[1] else None


def _zero_extended(operation: ir.Operation, depth: int) -> _Pair | None:
    [operand] = operation.operands
    bounds = bounds_of(operand, depth - 1)
    if bounds is not None and bounds[0] >= 0:
        return bounds
    width = operand.type.width if isinstance(operand.type, ir.IntegerType) else 64
    return (0, 2**width - 1) if width < 63 else None


_RULES: dict[str, Callable[[ir.Operation, int], _Pair | None]] = {
    "arith.constant": _constant, "linalg.index": _loop, "tensor.dim": _size, "arith.select": _select,
    "arith.maxsi": _clamped(True), "arith.minsi": _clamped(False), "arith.index_cast": _widened,
    "arith.extsi": _widened, "arith.trunci": _widened, "arith.extui": _zero_extended,
    "arith.index_castui": _zero_extended,
}  # fmt: skip

_OF_OPERANDS: dict[str, Callable[..., _Pair | None]] = {
    "arith.addi": lambda x, y: (x[0] + y[0], x[1] + y[1]), "arith.subi": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "arith.muli": _product, "arith.remsi": _remainder, "arith.remui": _unsigned(_remainder),
    "arith.divsi": _quotient, "arith.divui": _quotient, "arith.floordivsi": _quotient,
    "arith.minui": _unsigned(lambda x, y: (min(x[0], y[0]), min(x[1], y[1]))),
    "arith.maxui": _unsigned(lambda x, y: (max(x[0], y[0]), max(x[1], y[1]))),
}  # fmt: skip
