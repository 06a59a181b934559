"""Recognise argmax and argmin: a reduction to a value and its index, the first or last of equal ones.

Takes accumulators with two cells. Gives an `Extremum`, or None. The reduction's conditions are evaluated for every
order of two numbers and of two positions, which decides the kind. NaN is excluded: the reduction itself has to be run
for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

from mlirtri.lowering.schedule.cpu.common.nest import NestAxis
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators, final_values, is_load, loads_of
from mlirtri.lowering.schedule.cpu.nests.cells import INT32_MAX
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.statements import depends_on
from mlirtri.lowering.toolchain.tvm_names import ir, structural_equal, tirx

_PLACES = [(3, 7), (7, 3), (5, 5)]


@dataclass(frozen=True)
class Extremum:
    """The kind of an argmax or argmin, in terms of the reduction's own expressions."""

    best: Any
    place: Any
    """The cells of the extremum and of its position."""
    term: Any
    position: Any
    """The position of the term: the axis, plus an invariant offset."""
    sign: int
    """1 for the largest, -1 for the smallest."""
    is_unsigned: bool
    """Whether integers are compared with the sign bit flipped, as unsigned numbers."""
    replaces_equal: bool
    """Whether an equal term at an earlier position replaces the cell's."""


def extremum_of(accumulators: Accumulators, row: NestAxis) -> Extremum | None:
    """Return the extremum that a reduction with two cells computes along its one axis; None for anything else."""
    values, (best, place) = final_values(accumulators.step), accumulators.cells.values()
    if values is None or set(values) != {best, place} or str(place.dtype) != "int32" or row.extent > INT32_MAX:
        return None
    # A position is narrower in its cell; a narrower term would have another value.
    where = values[place].value if isinstance(values[place], tirx.Cast) else values[place]
    term, position = _chosen(values[best], best), _chosen(where, place)
    if term is None or position is None or loads_of(position):
        return None
    if depends_on(term, [best, place]):
        return None
    form = linear(position, {})
    if form is None or form.factor(row.variable) != 1:
        return None
    is_integer = str(term.ty.dtype).startswith("int")
    for sign, is_unsigned, replaces_equal in product((1, -1), (False, True)[: 1 + is_integer], (True, False)):
        found = Extremum(best, place, term, position, sign, is_unsigned, replaces_equal)
        if _is_one(found, values):
            return found
    return None


def _chosen(value: Any, cell: Any) -> Any:
    """Return the only expression that may replace the cell's value; None where there is none, or several."""
    if isinstance(value, tirx.Max | tirx.Min):
        arms = [value.a, value.b]
    elif isinstance(value, tirx.Select):
        arms = [value.true_value, value.false_value]
    else:
        return value
    new = [each for each in arms if not _is_cell(each, cell)]
    found = [_chosen(each, cell) for each in new]
    same = found and all(each is not None and structural_equal(each, found[0]) for each in found)
    return found[0] if same else None


def _is_cell(value: Any, cell: Any) -> bool:
    return is_load(value.value if isinstance(value, tirx.Cast) else value, cell)


def _is_one(found: Extremum, values: Any) -> bool:
    """Whether the cells' new values are those of this extremum, for all numbers but NaN."""
    numbers = (-100, -1, 2, 100) if "int" in str(found.term.ty.dtype) else (-math.inf, -1.0, 2.0, math.inf)
    turned = lowest(found.term) if found.is_unsigned else 0
    for x, best in product(numbers, numbers):
        for position, place in _PLACES:
            known = _Known(found, x, best, position, place)
            is_larger = (x ^ turned > best ^ turned) if turned else x > best
            is_better = x != best and is_larger == (found.sign > 0)
            wins = is_better or (x == best and found.replaces_equal and position < place)
            if known.value(values[found.best]) != (x if is_better else best):
                return False
            if known.value(values[found.place]) != (position if wins else place):
                return False
    return True


def lowest(term: Any) -> int:
    """Return the smallest number of an expression's signed dtype."""
    return -(2 ** (int(term.ty.dtype.bits) - 1))


class _Known:
    """Evaluates an expression of a term, its position and the two cells, for one assignment of these four.

    Gives None where the result depends on more than their order.
    """

    def __init__(self, found: Extremum, x: float, best: float, position: int, place: int):
        self.found, self.x, self.best, self.position, self.place = found, x, best, position, place

    def value(self, node: Any) -> Any:
        if structural_equal(node, self.found.term):
            return self.x
        if structural_equal(node, self.found.position):
            return self.position
        for cell, value in ((self.found.best, self.best), (self.found.place, self.place)):
            if is_load(node, cell):
                return value
        if isinstance(node, tirx.IntImm | tirx.FloatImm):
            return node.value
        if isinstance(node, tirx.Cast):
            return self.value(node.value)
        if isinstance(node, tirx.Select):
            condition = self.value(node.condition)
            return None if condition is None else self.value(node.true_value if condition else node.false_value)
        made = _MEANING.get(str(node.op.name).rsplit(".", 1)[-1] if isinstance(node, ir.Call) else type(node).__name__)
        return None if made is None or not self._only_compares(node) else self._made(node, made)

    def _made(self, node: Any, made: Callable[..., Any]) -> Any:
        operands = list(node.args) if isinstance(node, ir.Call) else [node.a, *([node.b] if hasattr(node, "b") else [])]
        values = [self.value(each) for each in operands]
        if any(each is None for each in values):
            return None
        if "Bitwise" in type(node).__name__ and not all(isinstance(each, int) and each in (0, 1) for each in values):
            turned = isinstance(node.b, tirx.IntImm) and "int" in str(node.ty) and node.b.value == lowest(node)
            return made(*values) if turned and type(node).__name__ == "BitwiseXor" else None
        return made(*values)

    def _only_compares(self, node: Any) -> bool:
        """Whether the constant in a comparison is infinite, or the other operand no number of the row."""
        if not isinstance(node, _COMPARISONS):
            return True
        constants = [each for each in (node.a, node.b) if isinstance(each, tirx.IntImm | tirx.FloatImm)]
        others = [each for each in (node.a, node.b) if not isinstance(each, tirx.IntImm | tirx.FloatImm)]
        flags = all(isinstance(each, tirx.Select) and _is_flag(each) for each in others)
        return not constants or flags or all(math.isinf(each.value) for each in constants)


def _is_flag(choice: Any) -> bool:
    return all(isinstance(each, tirx.IntImm | tirx.FloatImm) for each in (choice.true_value, choice.false_value))


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
