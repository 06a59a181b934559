"""What some rows of a convolution's result read of a padded image, with all its channels, and the room it is copied to.

Takes the left operand of a contraction, an image of which places are sums of the result's rows and of a window's axes
(`padded_images.padded`). Gives the room's dimensions, loads out of it, and what fills it; None for any other operand.

    x[n, 2 h + i - 1, w + j - 1, c], 4 rows of h   ──►   room[9, 58, 64], read at [2 h + i, w + j, c]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.cpu.convolution.padded_images import Padded, padded
from mlirtri.lowering.tir.contraction import Axis, Values
from mlirtri.lowering.tir.linear_forms import Linear, linear
from mlirtri.lowering.tir.statements import index, plus, sequence
from mlirtri.lowering.tir.tiles import counted, in_vectors, replaced, temporary
from mlirtri.lowering.toolchain.tvm_names import tirx


@dataclass(frozen=True)
class _Side:
    """A dimension of the image that moves with the result or the window."""

    dimension: int
    own: Linear
    """Its place in the room."""
    others: Linear
    """What is added to that for the place in the image: images, groups, and the padding in front."""
    extent: int
    """Places that the whole result reads."""
    guarded: bool


@dataclass(frozen=True)
class Pieces:
    """Pieces of a padded image for chunks of the result's first axis of rows."""

    padded: Padded
    sides: tuple[_Side, ...]
    chunked: int
    """Which of the sides has the axis of the chunks."""
    axis: Axis
    """The axis of the chunks, whose variable counts from a chunk's first row where the room is read."""

    def extents(self, rows: Any) -> list[Any]:
        """The room's sizes for so many rows: an expression in place of one where that is one."""
        made: list[Any] = [side.extent for side in self.sides]
        side = self.sides[self.chunked]
        factor = side.own.factor(self.axis.variable)
        less = self.axis.extent - rows if isinstance(rows, int) else index(self.axis.extent) - rows
        made[self.chunked] = side.extent - less * factor if isinstance(rows, int) else (
            index(side.extent) - less * index(factor)
        )  # fmt: skip
        return made

    def size(self, rows: int) -> int:
        """Elements of the room."""
        total = 1
        for extent in self.extents(rows):
            total *= extent
        return total

    def buffer(self, rows: int) -> Any:
        return temporary("room", self.padded.dtype, self.extents(rows))

    def load(self, room: Any) -> Any:
        """The operand out of the room."""
        return tirx.BufferLoad(room, [_sum(side.own, {}) for side in self.sides])

    def filled(self, room: Any, values: Values, first: Any, rows: Any, lanes: int) -> Any:
        """The rows' piece of the image, and padding around it; `values` stand for images and groups."""
        return _Copy(self, room, values, first, rows, lanes).statement()


