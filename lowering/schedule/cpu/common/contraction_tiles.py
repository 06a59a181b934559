"""The register tiles of a contraction: rows × vectors of columns, chosen by a cost model of their instructions.

Rows and columns are cut into tiles of at most two sizes that differ by one, so that no scalar remainder is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mlirtri.lowering.core.cpu import PARALLEL_VECTORS
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.profitability import threads_are_profitable
from mlirtri.lowering.tir.statements import fresh, index
from mlirtri.lowering.tir.tiles import ceil_div, for_loop
from mlirtri.lowering.toolchain.tvm_names import Expr, Extent, Stmt, tirx

MAX_VECTORS = 4
"""Vectors in a row of a tile: more load streams gain nothing."""
MAX_ROWS = 15
"""Rows of a tile: TVM puts buffers on the stack, where LLVM makes registers of them, only below 1024 bytes."""
ASSUMED_EXTENT = 2520
"""The extent that tiles are chosen for where it is dynamic: a multiple of every tile size up to ten."""
FMA_LATENCY = 4
"""Latency of a multiply-add in cycles; two multiply-adds and two loads start in each cycle."""
LOAD = 1 / 8
"""The cost of a load that multiply-adds hide, in multiply-adds: it may come from the second-level cache."""


@dataclass(frozen=True)
class Cut:
    """`total` units in `count` tiles: `large` ones of `size` units first, then the others of one unit less."""

    total: int
    count: int

    @property
    def size(self) -> int:
        return -(-self.total // self.count)

    @property
    def large(self) -> int:
        """The number of tiles of the full size."""
        return self.total - self.count * (self.size - 1)


@dataclass(frozen=True)
class OpenCut:
    """A dynamic number of units in tiles of `size`; the last tile may have fewer."""

    total: Any
    size: int
    least: int = 1
    """A lower bound of `total`."""
    is_short: bool = False
    """Whether little code is preferred to tiles of every height."""

    @property
    def count(self) -> Extent:
        return ceil_div(self.total, self.size)

    @property
    def heights(self) -> list[int]:
        """The sizes that the last tile may have, largest first; each of them is generated as code of its own."""
        halves = {self.size} if self.is_short else {self.size, -(-self.size // 2)}
        return sorted(halves | {1} if self.least < self.size else halves, reverse=True)


@dataclass(frozen=True)
class OpenVectors:
    """A dynamic number of columns in tiles of `size` vectors; the last tile may have fewer columns."""

    columns: Any
    size: int
    lanes: int

    @property
    def count(self) -> Extent:
        return ceil_div(self.columns, self.size * self.lanes)

    @property
    def total(self) -> Extent:
        return ceil_div(self.columns, self.lanes)


@dataclass(frozen=True)
class Tiles:
    """The cuts of the rows and of the vectors of columns."""

    rows: Cut | OpenCut
    vectors: Cut | OpenVectors

    def short(self) -> Tiles:
        """Return tiles with less code, for little work: a dynamic number of rows in tiles of half the height."""
        if isinstance(self.rows, Cut):
            return self
        rows = replace(self.rows, size=-(-self.rows.size // 2), is_short=True)
        return replace(self, rows=rows)


@dataclass(frozen=True)
class StaticTiles(Tiles):
    """Cuts of static numbers of rows and vectors."""

    rows: Cut
    vectors: Cut


def choose_tiles(rows: int, vectors: int, registers: int) -> StaticTiles:
    """Return the tiles of the fewest cycles for one step of the reduction; of equal ones, the larger tiles."""
    options = []
    for wide in range(1, min(vectors, MAX_VECTORS) + 1):
        cut_columns = Cut(vectors, -(-vectors // wide))
        # One register holds the element of the left operand, `wide` ones the right operand's vectors.
        tall = min(MAX_ROWS, max(1, (registers - cut_columns.size - 1) // cut_columns.size))
        options.append(StaticTiles(Cut(rows, -(-rows // tall)), cut_columns))
    return min(options, key=lambda tiles: (cycles_of(tiles), tiles.rows.count * tiles.vectors.count))


def tiles_for(rows: Extent, columns: Extent, lanes: int, registers: int, least: int = 1) -> Tiles:
    """Return the tiles of `rows`, at least `least`, and `columns`, either of which may be an expression."""
    vectors = -(-columns // lanes) if isinstance(columns, int) else ASSUMED_EXTENT
    tiles = choose_tiles(rows if isinstance(rows, int) else ASSUMED_EXTENT, vectors, registers)
    return Tiles(
        tiles.rows if isinstance(rows, int) else OpenCut(rows, tiles.rows.size, least),
        tiles.vectors if isinstance(columns, int) else OpenVectors(columns, tiles.vectors.size, lanes),
    )


def cycles_of(tiles: StaticTiles) -> float:
    """Return the cycles of all tiles together for one step of the reduction."""
    return sum(
        tall_count * wide_count * max(tall * wide / 2 + LOAD * (tall + wide) / 2, (tall + wide) / 2, FMA_LATENCY)
        for tall, tall_count in sizes_of(tiles.rows)
        for wide, wide_count in sizes_of(tiles.vectors)
    )


def sizes_of(cut: Cut) -> list[tuple[int, int]]:
    """Return the sizes of a cut's tiles, each with the number of tiles that have it."""
    sizes = [(cut.size, cut.large), (cut.size - 1, cut.count - cut.large)]
    return [(size, count) for size, count in sizes if count]


def tile_by_size(cut: Cut, tile: Expr, body: Callable[[Expr, int], Stmt]) -> Stmt:
    """Return ``body(first unit, size)`` of tile number `tile`, under a condition where the cut has two sizes."""
    (large, count), *small = sizes_of(cut)
    full = body(tile * index(large), large)
    if not small:
        return full
    size, _ = small[0]
    return tirx.IfThenElse(tirx.LT(tile, index(count)), full, body(tile * index(large - 1) + index(count), size))


def tile_by_columns(cut: Cut, columns: int, lanes: int, tile: Expr, body: Callable[[Expr, int, int], Stmt]) -> Stmt:
    """Return ``body(first column, vectors, columns)`` of tile number `tile` of a cut of vectors.

    The last tile ends with the last column, inside of its last vector where `columns` is no multiple of `lanes`.
    """
    full = tile_by_size(cut, tile, lambda unit, size: body(unit * index(lanes), size, size * lanes))
    if not columns % lanes:
        return full
    size = sizes_of(cut)[-1][0]
    first = (cut.total - size) * lanes
    last = body(index(first), size, columns - first)
    return last if cut.count == 1 else tirx.IfThenElse(tirx.LT(tile, index(cut.count - 1)), full, last)


def parallel_loop(name: str, extent: Extent, body: Callable[[Expr], Stmt], work: Expr, target: Target) -> Stmt:
    """Return a loop around `work` vector operations, parallel where that is profitable; `work` may be an expression."""
    if isinstance(work, int) or target.threads == 1:
        return for_loop(name, extent, body, loop_kind(work, target) if isinstance(work, int) else None)
    alone, together = (for_loop(name, extent, body, kind) for kind in (None, tirx.ForKind.PARALLEL))
    return tirx.IfThenElse(tirx.GE(work, index(PARALLEL_VECTORS)), together, fresh(alone))


def loop_kind(work: int, target: Target) -> tirx.ForKind:
    """Return the kind of a loop around `work` vector operations: parallel where that is profitable."""
    return tirx.ForKind.PARALLEL if threads_are_profitable(target, work, PARALLEL_VECTORS) else tirx.ForKind.SERIAL
