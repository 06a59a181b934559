"""Analysis of attention masks: the columns that are hidden from a whole block of rows, which need not be computed.

The scores of a `Chain` select a product or minus infinity, or add 0 or minus infinity to a product, by comparisons of
the row's index with the column's; the row kernels must turn minus infinity into a weight of 0.

A weight of 0 times an infinite or undefined value is undefined, so the writer computes everything if there is one;
so it does where something is added to a product that may be infinite or undefined itself. `Magnitudes` has the bits of
the largest magnitude of an operand, as an integer: NaN is larger than infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_for
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.attention.chains import Chain
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import loop_kind
from mlirtri.lowering.schedule.rows.nests import BlockNest
from mlirtri.lowering.tir.contraction import Axis, Values, size_of
from mlirtri.lowering.tir.product_recognition import Product
from mlirtri.lowering.tir.statements import index, is_load, sequence
from mlirtri.lowering.tir.tiles import axis_values, for_loop, in_vectors, loop_nest, replaced, temporary
from mlirtri.lowering.tir.vectors import INFINITY_BITS, integers_of
from mlirtri.lowering.toolchain.tvm_names import Expr, Stmt, TensorLoad, ir, tirx

_HALF_OF_LARGEST = {"float32": 1.5e38, "float64": 8e307}
_COMPARISONS = {"LE": (1, 0), "LT": (1, 1), "GE": (-1, 0), "GT": (-1, 1)}
"""Sign s and number n so that the comparison of a and b says ``s (a - b) + n <= 0``."""
_OPPOSITES = {"LE": "GT", "LT": "GE", "GE": "LT", "GT": "LE"}
_WIDE = ("int32", "int64", "int128")


@dataclass(frozen=True)
class Edge:
    """``slope * row + offset``: the last visible column of a row, or the first one."""

    slope: int
    offset: int

    def column(self, row: Expr) -> Expr:
        return row * index(self.slope) + index(self.offset)


@dataclass(frozen=True)
class Sight:
    """The visible columns of a row: from the largest of `first` to the smallest of `last`."""

    first: tuple[Edge, ...]
    last: tuple[Edge, ...]
    factor: float | None
    """The factor of the product before minus infinity is added; None where it is selected."""

    def of_block(self, start: Expr, end: Expr, columns: int, unit: int) -> tuple[Expr, Expr]:
        """Return the first column and the end of those visible to rows `start` to `end`, inclusive, in whole `unit`s.

        At least one unit: rows with all columns hidden are NaN, which has to be computed.
        """
        low, high = index(0), index(columns)
        for edge in self.first:
            low = tirx.max(low, edge.column(start if edge.slope >= 0 else end))
        for edge in self.last:
            high = tirx.min(high, edge.column(end if edge.slope >= 0 else start) + index(1))
        low = tirx.min(low, index(columns - 1))
        high = tirx.max(high, low + index(1))
        low = tirx.floordiv(low, index(unit)) * index(unit)
        high = tirx.floordiv(high + index(unit - 1), index(unit)) * index(unit)
        return low, tirx.min(high, index(columns))


def sight_of(chain: Chain) -> Sight | None:
    """Return the visible columns of a chain's rows; None where nothing is hidden, or hidden columns may contribute."""
    columns = [axis.variable for axis in chain.first.columns if axis.extent > 1]
    if len(columns) != 1:
        return None
    row, column = chain.first.rows[0].variable, columns[0]
    masks = _masks(chain.scores.value, chain.first.result)
    edges = [
        (mask, *bound)
        for mask in masks
        for condition in mask.conditions
        if (bound := _edge(condition, row, column)) is not None
    ]
    if not edges or not _hides(chain):
        return None
    first, last = (tuple(edge for _, is_last, edge in edges if is_last is kind) for kind in (False, True))
    return Sight(first, last, next((mask.factor for mask, *_ in edges if mask.factor is not None), None))


# --- the mask --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Mask:
    """Comparisons that hold wherever scores are not minus infinity, each with whether it is negated."""

    conditions: tuple[tuple[Any, bool], ...]
    factor: float | None = None
    """See `Sight`."""


