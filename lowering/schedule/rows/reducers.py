"""The decomposition of a reduction: its term, and how two partial results combine.

Sums, products, extrema that keep a NaN, and, or: the order of terms does not matter. Float sums are reassociated, as
NumPy does it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.rows.nests import BlockNest
from mlirtri.lowering.tir.statements import is_load, loads_in
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, TensorLoad, ir, structural_equal, structural_map, tirx

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


def reducer_of(nest: BlockNest) -> Reducer | None:
    """Return the reducer of a store ``result = f(result, term)``; None where the order of terms has to be kept."""
    value, result = nest.store.value, nest.target
    if nest.init is None:
        return None
    if isinstance(value, tirx.Select):
        return _extremum(value, result)
    make = type(value)
    if make.__name__ not in _NODES:
        return None
    first, second, neutral = value.a, value.b, _NODES[make.__name__]
    term = second if is_load(first, result) else first
    if not (is_load(first, result) or is_load(second, result)) or _reads(term, result):
        return None
    dtype = str(value.ty.dtype)
    number = None if neutral is None else tirx.const(neutral, dtype)
    return Reducer(term, make, number)


def _extremum(value: Any, result: Any) -> Reducer | None:
    """Return the reducer of ``select(a < b or isnan(a), a, b)``, where the result so far is a or b."""
    first = is_load(value.true_value, result)
    term = value.false_value if first else value.true_value
    if not (first or is_load(value.false_value, result)) or _reads(term, result):
        return None
    comparison = value.condition.a if isinstance(value.condition, tirx.Or) else value.condition
    if not isinstance(comparison, tirx.LT | tirx.GT | tirx.LE | tirx.GE):
        return None
    if not all(is_load(side, result) or structural_equal(side, term) for side in (comparison.a, comparison.b)):
        return None

    def combine(left: Any, right: Any) -> Any:
        def visit(node: Any) -> Any:
            if is_load(node, result):
                return left
            return right if structural_equal(node, term) else node

        kinds = {TensorLoad: None, type(term): None}
        return structural_map(value, [(kind, visit) for kind in kinds], order="post")

    return Reducer(term, combine, None, _kept_extremum(value, comparison, result))


def _kept_extremum(value: Any, comparison: Any, result: Any) -> Any:
    calls = [call for call in (value.condition.a, getattr(value.condition, "b", None)) if isinstance(call, ir.Call)]
    names = [str(getattr(call.op, "name", "")) for call in calls]
    if names != ["tirx.isnan"] or not structural_equal(calls[0].args[0], value.true_value):
        return None
    is_left = is_load(comparison.a, result) == is_load(value.true_value, result)
    return tirx.Max if is_left == isinstance(comparison, tirx.GT | tirx.GE) else tirx.Min


def _reads(expression: Expr, buffer: Buffer) -> bool:
    return any(load.source.same_as(buffer) for load in loads_in(expression))
