"""Dependence analysis: loops whose iterations may run in any order, since none accesses what another one writes.

Two accesses to one buffer, of which at least one is a store, are disjoint when in some dimension the index of one
iteration is always smaller, or always larger, than that of another. That covers ``A[i, …]`` against ``A[i, …]``,
``A[2 * i]`` against ``A[2 * i + 1]``, and the triangles of factorisations: ``A[i, k]`` with k < i ≤ j against
``A[i, j]``. What it cannot prove is serial.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from mlirtri.lowering.schedule.cpu.loops.accesses import LoopAccess, LoopAccesses, accesses_of
from mlirtri.lowering.tir.linear_forms import Linear, LoopRange, least, range_of, variable
from mlirtri.lowering.toolchain.tvm_names import PARALLEL

"""Annotation of a `For` whose iterations are independent."""
_MOST_PAIRS = 4000
"""Pairs of accesses that are compared for one loop; a body with more takes longer than it gains."""
_OTHER = "other iteration"
_GAP = "iterations between"

Known = Mapping[Hashable, Linear]


def is_parallel(loop: Any, around: Sequence[LoopRange] = (), forms: Known | None = None) -> bool:
    """Whether the iterations of `loop` are independent; `around` are the loops around it, outermost first."""
    if PARALLEL in loop.annotations:
        return True
    return are_independent(accesses_of(loop.body, forms), range_of(loop, forms or {}), around)


def are_independent(accesses: LoopAccesses, loop: LoopRange, around: Sequence[LoopRange]) -> bool:
    """Whether statements with these accesses may run in any order for the values of `loop`."""
    if accesses.is_opaque:
        return False
    groups: dict[Any, list[LoopAccess]] = {}
    for access in accesses.shared:
        groups.setdefault(access.buffer, []).append(access)
    pairs = [
        (store, other)
        for group in groups.values()
        for store in _distinct(access for access in group if access.is_store)
        for other in _distinct(group)
    ]
    return len(pairs) <= _MOST_PAIRS and all(are_apart(*pair, loop, around) for pair in pairs)


def _distinct(accesses: Iterable[LoopAccess]) -> list[LoopAccess]:
    """Return the accesses without duplicates: those with the same indices in the same loops."""
    distinct = {}
    for access in accesses:
        key = tuple(None if form is None else (frozenset(form.terms.items()), form.constant) for form in access.indices)
        distinct.setdefault((key, tuple(inner.variable for inner in access.loops)), access)
    return list(distinct.values())


def are_apart(access: LoopAccess, other: LoopAccess, loop: LoopRange, around: Sequence[LoopRange]) -> bool:
    """Whether two accesses never have the same address in different iterations of a loop."""
    return _apart_when_later(access, other, loop, around) and _apart_when_later(other, access, loop, around)


def are_disjoint(access: LoopAccess, other: LoopAccess, around: Sequence[LoopRange]) -> bool:
    """Whether two accesses never have the same address, in any iterations of the loops around and inside."""
    names = {inner.variable: (_OTHER, inner.variable) for inner in other.loops}
    ranges = [*around, *access.loops, *(inner.renamed(names) for inner in other.loops)]
    pairs = zip(access.indices, other.indices, strict=True)
    return any(a is not None and b is not None and _differ(a, b.renamed(names), ranges) for a, b in pairs)


def _differ(form: Linear, other: Linear, ranges: Sequence[LoopRange]) -> bool:
    """Whether one sum is always larger, or always smaller, than the other."""
    distance = form - other
    return any(
        (bound := least(difference, ranges)) is not None and bound > 0 for difference in (distance, distance.times(-1))
    )


def _apart_when_later(access: LoopAccess, later: LoopAccess, loop: LoopRange, around: Sequence[LoopRange]) -> bool:
    """Whether `access` in some iteration never has the address of `later` in any later iteration."""
    current = variable(loop.variable)
    later_value = (current + variable(_GAP)).plus(1)
    gap = LoopRange(_GAP, Linear(), (loop.last - current).plus(-1) if loop.last else None)
    names = {name: (_OTHER, name) for name in (loop.variable, *(inner.variable for inner in later.loops))}

    def moved(form: Linear | None) -> Linear | None:
        return form and form.renamed(names).substituted(names[loop.variable], later_value)

    inner = [LoopRange(names[nested.variable], moved(nested.first), moved(nested.last)) for nested in later.loops]
    ranges = [*around, loop, gap, *access.loops, *inner]
    pairs = zip(access.indices, map(moved, later.indices), strict=True)
    return any(a is not None and b is not None and _differ(a, b, ranges) for a, b in pairs)
