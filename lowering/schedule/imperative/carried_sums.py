"""Recognise the scalar buffers that a loop reduces into: sums, products and extrema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.imperative.accesses import accesses_of, is_scalar
from mlirtri.lowering.tir.reducers import reducer_of
from mlirtri.lowering.tir.statements import depends_on, is_load
from mlirtri.lowering.toolchain.tvm_names import Stmt, tirx, with_values

_FLOATS = ("float32", "float64")
_NEUTRAL = {tirx.Add: -0.0, tirx.Sub: -0.0, tirx.Mul: 1.0, tirx.Select: None}
"""The identity element of each combining node that partial results may start from; an extremum has none."""
Combine = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Sum:
    """A scalar buffer that a loop reduces into: how two partial results are combined, and their neutral element."""

    scalar: Any
    combine: Combine
    start: Any
    """The neutral element; None where a copy of the buffer's value serves as one."""
    term: Any
    """What an iteration adds, multiplies, or compares."""
    extremum: Any = None
    """`tirx.Max` or `tirx.Min` for a maximum or minimum that keeps NaN."""


def sums_of(loop: Stmt) -> list[Sum] | None:
    """Return the scalar buffers that a loop reduces into; None where it does anything else."""
    accesses = accesses_of(loop.body)
    if accesses.is_opaque or not all(is_scalar(access.buffer) for access in accesses.shared if access.is_store):
        return None
    statements = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
    values = {bind.var: bind.value for bind in statements if isinstance(bind, tirx.Bind)}
    private = accesses.private
    stores = [store for store in statements if isinstance(store, tirx.BufferStore) and store.buffer not in private]
    written = [access.buffer for access in accesses.shared if access.is_store]
    sums = [reduction for store in stores if (reduction := _sum(store, values, written)) is not None]
    if not sums or not len(sums) == len(stores) == len(written):
        return None
    scalars = [reduction.scalar for reduction in sums]
    return sums if _are_apart(statements, scalars) else None


def _are_apart(statements: list[Any], scalars: list[Any]) -> bool:
    """Return whether each scalar buffer is read by its own reduction only, perhaps by a bound variable."""
    for scalar in scalars:
        names = [bind.var for bind in statements if isinstance(bind, tirx.Bind) and is_load(bind.value, scalar)]
        for statement in statements:
            is_own = isinstance(statement, tirx.BufferStore) and statement.buffer.same_as(scalar)
            is_name = isinstance(statement, tirx.Bind) and is_load(statement.value, scalar)
            if not is_own and not is_name and depends_on(statement, [scalar, *names]):
                return False
    return True


def _sum(store: Stmt, values: dict[Any, Any], written: list[Any]) -> Sum | None:
    scalar, dtype = store.buffer, str(store.value.ty)
    if dtype not in _FLOATS:
        return None
    names = {name: value for name, value in values.items() if is_load(value, scalar)}
    value = with_values(store.value, names)
    reducer = reducer_of(value, scalar)
    if reducer is None or reducer.node not in _NEUTRAL or depends_on(reducer.term, written):
        return None
    number = _NEUTRAL[reducer.node]
    start = None if number is None else tirx.FloatImm(dtype, number)
    return Sum(scalar, reducer.combine, start, reducer.term, reducer.extremum)
