"""The scalar buffers that a reduction accumulates in, and how two partial results combine.

Float sums are reassociated, as BLAS and NumPy do it; extrema keep a NaN; of equal extrema the first position counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.cpu.common.nest import FlatNest
from mlirtri.lowering.schedule.cpu.nests.accumulator_dtypes import (
    INT32_MAX,
    accumulator_dtype,
    on_accumulators,
    result_of,
    stored_at_once,
)
from mlirtri.lowering.tir.reducers import reducer_of
from mlirtri.lowering.tir.statements import buffer_like, depends_on, index, is_load, new_buffer, sequence
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Node,
    Stmt,
    TensorLoad,
    Var,
    structural_equal,
    structural_map,
    structural_walk,
    tirx,
)

Values = Mapping[Any, Any]
"""Maps accumulators to the values of one partial result."""


@dataclass(frozen=True)
class Accumulators:
    """The accumulators of a reduction, in the order in which it writes its results."""

    buffers: Mapping[Any, Any]
    """Maps the flat buffers of the results to accumulators of one element."""
    offsets: Mapping[Any, Any]
    """Maps the flat buffers of the results to the index of one result, in terms of the spatial axes."""
    start: Any
    """Statement that stores the initial values into the accumulators."""
    step: Any
    """Statement that adds one iteration's terms to the accumulators."""
    neutral: Values | None
    """The initial values of partial results; None where partial results cannot be combined."""
    combine: Callable[[Values, Values], Values] | None

    last: Any = None
    """Statement that copies the accumulators into the results, where that is not a plain store at `offsets`."""

    def finish(self) -> Stmt:
        """Return the statement that stores the accumulators into the results."""
        if self.last is not None:
            return self.last
        return sequence(
            *(
                tirx.BufferStore(result, result_of(self.buffers[result], str(result.dtype)), [offset])
                for result, offset in self.offsets.items()
            )
        )

    def allocated(self) -> list[Stmt]:
        return [tirx.AllocBuffer(buffer) for buffer in self.buffers.values()]

    def widened(self, width: int) -> dict[Buffer, Buffer]:
        """Map each accumulator to a new buffer of ``[1, width]`` elements."""
        return {scalar: buffer_like(scalar, [index(1), index(width)]) for scalar in self.buffers.values()}


def accumulators_of(nest: FlatNest) -> Accumulators | None:
    """Return the accumulators of a nest; None where a result's index changes while the reduction runs."""
    offsets: dict[Any, Any] = {}
    reduced = [axis.variable for axis in nest.reduced]
    if nest.init is None:
        return None
    written = nest.written
    for access in nest.accesses:
        if access.buffer not in written:
            continue
        offset = offsets.setdefault(access.buffer, access.offset)
        if not structural_equal(offset, access.offset) or depends_on(access.offset, reduced):
            return None
    if any(loads_of(offset) for offset in offsets.values()):
        return None
    narrow, body = _narrow_indices(nest, written), stored_at_once(nest.body)
    dtypes = {result: accumulator_dtype(result, body, is_position=result in narrow) for result in written}
    buffers = {result: new_buffer(f"{result.name}_sum", dtype, 1) for result, dtype in dtypes.items()}
    step, start = (on_accumulators(part, buffers) for part in (body, nest.init))
    neutral, combine = _associative(nest, buffers, step, start)
    return Accumulators(buffers, {result: offsets[result] for result in buffers}, start, step, neutral, combine)


def loads_of(expression: Expr) -> list[TensorLoad]:
    """Return the loads in an expression or statement."""
    loads: list[Any] = []
    structural_walk(expression, (TensorLoad, loads.append), order="pre")
    return loads


def _narrow_indices(nest: FlatNest, written: list[Any]) -> list[Any]:
    """Return the results that are int64 positions beside an extremum and fit into 32 bits."""
    if len(written) != 2 or any(axis.extent > INT32_MAX for axis in nest.axes) or len(nest.reduced) != 1:
        return []
    return [written[1]] if str(written[1].dtype) == "int64" else []


