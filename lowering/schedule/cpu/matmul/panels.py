"""Copies of the right operand's columns of one tile, made before the tiles of all rows of a chunk read them.

    for column tile:
        panel[k, lane] = right[k, column + lane]          stays in L2
        for row tile:  the tile (`tile`)

A copy of the whole operand (`packing`) goes to memory and comes back, which few rows do not pay for. A panel is read
from memory once, by each chunk of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mlirtri.lowering.codegen.targets import lanes_for
from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.schedule.cpu.common.register_transposes import load_transposed
from mlirtri.lowering.schedule.cpu.matmul.packing import is_transposed_in_registers
from mlirtri.lowering.tir.contraction import Contraction, Values, Way, lies_along, size_of
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.tir.tiles import (
    axis_values,
    ceil_div,
    for_loop,
    in_lanes,
    ramp,
    replaced,
    temporary,
    zero_of,
)
from mlirtri.lowering.toolchain.tvm_names import Expr, Stmt, TensorLoad, tirx

LEAST_TRANSPOSED = 256
"""Length of a sum from which panels are transposed in registers."""
MOST_ROWS = 512
"""Rows of a chunk. A static number of more rows shares one copy of the whole operand."""
LEAST_ROWS = 48
"""Rows of a chunk, where threads need more chunks, from which the copy of a panel is small beside the multiply-adds."""


def takes_panels(contraction: Contraction) -> bool:
    """Return whether the right operand, of static sizes, is copied by panels, as it is only read."""
    right, columns, reduced = contraction.right, contraction.columns, contraction.reduced
    rows = size_of(contraction.rows)
    is_copied = contraction.packs_right and not contraction.is_right_packed and contraction.way is Way.TILES
    if not is_copied or not isinstance(right, TensorLoad) or len(columns) != 1 or len(reduced) != 1:
        return False
    extents = [axis.extent for axis in (*contraction.batch, *columns, *reduced)]
    if contraction.reduced_range is not None or not all(isinstance(extent, int) for extent in extents):
        return False
    if lies_along(right, columns[0]):
        return not isinstance(rows, int) or rows <= MOST_ROWS
    return _is_transposed(contraction) and reduced[0].extent >= LEAST_TRANSPOSED


def _is_transposed(contraction: Contraction) -> bool:
    """Return whether the right operand is contiguous along the sum, so that it is transposed in registers."""
    return is_transposed_in_registers(contraction.right, contraction, lanes_for(contraction.dtype))


def panel_depth(contraction: Contraction, width: int, lanes: int) -> int:
    """Return the rows of a panel of `width` columns: with as much of the left operand, the panel stays in L2.

    All panels have as many rows but the last, which has at least `lanes`, those of a square, where it is not the only.
    """
    extent, rows = contraction.reduced[0].extent, size_of(contraction.rows)
    bytes_of_row = width * int(contraction.right.ty.dtype.bits) // 8
    bytes_of_column = (rows if isinstance(rows, int) else MOST_ROWS) * int(contraction.left.ty.dtype.bits) // 8
    depth = max(1, min(cache_bytes()[2] // 4 // bytes_of_row, cache_bytes()[2] // 2 // bytes_of_column))
    while True:
        depth = -(-extent // -(-extent // depth))
        if depth >= extent or not 0 < extent % depth < lanes:
            return depth
        depth += 1


_Element = Callable[[Expr, Expr], Expr]
"""From a row and a column of a panel to the element of the operand that is copied there."""


class Panel:
    """The copy ``[k, lane]`` of the columns of a tile, for one block of the sum."""

    def __init__(self, contraction: Contraction, lanes: int, vectors: int, depth: int):
        self.contraction, self.lanes, self.depth = contraction, lanes, depth
        self.is_transposed = not lies_along(contraction.right, contraction.columns[0])
        self.buffer = temporary("panel", str(contraction.right.ty.dtype), [depth, vectors * lanes])

    def read(self, column: Expr, block: Expr) -> Contraction:
        """Return the contraction that reads the panel in place of its right operand, for the tiles at `column`."""
        row = self.contraction.reduced[0].variable - block * index(self.depth)
        load = tirx.BufferLoad(self.buffer, [row, self.contraction.columns[0].variable - column])
        return replace(self.contraction, right=load, is_right_packed=True)

    def copy(self, batch: Values, column: Expr, columns: int, block: Expr) -> Stmt:
        """Return the copy of `columns` columns from `column` on, padded with zeros to whole vectors."""
        reduced = self.contraction.reduced[0]
        start, extent = block * index(self.depth), index(self.depth)
        if reduced.extent % self.depth:
            extent = tirx.min(extent, index(reduced.extent) - start)

        def element(row: Expr, offset: Expr) -> Expr:
            values = axis_values(self.contraction.columns, column + offset)
            return replaced(self.contraction.right, {**batch, reduced.variable: start + row, **values})

        if not self.is_transposed:
            return self._rows(element, extent, 0, columns)
        whole = columns // self.lanes * self.lanes
        squares = self._squares(element, extent, whole)
        return squares if whole == columns else sequence(squares, self._rows(element, extent, whole, columns))

    def _rows(self, element: _Element, extent: Expr, start: int, end: int) -> Stmt:
        """Return the copies of columns `start` to `end` of the panel, row by row."""

        def row(number: Expr) -> Stmt:
            return sequence(*(part for first in range(start, end, self.lanes) for part in vector(number, first)))

        def vector(number: Expr, first: int) -> list[Stmt]:
            count = min(self.lanes, end - first)
            place = [number, ramp(index(first), self.lanes)]
            padding = tirx.BufferStore(self.buffer, tirx.Broadcast(zero_of(str(self.buffer.dtype)), self.lanes), place)
            copy = in_lanes(count, lambda lane: self._stored(element, number, index(first) + lane))
            return [copy] if count == self.lanes else [padding, copy]

        return for_loop("row", extent, row)

    def _stored(self, element: _Element, row: Expr, offset: Expr) -> Stmt:
        return tirx.BufferStore(self.buffer, element(row, offset), [row, offset])

    def _squares(self, element: _Element, extent: Expr, columns: int) -> Stmt:
        """Return the copies of the first columns in squares of lanes × lanes elements, transposed in registers."""

        def square(offset: Expr, number: Expr) -> Stmt:
            row = tirx.Var("first", "int64")
            # The last one may overlap the one before.
            first = tirx.Bind(row, tirx.min(number * index(self.lanes), extent - index(self.lanes)))
            statements: list[Stmt] = []
            vectors = load_transposed(
                lambda column, lane: element(row + lane, offset + index(column)),
                str(self.buffer.dtype), self.lanes, statements,
            )  # fmt: skip
            place = ramp(offset, self.lanes)
            stores = [tirx.BufferStore(self.buffer, each, [row + index(n), place]) for n, each in enumerate(vectors)]
            return sequence(first, *statements, *stores)

        def squares(vector: Expr) -> Stmt:
            offset = vector * index(self.lanes)
            return for_loop("square", ceil_div(extent, self.lanes), lambda number: square(offset, number))

        return for_loop("vector", columns // self.lanes, squares)
