"""An axis split at the indices where conditions inside its statements change, and the statements of each range.

for j in 0..16: y[j] = if_then_else(1 <= j and j < 15, x[j - 1], 0)     ──►     0..1, 1..15, 15..16
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from mlirtri.lowering.schedule.cpu.common.nest import COMPARISONS
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.toolchain.tvm_names import ir, structural_map, structural_walk, tirx

MOST_PARTS = 8
_FALSE, _TRUE = 0, 1


def parts_of(statement: Any, variable: Any, extent: int) -> list[tuple[int, int]]:
    """Return the bounds of the parts, in order: a single part where there would be too many."""
    bounds = {0, extent}

    def visit(node: Any) -> None:
        bounds.update(bound for bound in _changes(node, variable) if 0 < bound < extent)

    structural_walk(statement, [(kind, visit) for kind in COMPARISONS])
    ordered = sorted(bounds)
    if len(ordered) > MOST_PARTS + 1:
        return [(0, extent)]
    return list(pairwise(ordered))


def within(statement: Any, variable: Any, first: int, last: int) -> Any:
    """Return `statement` simplified for ``first <= variable < last``."""

    def comparison(node: Any) -> Any:
        form = _difference(node)
        if form is None or set(form.terms) != {variable}:
            return node
        factor = form.factor(variable)
        values = [factor * position + form.constant for position in (first, last - 1)]
        result = _constant_result(node, min(values), max(values))
        return node if result is None else tirx.IntImm("bool", result)

    rules = [(kind, comparison) for kind in COMPARISONS]
    folds = [(tirx.And, _fold_and), (tirx.Or, _fold_or), (tirx.Not, _fold_not), (ir.Call, _fold_condition)]
    return structural_map(structural_map(statement, rules, order="post"), folds, order="post")


def _difference(comparison: Any) -> Any:
    if not str(getattr(comparison.a, "ty", "")).startswith("int"):
        return None
    left, right = linear(comparison.a, {}), linear(comparison.b, {})
    return None if left is None or right is None else left - right


def _changes(comparison: Any, variable: Any) -> list[int]:
    """Return the values of the variable whose result may differ from that of the value below."""
    form = _difference(comparison)
    if form is None or set(form.terms) != {variable} or abs(form.factor(variable)) != 1:
        return []
    root, rises = -form.constant * form.factor(variable), form.factor(variable) > 0
    if isinstance(comparison, tirx.EQ | tirx.NE):
        return [root, root + 1]
    # The difference is 0 at the root, where it changes sign.
    is_strict = isinstance(comparison, tirx.LT | tirx.GE)
    return [root] if is_strict == rises else [root + 1]


def _constant_result(comparison: Any, least: int, most: int) -> int | None:
    """Return the result of comparing with 0 where it is the same for all of `least` to `most`; else None."""
    results = {_RESULTS[type(comparison)](value) for value in {least, most, *_between(least, most)}}
    return results.pop() if len(results) == 1 else None


def _between(least: int, most: int) -> list[int]:
    return [0] if least < 0 < most else []


_RESULTS = {
    tirx.LT: lambda value: int(value < 0),
    tirx.LE: lambda value: int(value <= 0),
    tirx.GT: lambda value: int(value > 0),
    tirx.GE: lambda value: int(value >= 0),
    tirx.EQ: lambda value: int(value == 0),
    tirx.NE: lambda value: int(value != 0),
}


def _value(node: Any) -> int | None:
    return int(node.value) if isinstance(node, tirx.IntImm) else None


def _fold_and(node: Any) -> Any:
    first, second = _value(node.a), _value(node.b)
    if _FALSE in (first, second):
        return tirx.IntImm("bool", _FALSE)
    return node.b if first == _TRUE else node.a if second == _TRUE else node


def _fold_or(node: Any) -> Any:
    first, second = _value(node.a), _value(node.b)
    if _TRUE in (first, second):
        return tirx.IntImm("bool", _TRUE)
    return node.b if first == _FALSE else node.a if second == _FALSE else node


def _fold_not(node: Any) -> Any:
    value = _value(node.a)
    return node if value is None else tirx.IntImm("bool", 1 - value)


def _fold_condition(call: Any) -> Any:
    if not str(getattr(call.op, "name", "")).endswith(".if_then_else"):
        return call
    value = _value(call.args[0])
    return call if value is None else call.args[1] if value else call.args[2]