def _associative(nest: FlatNest, buffers: Mapping[Any, Any], step: Any, start: Any) -> tuple[Any, Any]:
    if len(buffers) == 1 and isinstance(step, tirx.BufferStore):
        [accumulator] = buffers.values()
        return _single(step.value, accumulator)
    return _position(nest, list(buffers.values()), step, start) if len(buffers) == 2 else (None, None)


def _single(value: Expr, accumulator: Buffer) -> tuple[Any, Any]:
    """Return the neutral value and combination of a sum, product, extremum, any or all in one accumulator."""
    if isinstance(value, tirx.Select):
        return _extremum(value, accumulator)
    reducer = reducer_of(value, accumulator)
    start = None if reducer is None else _NEUTRAL[reducer.node.__name__](str(accumulator.dtype))
    if reducer is None or start is None:
        return None, None
    combine = reducer.combine
    return {accumulator: start}, lambda partial, other: {accumulator: combine(partial[accumulator], other[accumulator])}


def _sum_start(dtype: str) -> Any:
    return tirx.FloatImm(dtype, -0.0) if dtype in _FLOATS else tirx.IntImm(dtype, 0) if "int" in dtype else None


def _product_start(dtype: str) -> Any:
    return tirx.FloatImm(dtype, 1.0) if dtype in _FLOATS else tirx.IntImm(dtype, 1) if "int" in dtype else None


def _smallest(dtype: str) -> Any:
    return tirx.min_value(dtype) if dtype.startswith(("int", "uint")) else None


def _largest(dtype: str) -> Any:
    return tirx.max_value(dtype) if dtype.startswith(("int", "uint")) else None


def _none_set(dtype: str) -> Any:
    return tirx.IntImm(dtype, 0) if dtype == "bool" or "int" in dtype else None


def _all_set(dtype: str) -> Any:
    if dtype == "bool":
        return tirx.IntImm("bool", 1)
    return tirx.IntImm(dtype, -1) if dtype.startswith("int") else None


_FLOATS = ("float16", "float32", "float64")
_NEUTRAL = {
    "Add": _sum_start, "Sub": _sum_start, "Mul": _product_start, "Max": _smallest, "Min": _largest,
    "And": _all_set, "Or": _none_set, "BitwiseAnd": _all_set, "BitwiseOr": _none_set, "BitwiseXor": _none_set,
}  # fmt: skip


def _extremum(value: Expr, accumulator: Buffer) -> tuple[Any, Any]:
    match = extremum_term(value, accumulator)
    if match is None:
        return None, None
    sign, term = match

    def combine(partial: Values, other: Values) -> Values:
        return {accumulator: _replaced(value, {accumulator: partial[accumulator]}, term, other[accumulator])}

    return {accumulator: tirx.FloatImm(str(accumulator.dtype), float("-inf") * sign)}, combine


def extremum_term(value: Expr, accumulator: Buffer) -> tuple[int, Expr] | None:
    """Return 1 and the term of ``select(a > term or isnan(a), a, term)``, a the accumulator; -1 for a minimum."""
    dtype = str(accumulator.dtype)
    if not isinstance(value, tirx.Select) or dtype not in _FLOATS:
        return None
    select = value.false_value if isinstance(value.false_value, tirx.Select) else value
    is_first = is_load(select.true_value, accumulator)
    term = select.false_value if is_first else select.true_value
    if (not is_first and not is_load(select.false_value, accumulator)) or depends_on(term, [accumulator]):
        return None
    sign = _direction(select.condition, accumulator, term, is_first)
    return (sign, term) if sign else None


def _direction(condition: Expr, accumulator: Buffer, term: Expr, accumulator_is_kept: bool) -> int:
    """Return 1 for a maximum, -1 for a minimum, 0 for neither."""
    comparison = condition
    if not isinstance(comparison, tirx.LT | tirx.GT | tirx.LE | tirx.GE):
        return 0
    sides = [_narrowest(side) for side in (comparison.a, comparison.b)]
    plain = _narrowest(term)
    if is_load(sides[0], accumulator) and structural_equal(sides[1], plain):
        is_accumulator_first = True
    elif is_load(sides[1], accumulator) and structural_equal(sides[0], plain):
        is_accumulator_first = False
    else:
        return 0
    keeps_larger = isinstance(comparison, tirx.GT | tirx.GE) == (is_accumulator_first == accumulator_is_kept)
    return 1 if keeps_larger else -1