def _masks(value: Expr, product: Any) -> list[_Mask]:
    masks: list[_Mask] = []
    while True:
        if (chosen := _masked_value(value)) is not None:
            value, conditions = chosen
            masks.append(_Mask(conditions))
            continue
        if not isinstance(value, tirx.Add):
            return masks
        scaled, other = (value.b, value.a) if _masked_value(value.a) is not None else (value.a, value.b)
        added, factor = _masked_value(other), _factor(scaled, product)
        if added is None or factor is None or not _is_finite(added[0]):
            return masks
        return [*masks, _Mask(added[1], factor)]


def _masked_value(value: Expr) -> tuple[Any, tuple[tuple[Any, bool], ...]] | None:
    """Return the value that a `Select` gives where it is not minus infinity, and the conditions for that."""
    if not isinstance(value, tirx.Select):
        return None
    conditions: list[tuple[Any, bool]] = []
    if _is_number(value.false_value, -inf):
        _add_conjuncts(value.condition, False, conditions)
        return value.true_value, tuple(conditions)
    if _is_number(value.true_value, -inf):
        _add_conjuncts(value.condition, True, conditions)
        return value.false_value, tuple(conditions)
    return None


def _factor(value: Expr, product: Any) -> float | None:
    """Return the magnitude of the constant by which `value` is a multiple of the product; None for anything else."""
    if isinstance(value, TensorLoad):
        return 1.0 if value.source.same_as(product) else None
    if not isinstance(value, tirx.Mul | tirx.Div):
        return None
    scaled, number = (value.b, value.a) if isinstance(value, tirx.Mul) and _is_finite(value.a) else (value.a, value.b)
    inner = _factor(scaled, product) if _is_finite(number) and float(number.value) != 0 else None
    if inner is None:
        return None
    size = abs(float(number.value))
    return max(inner, inner * size if isinstance(value, tirx.Mul) else inner / size)


def _is_finite(value: Expr) -> bool:
    return isinstance(value, tirx.FloatImm) and isfinite(float(value.value))


def _add_conjuncts(condition: Expr, is_opposite: bool, conjuncts: list[Any]) -> None:
    condition = _plain(condition)
    name, *operands = _logic(condition)
    if name == "not":
        _add_conjuncts(operands[0], not is_opposite, conjuncts)
    elif name == ("or" if is_opposite else "and"):
        for operand in operands:
            _add_conjuncts(operand, is_opposite, conjuncts)
    else:
        conjuncts.append((condition, is_opposite))


def _plain(condition: Expr) -> Any:
    if not isinstance(condition, tirx.LT) or not isinstance(condition.b, tirx.Cast):
        return condition
    is_zero = isinstance(condition.a, tirx.IntImm) and int(condition.a.value) == 0
    inner = condition.b.value
    return inner if is_zero and str(inner.ty.dtype) == "bool" else condition


def _logic(condition: Expr) -> tuple[Any, ...]:
    name = type(condition).__name__.removeprefix("Bitwise").lower()
    if name in ("and", "or"):
        return name, condition.a, condition.b
    return (name, condition.a) if name == "not" else (None,)


def _edge(comparison: tuple[Any, bool], row: Any, column: Any) -> tuple[bool, Edge] | None:
    """Return an edge, and whether it bounds the last column; None for no linear comparison of row and column."""
    condition, is_opposite = comparison
    name = type(condition).__name__
    if name not in _COMPARISONS:
        return None
    sign, number = _COMPARISONS[_OPPOSITES[name] if is_opposite else name]
    left, right = (_linear(operand, row, column) for operand in (condition.a, condition.b))
    if left is None or right is None:
        return None
    by_row, by_column, offset = (sign * (x - y) for x, y in zip(left, right, strict=True))
    offset += number
    if by_column == 1:
        return True, Edge(-by_row, -offset)
    return (False, Edge(by_row, offset)) if by_column == -1 else None


def _linear(value: Expr, row: Any, column: Any) -> tuple[int, int, int] | None:
    """Return the factors of the row and the column in an integer, and its constant; None for anything else."""
    if isinstance(value, tirx.Var):
        return (1, 0, 0) if value.same_as(row) else (0, 1, 0) if value.same_as(column) else None
    if isinstance(value, tirx.IntImm):
        return 0, 0, int(value.value)
    if isinstance(value, tirx.Cast) and str(value.ty.dtype) in _WIDE:
        return _linear(value.value, row, column)
    if not isinstance(value, tirx.Add | tirx.Sub):
        return None
    left, right = _linear(value.a, row, column), _linear(value.b, row, column)
    if left is None or right is None:
        return None
    sign = 1 if isinstance(value, tirx.Add) else -1
    first, second, third = (x + sign * y for x, y in zip(left, right, strict=True))
    return first, second, third


