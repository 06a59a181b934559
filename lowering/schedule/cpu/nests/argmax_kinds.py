"""Recognise argmax and argmin: a reduction to a value and its index, the first or last of equal ones.

The reduction's conditions are evaluated for every order of two numbers and of two positions, which decides the kind.
NaN is excluded: the reduction itself has to be run for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

from mlirtri.lowering.schedule.cpu.common.nest import NestAxis
from mlirtri.lowering.schedule.cpu.nests.accumulator_dtypes import INT32_MAX
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators, final_values, loads_of
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.statements import depends_on, is_load
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Node, ir, structural_equal, tirx

_POSITIONS = [(3, 7), (7, 3), (5, 5)]


@dataclass(frozen=True)
class Extremum:
    """The kind of an argmax or argmin, in terms of the reduction's own expressions."""

    best: Any
    best_position: Any
    """The accumulators of the extremum and of its position."""
    term: Any
    position: Any
    """The position of the term: the axis, plus an invariant offset."""
    sign: int
    """1 for the largest, -1 for the smallest."""
    is_unsigned: bool
    """Whether integers are compared with the sign bit flipped, as unsigned numbers."""
    replaces_equal: bool
    """Whether an equal term at an earlier position replaces the accumulator's."""


def extremum_of(accumulators: Accumulators, row: NestAxis) -> Extremum | None:
    """Return the extremum that a reduction with two accumulators computes along its one axis; None for others."""
    values, (best, best_position) = final_values(accumulators.step), accumulators.buffers.values()
    if (
        values is None
        or set(values) != {best, best_position}
        or str(best_position.dtype) != "int32"
        or row.extent > INT32_MAX
    ):
        return None
    # A position is narrower in its accumulator; a narrower term would have another value.
    where = values[best_position].value if isinstance(values[best_position], tirx.Cast) else values[best_position]
    term, position = _chosen(values[best], best), _chosen(where, best_position)
    if term is None or position is None or loads_of(position):
        return None
    if depends_on(term, [best, best_position]):
        return None
    form = linear(position, {})
    if form is None or form.factor(row.variable) != 1:
        return None
    is_integer = str(term.ty.dtype).startswith("int")
    for sign, is_unsigned, replaces_equal in product((1, -1), (False, True)[: 1 + is_integer], (True, False)):
        extremum = Extremum(best, best_position, term, position, sign, is_unsigned, replaces_equal)
        if _computes(extremum, values):
            return extremum
    return None


def _chosen(value: Expr, accumulator: Buffer) -> Any:
    """Return the only expression that may replace the accumulator's value; None where there is none, or several."""
    if isinstance(value, tirx.Max | tirx.Min):
        arms = [value.a, value.b]
    elif isinstance(value, tirx.Select):
        arms = [value.true_value, value.false_value]
    else:
        return value
    new = [arm for arm in arms if not is_load(arm.value if isinstance(arm, tirx.Cast) else arm, accumulator)]
    terms = [_chosen(arm, accumulator) for arm in new]
    same = terms and all(term is not None and structural_equal(term, terms[0]) for term in terms)
    return terms[0] if same else None


def _computes(extremum: Extremum, values: Any) -> bool:
    """Return whether the accumulators' new values are those of this extremum, for all numbers but NaN."""
    is_integer = "int" in str(extremum.term.ty.dtype)
    numbers: tuple[Any, ...] = (-100, -1, 2, 100) if is_integer else (-math.inf, -1.0, 2.0, math.inf)
    sign_bit = lowest(extremum.term) if extremum.is_unsigned else 0
    for x, best in product(numbers, numbers):
        for position, best_position in _POSITIONS:
            assignment = _Assignment(extremum, x, best, position, best_position)
            is_larger = (x ^ sign_bit > best ^ sign_bit) if sign_bit else x > best
            is_better = x != best and is_larger == (extremum.sign > 0)
            wins = is_better or (x == best and extremum.replaces_equal and position < best_position)
            if assignment.value(values[extremum.best]) != (x if is_better else best):
                return False
            if assignment.value(values[extremum.best_position]) != (position if wins else best_position):
                return False
    return True


def lowest(term: Expr) -> int:
    """Return the smallest number of an expression's signed dtype."""
    return -(2 ** (int(term.ty.dtype.bits) - 1))


class _Assignment:
    """Evaluates an expression of a term, its position and the two accumulators, for one assignment of these four.

    Gives None where the result depends on more than their order.
    """

    def __init__(self, extremum: Extremum, x: float, best: float, position: int, best_position: int):
        self.extremum, self.x, self.best, self.position, self.best_position = extremum, x, best, position, best_position

    def value(self, node: Node) -> Any:
        if structural_equal(node, self.extremum.term):
            return self.x
        if structural_equal(node, self.extremum.position):
            return self.position
        for accumulator, value in ((self.extremum.best, self.best), (self.extremum.best_position, self.best_position)):
            if is_load(node, accumulator):
                return value
        if isinstance(node, tirx.IntImm | tirx.FloatImm):
            return node.value
        if isinstance(node, tirx.Cast):
            return self.value(node.value)
        if isinstance(node, tirx.Select):
            condition = self.value(node.condition)
            return None if condition is None else self.value(node.true_value if condition else node.false_value)
        meaning = _MEANING.get(
            str(node.op.name).rsplit(".", 1)[-1] if isinstance(node, ir.Call) else type(node).__name__
        )
        return None if meaning is None or not self._only_compares(node) else self._apply(node, meaning)

    def _apply(self, node: Node, meaning: Callable[..., Any]) -> Any:
        operands = list(node.args) if isinstance(node, ir.Call) else [node.a, *([node.b] if hasattr(node, "b") else [])]
        values = [self.value(operand) for operand in operands]
        if any(value is None for value in values):
            return None
        if "Bitwise" in type(node).__name__ and not all(isinstance(value, int) and value in (0, 1) for value in values):
            flips_sign_bit = isinstance(node.b, tirx.IntImm) and "int" in str(node.ty) and node.b.value == lowest(node)
            return meaning(*values) if flips_sign_bit and type(node).__name__ == "BitwiseXor" else None
        return meaning(*values)

    def _only_compares(self, node: Node) -> bool:
        """Return whether the constant in a comparison is infinite, or the other operand no number of the row."""
        if not isinstance(node, _COMPARISONS):
            return True
        constants = [operand for operand in (node.a, node.b) if isinstance(operand, tirx.IntImm | tirx.FloatImm)]
        others = [operand for operand in (node.a, node.b) if not isinstance(operand, tirx.IntImm | tirx.FloatImm)]
        flags = all(isinstance(other, tirx.Select) and _is_flag(other) for other in others)
        return not constants or flags or all(math.isinf(constant.value) for constant in constants)


def _is_flag(select: Expr) -> bool:
    return all(isinstance(value, tirx.IntImm | tirx.FloatImm) for value in (select.true_value, select.false_value))


_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
_MEANING: dict[str, Callable[..., Any]] = {
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
    "And": lambda x, y: bool(x) and bool(y),
    "Or": lambda x, y: bool(x) or bool(y),
    "Not": lambda x: not x,
    "Max": max,
    "Min": min,
    "BitwiseAnd": lambda x, y: x & y,
    "BitwiseOr": lambda x, y: x | y,
    "BitwiseXor": lambda x, y: x ^ y,
    "fabs": abs,
    "isnan": lambda x: False,
}
"""Kinds of expressions, and names of functions."""
