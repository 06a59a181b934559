"""The padded copy of the part of an image that a chunk of a convolution's rows reads, with all channels.

The image's indices (`padded_images.padded`) are sums of axes of the result's rows and of the window.

    x[n, 2 h + i - 1, w + j - 1, c], 4 rows of h   ──►   copy[9, 58, 64], read at [2 h + i, w + j, c]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.lowering.schedule.cpu.convolution.padded_channels import value_of
from mlirtri.lowering.tir.contraction import Axis, Values
from mlirtri.lowering.tir.linear_forms import Linear
from mlirtri.lowering.tir.padded_images import Padded, linear_indices, padded
from mlirtri.lowering.tir.statements import index, plus, sequence
from mlirtri.lowering.tir.tiles import for_loop, in_vectors, replaced, temporary
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Extent, Stmt, Var, tirx


@dataclass(frozen=True)
class Side:
    """A dimension of the image whose index depends on axes of the result or of the window."""

    dimension: int
    position: Linear
    """The position in the copy."""
    offset: Linear
    """The position in the image minus that in the copy: images, groups, and minus the padding in front."""
    extent: int
    """Elements that the whole result reads along the dimension."""
    guarded: bool
    """Whether the dimension is padded."""


@dataclass(frozen=True)
class PaddedChunk:
    """The padded copies of an image for chunks of the first axis of the result's rows."""

    padded: Padded
    sides: tuple[Side, ...]
    """The dimensions of a copy."""
    chunked: int
    """The dimension of the copy that depends on the chunked axis."""
    axis: Axis
    """The chunked axis, whose variable counts from the first row of the chunk in loads from a copy."""

    def extents(self, rows: int | Expr) -> list[Extent]:
        """Return the shape of the copy for a number of rows; one extent is an expression where `rows` is."""
        extents: list[Any] = [side.extent for side in self.sides]
        side = self.sides[self.chunked]
        factor = side.position.factor(self.axis.variable)
        less = self.axis.extent - rows if isinstance(rows, int) else index(self.axis.extent) - rows
        extents[self.chunked] = side.extent - less * factor if isinstance(rows, int) else (
            index(side.extent) - less * index(factor)
        )  # fmt: skip
        return extents

    def bytes(self, rows: int) -> int:
        return prod(self.extents(rows)) * int(self.padded.operand.ty.dtype.bits) // 8

    def buffer(self, rows: int) -> Buffer:
        return temporary("padded", self.padded.dtype, self.extents(rows))

    def load(self, copy: Buffer) -> Expr:
        return tirx.BufferLoad(copy, [value_of(side.position) for side in self.sides])

    def filled(self, copy: Buffer, values: Values, first: Expr, rows: int | Expr, lanes: int) -> Stmt:
        """Return the copy of the padded image for `rows` rows from `first` on; `values` replace batch axes."""
        return _Copy(self, copy, values, first, rows, lanes).statement()