def _is_number(value: Expr, number: float) -> bool:
    return isinstance(value, tirx.FloatImm) and float(value.value) == number


# Abstract interpretation of minus infinity: a value says what a hidden element is, unless that is NaN. Then the visible
# elements of its row are NaN, too: all are minus infinity, or the row has a NaN anyway.

_HIDDEN, _MAXIMUM, _LOWERED, _ZERO, _SUM, _TRUE, _ALL = range(1, 8)
"""Minus infinity; the maximum of a row that has some; its negation; 0 in a row of nonnegative values; a sum of these;
true; whether all of a row are.
"""


def _hides(chain: Chain) -> bool:
    """Return whether the weight of minus infinity is 0."""
    kinds: dict[Any, int] = {chain.scores.target: _HIDDEN}
    for nest in chain.rows.nests:
        kind = _reduced(nest, kinds) if nest.is_reduction else None if nest.before else _kind(nest.store.value, kinds)
        if kind is None:
            return False
        kinds[nest.target] = kind
    return kinds[chain.weights.target] == _ZERO


def _reduced(nest: BlockNest, kinds: dict[Any, int]) -> int | None:
    """Return the abstract value of a row's reduction that includes hidden elements."""
    value, target = nest.store.value, nest.target
    if isinstance(value, tirx.Add) and _is_number(nest.init, 0):
        terms = [operand for operand in (value.a, value.b) if not is_load(operand, target)]
        return _SUM if len(terms) == 1 and _kind(terms[0], kinds) == _ZERO else None
    if isinstance(value, tirx.And | tirx.BitwiseAnd):
        terms = [operand for operand in (value.a, value.b) if not is_load(operand, target)]
        return _ALL if len(terms) == 1 and _kind(terms[0], kinds) == _TRUE else None
    # Relax starts maxima from the least finite number, which is above minus infinity.
    if (isinstance(value, tirx.Select) and _is_number(nest.init, -inf)) or isinstance(value, tirx.Max):
        arms = (value.a, value.b) if isinstance(value, tirx.Max) else (value.true_value, value.false_value)
        terms = [arm for arm in arms if not is_load(arm, target)]
        return _MAXIMUM if len(terms) == 1 and _kind(terms[0], kinds) == _HIDDEN else None
    return None


def _kind(value: Expr, kinds: dict[Any, int]) -> int | None:
    """Return the abstract value of an expression of hidden elements and of their row's values."""
    if isinstance(value, TensorLoad):
        return kinds.get(value.source)
    if isinstance(value, tirx.Cast):
        is_float = all("float" in str(operand.ty.dtype) for operand in (value, value.value))
        return _kind(value.value, kinds) if is_float else None
    if isinstance(value, ir.Call):
        name = str(getattr(value.op, "name", ""))
        is_hidden = name in ("tirx.exp", "tirx.exp2") and _kind(value.args[0], kinds) == _HIDDEN
        return _ZERO if is_hidden else None
    if isinstance(value, tirx.EQ):
        sides = (_kind(value.a, kinds) == _HIDDEN, _is_number(value.b, -inf))
        return _TRUE if all(sides) else None
    if isinstance(value, tirx.Select):
        is_all = _kind(value.condition, kinds) == _ALL and _is_number(value.true_value, 0)
        return _ZERO if is_all and _kind(value.false_value, kinds) == _ZERO else None
    if not isinstance(value, tirx.Add | tirx.Sub | tirx.Mul | tirx.Div):
        return None
    left, right = (_constant(operand) or _kind(operand, kinds) for operand in (value.a, value.b))
    return _RULES.get((type(value).__name__, left, right))


def _constant(value: Expr) -> str | None:
    """Return whether a finite constant is positive or negative; None for anything else."""
    if not isinstance(value, tirx.FloatImm) or not 0 < abs(float(value.value)) < inf:
        return None
    return "positive" if value.value > 0 else "negative"