class _Copy:
    def __init__(self, pieces: Pieces, room: Any, values: Values, first: Any, rows: Any, lanes: int):
        self.pieces, self.room, self.values, self.lanes = pieces, room, values, lanes
        self.extents = pieces.extents(rows)
        moved = pieces.sides[pieces.chunked].own.factor(pieces.axis.variable)
        self.offsets = [_sum(side.others, values) for side in pieces.sides]
        is_whole = isinstance(rows, int) and rows == pieces.axis.extent
        self.chunked = None if is_whole else pieces.chunked
        if not is_whole:
            self.offsets[pieces.chunked] = plus(first * index(moved), self.offsets[pieces.chunked])

    def statement(self) -> Any:
        return self._inside([])

    def _inside(self, places: list[Any]) -> Any:
        """What is copied, or put around that, at some first places of the room."""
        at = len(places)
        if at == len(self.extents):
            return self._element(places)
        side, extent = self.pieces.sides[at], self.extents[at]

        def inside(place: Any) -> Any:
            return self._inside([*places, place])

        def around(place: Any) -> Any:
            return self._around([*places, place])

        if not side.guarded:
            return self._loop(at, 0, extent, inside)
        size = int(self.pieces.padded.load.source.ty.shape[side.dimension])
        if at == self.chunked:
            return self._loop(at, 0, extent, lambda place: self._if_inside(at, size, place, inside, around))
        low = min(max(0, -side.others.constant), extent)
        high = max(low, min(size - side.others.constant, extent))
        parts = ((0, low, around), (low, high, inside), (high, extent, around))
        return sequence(*(self._loop(at, start, end, make) for start, end, make in parts if start < end))

    def _if_inside(self, at: int, size: int, place: Any, inside: Callable, around: Callable) -> Any:
        position = plus(place, self.offsets[at])
        condition = tirx.And(tirx.GE(position, index(0)), tirx.LT(position, index(size)))
        return tirx.IfThenElse(condition, inside(place), around(place))

    def _loop(self, at: int, start: int, end: Any, make: Callable[[Any], Any]) -> Any:
        if at == len(self.extents) - 1:
            return in_vectors(end - start, self.lanes, lambda place: make(plus(place, index(start))))
        extent = end - start if isinstance(end, int) else end
        return counted("line", extent, lambda place: make(plus(place, index(start))))

    def _around(self, places: list[Any]) -> Any:
        at = len(places)
        if at == len(self.extents):
            return tirx.BufferStore(self.room, self.pieces.padded.around(), places)
        return self._loop(at, 0, self.extents[at], lambda place: self._around([*places, place]))

    def _element(self, places: list[Any]) -> Any:
        load = self.pieces.padded.load
        indices = [replaced(place, self.values) for place in load.indices]
        for side, place, offset in zip(self.pieces.sides, places, self.offsets, strict=True):
            indices[side.dimension] = plus(place, offset)
        return tirx.BufferStore(self.room, self.pieces.padded.element(indices), places)


def pieces_of(operand: Any, rows: Sequence[Axis], reduced: Sequence[Axis]) -> Pieces | None:
    """The pieces for chunks of the first axis of rows; None where that is no dimension's own, or nothing is padded."""
    found = padded(operand)
    return None if found is None else pieces_around(found, rows, reduced)


def pieces_around(found: Padded, rows: Sequence[Axis], reduced: Sequence[Axis]) -> Pieces | None:
    """The same of an operand whose padding is known, which may be none."""
    axes = {axis.variable: axis for axis in (*rows, *reduced)}
    forms = [linear(place, {}) for place in found.load.indices]
    if None in forms:
        return None
    sides = [_side(at, form, axes, at in found.guarded) for at, form in enumerate(forms)]
    kept = tuple(side for side in sides if side is not None and side.own.terms)
    chunked = [at for at, side in enumerate(kept) if side.own.factor(rows[0].variable)]
    guarded = {side.dimension for side in kept if side.guarded and not side.others.terms}
    if None in sides or len(chunked) != 1 or not found.guarded <= guarded:
        return None
    if len(rows) > 1 and chunked[0] == len(kept) - 1:
        return None
    return Pieces(found, kept, chunked[0], rows[0])


def _side(dimension: int, form: Linear, axes: dict[Any, Axis], guarded: bool) -> _Side | None:
    """A dimension of the image; None where it counts backwards."""
    own = {variable: factor for variable, factor in form.terms.items() if variable in axes}
    others = {variable: factor for variable, factor in form.terms.items() if variable not in axes}
    if any(factor < 0 for factor in own.values()):
        return None
    extent = 1 + sum(factor * (axes[variable].extent - 1) for variable, factor in own.items())
    return _Side(dimension, Linear(own), Linear(others, form.constant), extent, guarded)


def _sum(form: Linear, values: Values) -> Any:
    total: Any = index(form.constant)
    for variable, factor in form.terms.items():
        value = values.get(variable, variable)
        total = plus(total, value if factor == 1 else value * index(factor))
    return total