def _narrowest(value: Expr) -> Any:
    """Return the fp16 or bf16 operand of a conversion to fp32 for a comparison."""
    return value.value if isinstance(value, tirx.Cast) and str(value.ty) == "float32" else value


def _replaced(value: Expr, loads: Mapping[Any, Any], term: Expr | None = None, other: Any = None) -> Any:
    """Return `value` with replacements of the loads of accumulators, and of a term."""

    def visit(node: Node) -> Any:
        if term is not None and structural_equal(node, term):
            return other
        if isinstance(node, TensorLoad):
            return loads.get(node.source, node)
        return node

    kinds = [TensorLoad] if term is None or isinstance(term, TensorLoad) else [TensorLoad, type(term)]
    return structural_map(value, [(kind, visit) for kind in kinds], order="post")


def _position(nest: FlatNest, buffers: list[Any], step: Any, start: Any) -> tuple[Any, Any]:
    """Return an extremum and its position: the larger of two, of equal ones the first."""
    values, starts, [best, position] = final_values(step), final_values(start), buffers
    if values is None or starts is None or len(nest.reduced) != 1 or set(values) != set(buffers):
        return None, None
    if not all(isinstance(starts.get(buffer), tirx.IntImm | tirx.FloatImm) for buffer in buffers):
        return None, None
    counter = nest.reduced[0].variable
    select = _position_select(values[position], counter, position)
    term = None if select is None else _term(values[best], select.condition, best)
    if term is None or depends_on(term, buffers):
        return None, None
    wins = select.condition
    breaks_ties = depends_on(wins, [position])
    without_term = _replaced(wins, {}, term, starts[best])
    if any(depends_on(load, [counter]) for load in loads_of(without_term)):
        return None, None
    if not breaks_ties and (depends_on(without_term, [counter]) or not isinstance(wins, tirx.GT | tirx.LT)):
        return None, None

    def combine(partial: Values, other: Values) -> Values:
        condition = _replaced(wins, partial, term, other[best])
        if breaks_ties:
            other_position = tirx.Cast("int64", other[position])
            condition = structural_map(
                condition, (tirx.Var, lambda variable: other_position if variable.same_as(counter) else variable)
            )
        else:
            ties = tirx.bitwise_and(tirx.EQ(partial[best], other[best]), tirx.LT(other[position], partial[position]))
            condition = tirx.bitwise_or(condition, ties)
        return {buffer: tirx.Select(condition, other[buffer], partial[buffer]) for buffer in buffers}

    return {buffer: starts[buffer] for buffer in buffers}, combine


def _position_select(value: Expr, counter: Var, position: Buffer) -> Any:
    value = value.value if isinstance(value, tirx.Cast) else value
    if not isinstance(value, tirx.Select) or not value.true_value.same_as(counter):
        return None
    return value if any(is_load(load, position) for load in loads_of(value.false_value)) else None


def _term(value: Expr, condition: Expr, best: Any) -> Any:
    """Return the term of an extremum with `best`; None where `condition` does not choose it."""
    if isinstance(value, tirx.Select) and structural_equal(value.condition, condition):
        return value.true_value if is_load(value.false_value, best) else None
    if isinstance(value, tirx.Max | tirx.Min):
        return value.b if is_load(value.a, best) else None
    return None


def final_values(statement: Stmt) -> dict[Buffer, Expr] | None:
    """Return each accumulator's value after straight-line stores, in terms of initial values; None for other code."""
    statements = list(statement.seq) if isinstance(statement, tirx.SeqStmt) else [statement]
    scratch: dict[Any, Any] = {}
    final: dict[Any, Any] = {}
    for child in statements:
        if isinstance(child, tirx.AllocBuffer):
            scratch[child.buffer] = None
        elif isinstance(child, tirx.BufferStore):
            values = {buffer: value for buffer, value in {**final, **scratch}.items() if value is not None}
            value = _replaced(child.value, values)
            (scratch if child.buffer in scratch else final)[child.buffer] = value
        else:
            return None
    return final
