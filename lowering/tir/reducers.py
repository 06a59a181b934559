"""The decomposition of a reduction: its term, and how two partial results combine.

    total = total + x[i]                                    ──►   term x[i], combined by Add
    best = select(best > x[i] or isnan(best), best, x[i])   ──►   term x[i], combined by the same select

Sums, products, extrema that keep a NaN, and, or: the order of terms does not matter. Float sums are reassociated, as
NumPy does it. Neutral elements are chosen by the rules, which differ in how partial results start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.tir.statements import depends_on, is_load, operator_name
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Node, TensorLoad, structural_equal, structural_map, tirx

ASSOCIATIVE = (
    "Add", "Sub", "Mul", "Max", "Min", "And", "Or", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
)  # fmt: skip
"""Names of nodes that add a term to a result; `Sub` takes it as the second operand only."""


@dataclass(frozen=True)
class Reducer:
    """A reduction that may be reassociated."""

    node: type
    """The node that takes the result so far and the term: one of `ASSOCIATIVE`, or `Select`."""
    term: Any
    combine: Callable[[Any, Any], Any]
    """Combines two partial results; those of `Sub` are added."""
    extremum: Any = None
    """`Max` or `Min`, for an extremum that keeps NaN."""
    neutral: Any = None
    """The neutral element; None if partial results start from the initial value, which may be repeated."""


def reducer_of(value: Expr, result: Buffer) -> Reducer | None:
    """Return the reducer of a store of `value` to `result`; None where the order of terms has to be kept."""
    if isinstance(value, tirx.Select):
        return _extremum(value, result)
    node = type(value)
    if node.__name__ not in ASSOCIATIVE:
        return None
    is_first = is_load(value.a, result)
    term = value.b if is_first else value.a
    if not is_first and (node is tirx.Sub or not is_load(value.b, result)):
        return None
    if depends_on(term, [result]):
        return None
    return Reducer(node, term, tirx.Add if node is tirx.Sub else node)


def _extremum(value: Expr, result: Buffer) -> Reducer | None:
    """Return the reducer of ``select(a < b or isnan(a), a, b)``, where the result so far is a or b."""
    is_first = is_load(value.true_value, result)
    term = value.false_value if is_first else value.true_value
    if not (is_first or is_load(value.false_value, result)) or depends_on(term, [result]):
        return None
    comparison = value.condition.a if isinstance(value.condition, tirx.Or) else value.condition
    if not isinstance(comparison, tirx.LT | tirx.GT | tirx.LE | tirx.GE):
        return None
    if not all(is_load(side, result) or structural_equal(side, term) for side in (comparison.a, comparison.b)):
        return None

    def combine(left: Any, right: Any) -> Any:
        def visit(node: Node) -> Any:
            if is_load(node, result):
                return left
            return right if structural_equal(node, term) else node

        kinds = {TensorLoad: None, type(term): None}
        return structural_map(value, [(kind, visit) for kind in kinds], order="post")

    return Reducer(tirx.Select, term, combine, _kept_extremum(value, comparison, result))


def _kept_extremum(value: Expr, comparison: Expr, result: Buffer) -> Any:
    """Return `Max` or `Min` of a select that keeps the NaN of its first operand; None of another."""
    other = getattr(value.condition, "b", None) if isinstance(value.condition, tirx.Or) else None
    if operator_name(other) != "tirx.isnan":
        return None
    if not structural_equal(other.args[0], value.true_value):
        return None
    is_left = is_load(comparison.a, result) == is_load(value.true_value, result)
    return tirx.Max if is_left == isinstance(comparison, tirx.GT | tirx.GE) else tirx.Min
