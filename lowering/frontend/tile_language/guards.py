"""Elements in tile kernels whose index may be out of bounds: they read zero and are not written.

B[k * 32 + i]   ──►   where(k * 32 + i < n, B[min(k * 32 + i, n - 1)], 0)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

from mlirtri.dialect.base.sizes import Size
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.lowering.frontend.semantics.axes import is_index
from mlirtri.lowering.frontend.semantics.builder import Language
from mlirtri.lowering.frontend.semantics.index_checks import checked_index, moves_with_loops
from mlirtri.lowering.frontend.semantics.value_ranges import tightened


@dataclass(frozen=True)
class Guard:
    """An index of which it is not known whether it is inside of its array."""

    index: tuple[Any, ...]
    """The index, of which the axes without condition are checked."""
    clamped: tuple[Any, ...]
    """The nearest index that is inside."""
    holds: TriValue
    """Whether the index is inside."""


@contextmanager
def unchecked(b: Language) -> Iterator[None]:
    """Emit accesses inside without checks: a branch around them has made these."""
    before, b.is_inside = b.is_inside, True
    try:
        yield
    finally:
        b.is_inside = before


def guarded(b: Language, array: TriValue, index: tuple[KernelValue, ...]) -> Guard | None:
    """Return the guard of an index of an element; None where it is always inside.

    Elements are guarded whose indices move with loops and blocks. Constants, and what is read from arrays, are checked
    as in other kernels.
    """
    if not b.in_tile_kernel or len(index) != array.type.rank or not all(map(is_index, index)):
        return None
    parts, clamped, conditions = list(index), list(index), []
    for axis, part in enumerate(index):
        if not isinstance(part, TriValue):
            continue
        position, size = tightened(b.indices.size_of(part)), Size.of(array.type.shape[axis])
        if position.is_constant or not (part.weak or moves_with_loops(b, position)):
            continue
        inside = _conditions(b, position, size)
        if inside:
            conditions += inside
            nearest = b.indices.maximum(b.indices.minimum(position, size - 1), Size.of(0))
            clamped[axis] = b.number_of(nearest.simplified())
    if not conditions:
        return None
    for axis, part in enumerate(index):
        if isinstance(part, TriValue) and clamped[axis] is part and not part.weak:
            parts[axis] = clamped[axis] = _checked(b, part, array, axis)
    return Guard(tuple(parts), tuple(clamped), reduce(b.tri.logical_and, conditions))


def _checked(b: Language, part: TriValue, array: TriValue, axis: int) -> Any:
    position, size = b.indices.size_of(part), Size.of(array.type.shape[axis])
    message = f"an index is out of bounds for axis {axis} of size {size}"
    return b.number_of(checked_index(b, position, size, message).simplified())


def _conditions(b: Language, position: Size, size: Size) -> list[TriValue]:
    """Return what has to hold for a position to be inside of an axis, but for what always does."""
    conditions = []
    if (least := position.least()) is None or least < 0:
        conditions.append(b.tri.greater_equal(b.tri.index(position), b.tri.index(0)))
    if (room := (size - 1 - position).least()) is None or room < 0:
        conditions.append(b.tri.less(b.tri.index(position), b.tri.index(size)))
    return conditions
