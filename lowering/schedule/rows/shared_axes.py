"""The axes that all nests of a row kernel share: its rows.

No iteration of a row axis needs what another iteration computes.

    m[i] = max_k x[i, k];  e[i, j] = exp(x[i, j] - m[i]);  s[i] = sum_k e[i, k]    the rows are i, three axes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlirtri.lowering.schedule.rows.nests import BlockNest, NotRows


@dataclass(frozen=True)
class Rows:
    """Per nest, the indices of its axes that are the rows' axes, in a common order; `extents` are their sizes."""

    axes: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...]


class _Classes:
    """Equivalence classes of axes (union-find): what one nest writes along an axis, the other reads along its own."""

    def __init__(self, nests: Sequence[BlockNest]):
        self.parent: dict[tuple[int, int], tuple[int, int]] = {
            (number, axis): (number, axis) for number, nest in enumerate(nests) for axis in range(len(nest.axes))
        }
        self.broken: set[tuple[int, int]] = set()

    def of(self, key: tuple[int, int]) -> tuple[int, int]:
        while self.parent[key] != key:
            key = self.parent[key]
        return key

    def join(self, first: tuple[int, int], second: tuple[int, int]) -> None:
        first, second = sorted((self.of(first), self.of(second)))
        self.parent[second] = first

    def members(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for key in self.parent:
            groups.setdefault(self.of(key), []).append(key)
        broken = {self.of(key) for key in self.broken}
        return {key: keys for key, keys in groups.items() if key not in broken}


def find_rows(nests: Sequence[BlockNest]) -> Rows:
    """Return the axes that all nests share; where there is none, everything is one row."""
    if not nests:
        raise NotRows("nothing is computed")
    classes = _Classes(nests)
    writers = {nest.target: number for number, nest in enumerate(nests)}
    if len(writers) != len(nests):
        raise NotRows("a buffer is written twice")
    for number, nest in enumerate(nests):
        for load in nest.loads:
            if (writer := writers.get(load.source)) is not None:
                read, written = nest.plain(load.indices), nests[writer].target_axes
                _join_dimensions(classes, nests, (number, read), (writer, written))
    last = len(nests) - 1
    rows = []
    for keys in classes.members().values():
        numbers = dict(keys)
        axes = [nests[number].axes[axis] for number, axis in keys]
        is_shared = len(keys) == len(numbers) == len(nests)
        if is_shared and not any(axis.is_reduction for axis in axes) and len({axis.extent for axis in axes}) == 1:
            rows.append(numbers)
    order = [axis for axis in nests[last].target_axes if axis is not None]
    rows.sort(key=lambda numbers: order.index(numbers[last]) if numbers[last] in order else len(order))
    axes = tuple(tuple(numbers[number] for numbers in rows) for number in range(len(nests)))
    return Rows(axes, tuple(nests[last].axes[axis].extent for axis in axes[last]))


def _join_dimensions(classes: _Classes, nests: Sequence[BlockNest], read: tuple, write: tuple) -> None:
    """Unite the reader's and the writer's axis of each dimension; neither is a row where one of them is no axis."""
    (reader, read_axes), (writer, written_axes) = read, write
    for read_axis, written_axis in zip(read_axes, written_axes, strict=True):
        if read_axis is not None and written_axis is not None:
            classes.join((reader, read_axis), (writer, written_axis))
        elif written_axis is not None and nests[writer].axes[written_axis].extent > 1:
            classes.broken.add((writer, written_axis))
