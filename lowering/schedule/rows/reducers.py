"""The decomposition of a reduction: its term, and how two partial results combine.

Takes a nest whose store is ``result = f(result, term)``. Gives a `Reducer` where the order of terms does not matter
(sums, products, extrema that keep a NaN, and, or), None for any other. Float sums are reassociated, as NumPy does it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.rows.nests import Nest
from mlirtri.lowering.toolchain.tvm_names import TensorLoad, ir, structural_equal, structural_map, structural_walk, tirx

_NODES = {
    "Add": 0, "Mul": 1, "BitwiseXor": 0, "Max": None, "Min": None, "And": None, "Or": None,
    "BitwiseAnd": None, "BitwiseOr": None,
}  # fmt: skip
"""Names of associative nodes with their neutral number; None where any term may count twice."""


@dataclass(frozen=True)
class Reducer:
    """A reduction that may be reassociated."""

    term: Any
    combine: Callable[[Any, Any], Any]
    neutral: Any
    """The neutral element; None if partial results start from the initial value, which may be repeated."""
    extremum: Any = None
    """`Max` or `Min`, for an extremum that keeps NaN."""


def reducer_of(nest: Nest) -> Reducer | None:
    """The reducer of a nest's store; None where its order has to be kept."""
    value, own = nest.store.value, nest.target
    if nest.init is None:
        return None
    if isinstance(value, tirx.Select):
        return _extremum(value, own)
    operands = _operands(value)
    if operands is None:
        return None
    first, second, neutral, make = operands
    term = second if _is_load(first, own) else first
    if not (_is_load(first, own) or _is_load(second, own)) or _reads(term, own):
        return None
    dtype = str(value.ty.dtype)
    number = None if neutral is None else tirx.const(neutral, dtype)
    return Reducer(term, make, number)


def _operands(value: Any) -> tuple | None:
    """Return the operands of an associative operation, its neutral number, and its constructor."""
    kind = type(value)
    return (value.a, value.b, _NODES[kind.__name__], kind) if kind.__name__ in _NODES else None


def _extremum(value: Any, own: Any) -> Reducer | None:
    """Return the reducer of ``select(a < b or isnan(a), a, b)``, where the result so far is a or b."""
    first = _is_load(value.true_value, own)
    term = value.false_value if first else value.true_value
    if not (first or _is_load(value.false_value, own)) or _reads(term, own):
        return None
    comparison = value.condition.a if isinstance(value.condition, tirx.Or) else value.condition
    if not isinstance(comparison, tirx.LT | tirx.GT | tirx.LE | tirx.GE):
        return None
    if not all(_is_load(each, own) or structural_equal(each, term) for each in (comparison.a, comparison.b)):
        return None

    def combine(one: Any, other: Any) -> Any:
        def visit(node: Any) -> Any:
            if _is_load(node, own):
                return one
            return other if structural_equal(node, term) else node

        kinds = {TensorLoad: None, type(term): None}
        return structural_map(value, [(kind, visit) for kind in kinds], order="post")

    return Reducer(term, combine, None, _kept_extremum(value, comparison, own))


def _kept_extremum(value: Any, comparison: Any, own: Any) -> Any:
    """Return the extremum node of a selection that keeps NaN."""
    asked = [each for each in (value.condition.a, getattr(value.condition, "b", None)) if isinstance(each, ir.Call)]
    names = [str(getattr(each.op, "name", "")) for each in asked]
    if names != ["tirx.isnan"] or not structural_equal(asked[0].args[0], value.true_value):
        return None
    is_left = _is_load(comparison.a, own) == _is_load(value.true_value, own)
    return tirx.Max if is_left == isinstance(comparison, tirx.GT | tirx.GE) else tirx.Min


def _is_load(expression: Any, buffer: Any) -> bool:
    return isinstance(expression, TensorLoad) and expression.source.same_as(buffer)


def _reads(expression: Any, buffer: Any) -> bool:
    found: list[Any] = []
    structural_walk(expression, (TensorLoad, found.append), order="post")
    return any(load.source.same_as(buffer) for load in found)
