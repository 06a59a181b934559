"""Loops on threads, and what is worth them: every guard of the CPU's rules that weighs work against its cost is here.

Takes loops' axes and what is inside of them. Gives statements with one parallel loop, where there is enough work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri import settings
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.nest import NestAxis
from mlirtri.lowering.tir.statements import index
from mlirtri.lowering.toolchain.tvm_names import structural_map, tirx

PARALLEL_POINTS = 32768
"""Loop bodies below which a second thread costs more than it saves: a launch takes about 3 µs."""


def worth(condition: bool) -> bool:
    """Whether to do what pays only under a condition: always, where ``MLIRTRI_FORCE_SCHEDULES`` says so."""
    return condition or settings.get("MLIRTRI_FORCE_SCHEDULES")


@dataclass(frozen=True)
class Outer:
    """Independent loops, outermost first, and how often what is inside of all of them runs, in plain steps."""

    axes: Sequence[NestAxis]
    points: int


def outer_loops(outer: Outer, statement: Any, target: Target) -> Any:
    """The loops around a statement, as one parallel loop where that is worth a launch."""
    axes = list(outer.axes)
    if not axes:
        return statement
    count = prod(axis.extent for axis in axes)
    if target.threads > 1 and count > 1 and worth(outer.points >= PARALLEL_POINTS):
        return _fused(axes, count, statement)
    for axis in reversed(axes):
        variable = tirx.Var(axis.variable.name, axis.variable.ty)
        statement = _replaced(statement, {axis.variable: variable})
        statement = tirx.For(variable, index(0), index(axis.extent), tirx.ForKind.SERIAL, statement)
    return statement


def _fused(axes: Sequence[NestAxis], count: int, statement: Any) -> Any:
    both = tirx.Var(axes[0].variable.name if len(axes) == 1 else "fused", "int64")
    values, below = {}, count
    for at, axis in enumerate(axes):
        below //= axis.extent
        place = both if below == 1 else tirx.floordiv(both, index(below))
        values[axis.variable] = place if at == 0 else tirx.floormod(place, index(axis.extent))
    return tirx.For(both, index(0), index(count), tirx.ForKind.PARALLEL, _replaced(statement, values))


def _replaced(statement: Any, values: dict[Any, Any]) -> Any:
    return structural_map(statement, (tirx.Var, lambda each: values.get(each, each)))