class _Copy:
    def __init__(self, chunk: PaddedChunk, copy: Buffer, values: Values, first: Expr, rows: Any, lanes: int):
        self.chunk, self.copy, self.values, self.lanes = chunk, copy, values, lanes
        self.extents = chunk.extents(rows)
        stride = chunk.sides[chunk.chunked].position.factor(chunk.axis.variable)
        self.offsets = [value_of(side.offset, values) for side in chunk.sides]
        is_whole = isinstance(rows, int) and rows == chunk.axis.extent
        self.chunked = None if is_whole else chunk.chunked
        if not is_whole:
            self.offsets[chunk.chunked] = plus(first * index(stride), self.offsets[chunk.chunked])

    def statement(self) -> Stmt:
        return self._inside([])

    def _inside(self, indices: list[Expr]) -> Stmt:
        """Return the loops over the copy's remaining dimensions, at `indices` of the first ones, inside the image."""
        dimension = len(indices)
        if dimension == len(self.extents):
            return self._element(indices)
        side, extent = self.chunk.sides[dimension], self.extents[dimension]

        def inside(position: Expr) -> Stmt:
            return self._inside([*indices, position])

        def padding(position: Expr) -> Stmt:
            return self._padding([*indices, position])

        if not side.guarded:
            return self._loop(dimension, 0, extent, inside)
        size = int(self.chunk.padded.load.source.ty.shape[side.dimension])
        if dimension == self.chunked:

            def checked(position: Expr) -> Stmt:
                row = plus(position, self.offsets[dimension])
                is_inside = tirx.And(tirx.GE(row, index(0)), tirx.LT(row, index(size)))
                return tirx.IfThenElse(is_inside, inside(position), padding(position))

            return self._loop(dimension, 0, extent, checked)
        low = min(max(0, -side.offset.constant), extent)
        high = max(low, min(size - side.offset.constant, extent))
        parts = ((0, low, padding), (low, high, inside), (high, extent, padding))
        return sequence(*(self._loop(dimension, start, end, body) for start, end, body in parts if start < end))

    def _loop(self, dimension: int, start: int, end: Any, body: Callable[[Expr], Stmt]) -> Stmt:
        if dimension == len(self.extents) - 1:
            return in_vectors(end - start, self.lanes, lambda position: body(plus(position, index(start))))
        extent = end - start if isinstance(end, int) else end
        return for_loop("line", extent, lambda position: body(plus(position, index(start))))

    def _padding(self, indices: list[Expr]) -> Stmt:
        dimension = len(indices)
        if dimension == len(self.extents):
            return tirx.BufferStore(self.copy, self.chunk.padded.padding(), indices)
        return self._loop(dimension, 0, self.extents[dimension], lambda position: self._padding([*indices, position]))

    def _element(self, indices: list[Expr]) -> Stmt:
        source = [replaced(position, self.values) for position in self.chunk.padded.load.indices]
        for side, position, offset in zip(self.chunk.sides, indices, self.offsets, strict=True):
            source[side.dimension] = plus(position, offset)
        return tirx.BufferStore(self.copy, self.chunk.padded.element(source), indices)


def padded_chunk(operand: Expr, rows: Sequence[Axis], reduced: Sequence[Axis]) -> PaddedChunk | None:
    """Return the padded copies of an operand for chunks of the first axis of rows.

    None where nothing is padded, or no dimension of the image goes along that axis alone.
    """
    image = padded(operand)
    return None if image is None else chunk_of(image, rows, reduced)


def chunk_of(image: Padded, rows: Sequence[Axis], reduced: Sequence[Axis]) -> PaddedChunk | None:
    """Return the same for an image whose padding is known, and may be empty."""
    axes = {axis.variable: axis for axis in (*rows, *reduced)}
    forms = linear_indices(image.load)
    if forms is None:
        return None
    sides = [_side(dimension, form, axes, dimension in image.guarded) for dimension, form in enumerate(forms)]
    moving = tuple(side for side in sides if side is not None and side.position.terms)
    chunked = [position for position, side in enumerate(moving) if side.position.factor(rows[0].variable)]
    guarded = {side.dimension for side in moving if side.guarded and not side.offset.terms}
    if None in sides or len(chunked) != 1 or not image.guarded <= guarded:
        return None
    if len(rows) > 1 and chunked[0] == len(moving) - 1:
        return None
    return PaddedChunk(image, moving, chunked[0], rows[0])


def _side(dimension: int, form: Linear, axes: dict[Var, Axis], guarded: bool) -> Side | None:
    """Return a dimension of the image; None where its index decreases along an axis."""
    terms = {variable: factor for variable, factor in form.terms.items() if variable in axes}
    others = {variable: factor for variable, factor in form.terms.items() if variable not in axes}
    if any(factor < 0 for factor in terms.values()):
        return None
    extent = 1 + sum(factor * (axes[variable].extent - 1) for variable, factor in terms.items())
    return Side(dimension, Linear(terms), Linear(others, form.constant), extent, guarded)
