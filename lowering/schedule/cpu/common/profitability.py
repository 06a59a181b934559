"""Parallel loops, and when they are profitable: the cost model of the CPU's rules for launching threads.

Whether a loop is parallel is decided here, the number of threads elsewhere: `host_threads` of `lowering/core/target.py`
is the number that code is compiled for, `lowering/runtime/torch_threads.py` starts as many as torch uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.lowering.core.cpu import PARALLEL_ITERATIONS, profitable
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.nest import NestAxis
from mlirtri.lowering.tir.statements import index
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import Stmt, tirx

CALL_COST = 16
"""The cost of a loop body, or of a step, with a function call such as `exp`, in those without."""


def threads_are_profitable(target: Target, work: int, least: int = PARALLEL_ITERATIONS) -> bool:
    """Return whether `work`, in the unit of `least`, is enough for several threads of the target."""
    return target.threads > 1 and profitable(work >= least)


@dataclass(frozen=True)
class Outer:
    """Independent loops, outermost first, and the number of times that the innermost body inside of them runs."""

    axes: Sequence[NestAxis]
    iterations: int


def outer_loops(outer: Outer, statement: Stmt, target: Target) -> Stmt:
    """Return the loops around a statement, fused into one parallel loop where a launch is profitable."""
    axes = list(outer.axes)
    if not axes:
        return statement
    count = prod(axis.extent for axis in axes)
    if count > 1 and threads_are_profitable(target, outer.iterations):
        return _fused(axes, count, statement)
    return serial_loops(axes, statement)


def serial_loops(axes: Sequence[NestAxis], statement: Stmt) -> Stmt:
    """Return the loops around a statement, the first one outermost."""
    for axis in reversed(axes):
        variable = tirx.Var(axis.variable.name, axis.variable.ty)
        body = replaced(statement, {axis.variable: variable})
        statement = tirx.For(variable, index(0), index(axis.extent), tirx.ForKind.SERIAL, body)
    return statement


def _fused(axes: Sequence[NestAxis], count: int, statement: Stmt) -> Any:
    both = tirx.Var(axes[0].variable.name if len(axes) == 1 else "fused", "int64")
    values, below = {}, count
    for position, axis in enumerate(axes):
        below //= axis.extent
        value = both if below == 1 else tirx.floordiv(both, index(below))
        values[axis.variable] = value if position == 0 else tirx.floormod(value, index(axis.extent))
    return tirx.For(both, index(0), index(count), tirx.ForKind.PARALLEL, replaced(statement, values))