def _commuted(name: str, left: Any, right: Any, kind: int) -> dict[tuple[str, Any, Any], int]:
    return {(name, left, right): kind, (name, right, left): kind}


_RULES = {
    ("Sub", _HIDDEN, _MAXIMUM): _HIDDEN,
    ("Sub", _HIDDEN, "positive"): _HIDDEN,
    ("Div", _HIDDEN, "positive"): _HIDDEN,
    ("Div", _ZERO, "positive"): _ZERO,
    ("Div", _ZERO, _SUM): _ZERO,
    **_commuted("Mul", _MAXIMUM, "negative", _LOWERED),
    **_commuted("Mul", _HIDDEN, "positive", _HIDDEN),
    **_commuted("Mul", _ZERO, "positive", _ZERO),
    **_commuted("Add", _HIDDEN, _LOWERED, _HIDDEN),
    **_commuted("Add", _HIDDEN, "positive", _HIDDEN),
    **_commuted("Add", _HIDDEN, "negative", _HIDDEN),
}
"""By node and abstract operands, the abstract result."""


class Magnitudes:
    """The largest magnitude of one operand, per batch element."""

    def __init__(self, product: Product, operand: Expr, axes: Sequence[Axis], name: str):
        self.product, self.operand = product, operand
        self.axes = _in_order(operand, [axis for axis in axes if axis.extent > 1])
        self.dtype = integers_of(product.dtype)
        self.largest = temporary(name, self.dtype, [size_of(product.batch)])

    def statements(self, target: Target) -> list[Stmt]:
        outer, inner = self.axes[:-1], self.axes[-1:]
        lanes = min(lanes_for(self.product.dtype), size_of(inner))
        maxima = temporary("maxima", self.dtype, [lanes])

        def of_batch(number: Any) -> Any:
            values = axis_values(self.product.batch, number)

            def element(others: Values, last: Any) -> Any:
                point = {**values, **others, **axis_values(inner, last)}
                bits = tirx.reinterpret(self.dtype, tirx.abs(replaced(self.operand, point)))
                indices = [tirx.floormod(last, index(lanes))]
                return tirx.BufferStore(maxima, tirx.max(tirx.BufferLoad(maxima, indices), bits), indices)

            def along(others: Values) -> Any:
                return in_vectors(size_of(inner), lanes, lambda last: element(others, last))

            zero, indices = tirx.IntImm(self.dtype, 0), [number]
            start = in_vectors(lanes, lanes, lambda lane: tirx.BufferStore(maxima, zero, [lane]))
            first = tirx.BufferStore(self.largest, zero, indices)
            largest = tirx.BufferLoad(self.largest, indices)
            end = for_loop("lane", lanes, lambda lane: tirx.BufferStore(
                self.largest, tirx.max(largest, tirx.BufferLoad(maxima, [lane])), indices))  # fmt: skip
            return sequence(tirx.AllocBuffer(maxima), start, loop_nest(outer, along), first, end)

        batch = size_of(self.product.batch)
        kind = loop_kind(batch * size_of(self.axes) // lanes, target)
        return [tirx.AllocBuffer(self.largest), for_loop("batch", batch, of_batch, kind)]

    def is_finite(self, position: Expr) -> Expr:
        """Return the condition that all elements at one batch index are finite."""
        infinity = tirx.IntImm(self.dtype, INFINITY_BITS[self.product.dtype])
        return tirx.LT(tirx.BufferLoad(self.largest, [position]), infinity)

    def magnitude(self, position: Expr) -> Expr:
        return tirx.reinterpret(self.product.dtype, tirx.BufferLoad(self.largest, [position]))


def stays_finite(left: Magnitudes, right: Magnitudes, position: Expr, factor: float) -> Expr:
    """Return the condition that a product, and `factor` times it, are finite in any order of terms; false for NaN."""
    product = left.product
    most = _HALF_OF_LARGEST[product.dtype] / size_of(product.reduced) / max(1.0, factor)
    return tirx.LT(left.magnitude(position) * right.magnitude(position), tirx.FloatImm(product.dtype, most))


def _in_order(operand: Any, axes: list[Axis]) -> list[Axis]:
    if not isinstance(operand, TensorLoad) or not operand.indices:
        return axes
    last = operand.indices[-1]
    return sorted(axes, key=lambda axis: axis.variable.same_as(last))
