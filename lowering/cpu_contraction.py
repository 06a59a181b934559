"""Writes the loops of a contraction on the CPU: tiles in registers, operands packed, what follows done on the tile.

Takes a `Contraction` and our target. Gives the statements that compute it::

    copy right:  P[batch, vector, k, lane]             columns as vectors, the last one filled up with zeros
    parallel over batch, chunks of columns, chunks of rows:
        for block of k, column tile, row tile:
            the tile (`cpu_tile_body`)

Rows and columns are cut into tiles of at most two sizes (`cpu_tiles`), so nothing is left over for scalar loops.
Knows no PrimFunc and no schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.contraction import Contraction, Values, Way, size_of
from mlirtri.lowering.cpu_column_sums import column_sums
from mlirtri.lowering.cpu_dot_tile import MOST_ROWS as MOST_DOT_ROWS
from mlirtri.lowering.cpu_dot_tile import DotTile
from mlirtri.lowering.cpu_facts import cache_bytes
from mlirtri.lowering.cpu_packing import packed_left, packed_right, packed_terms, turned_right
from mlirtri.lowering.cpu_tile_body import ReductionBlock, Tile, TilePlace, has_long_stores
from mlirtri.lowering.cpu_tiles import Cut, OpenCut, Tiles, choose_tiles, lanes_for, shared, sizes_of
from mlirtri.lowering.target import Target
from mlirtri.lowering.tile_statements import counted, parts_of, quotient, remainder, sized, spread, temporary
from mlirtri.lowering.tir_statements import index, sequence
from mlirtri.lowering.tvm_names import tirx
from mlirtri.lowering.tvm_targets import vector_registers


def contraction_loops(contraction: Contraction, target: Target, least: int = 1) -> Any:
    """The statements that compute the contraction on this CPU, packing included; it has at least so many rows."""
    lanes = lanes_for(contraction.dtype)
    if contraction.way is Way.COLUMNS:
        return column_sums(contraction, lanes, target)
    before: list[Any] = []
    if contraction.way is Way.DOTS:
        rows = size_of(contraction.rows)
        cut = Cut(rows, -(-rows // MOST_DOT_ROWS)) if isinstance(rows, int) else OpenCut(rows, MOST_DOT_ROWS)
        tiles = Tiles(cut, _single_vectors(contraction, lanes))
        if contraction.turns_right:
            contraction, before = turned_right(contraction, target)
        return sequence(*before, _Nest(contraction, lanes, target, tiles, DotTile).statement())
    if contraction.packs_left:
        contraction, statements = packed_left(contraction, target)
        before += statements
    if contraction.column_terms is not None:
        contraction, statements = packed_terms(contraction, lanes, target)
        before += statements
    if contraction.packs_right:
        contraction, statements = packed_right(contraction, lanes, target)
        before += statements
    vectors = -(-size_of(contraction.columns) // lanes)
    tiles = choose_tiles(size_of(contraction.rows), vectors, vector_registers(), least)
    return sequence(*before, _Nest(contraction, lanes, target, tiles, Tile).statement())


def _single_vectors(contraction: Contraction, lanes: int) -> Cut:
    vectors = -(-size_of(contraction.columns) // lanes)
    return Cut(vectors, vectors)


@dataclass(frozen=True)
class _Blocks:
    """How the nest around a tile is cut: tiles per chunk, and iterations of the outermost reduction per block."""

    row_tiles: Any
    """An expression where only the run shows how many rows there are."""
    most_row_tiles: int
    column_tiles: int
    reduced: int


class _Nest:
    """The loops around the tiles of one contraction."""

    def __init__(self, contraction: Contraction, lanes: int, target: Target, tiles: Tiles, kind: type[Tile]):
        self.contraction, self.lanes, self.target, self.tiles, self.kind = contraction, lanes, target, tiles, kind
        self.columns = size_of(contraction.columns)
        self.blocks = self._blocks()
        first, *_ = contraction.reduced
        self.count = -(-first.extent // self.blocks.reduced)
        """Blocks of the reduction."""
        self.sums = self._room_for_sums()
        self.room = None
        if kind is Tile and has_long_stores(contraction):
            shape = [tiles.rows.size, tiles.vectors.size * lanes]
            self.room = temporary("finished", contraction.dtype, shape)

    def _blocks(self) -> _Blocks:
        """What stays in the second cache: vectors of the right operand, and of the left one the rows of a chunk."""
        contraction, rows, vectors = self.contraction, self.tiles.rows, self.tiles.vectors
        element = lanes_for("int8") // lanes_for(contraction.dtype)
        inner = size_of(contraction.reduced[1:])
        most = max(1, cache_bytes()[2] // 4 // (vectors.size * self.lanes * element * inner))
        first = contraction.reduced[0].extent
        depth = first if self.kind is DotTile else -(-first // -(-first // most))
        row_bytes = depth * inner * element * rows.size
        row_tiles = most = max(1, cache_bytes()[2] // 4 // row_bytes)
        column_tiles = min(vectors.count, 4)
        enough = 4 * self.target.threads if self.target.threads > 1 else 1
        if isinstance(rows, OpenCut):
            others = size_of(contraction.batch) * -(-vectors.count // column_tiles)
            if enough > 1:
                row_tiles = tirx.max(tirx.min(index(most), parts_of(rows.count * others, enough)), index(1))
            return _Blocks(row_tiles, most, column_tiles, depth)
        row_tiles = min(rows.count, most)
        if not isinstance(size_of(contraction.batch), int):
            return _Blocks(row_tiles, row_tiles, column_tiles, depth)
        while size_of(contraction.batch) * -(-rows.count // row_tiles) * -(-vectors.count // column_tiles) < enough:
            if row_tiles == column_tiles == 1:
                break
            if row_tiles >= column_tiles:
                row_tiles = -(-row_tiles // 2)
            else:
                column_tiles = -(-column_tiles // 2)
        return _Blocks(row_tiles, row_tiles, column_tiles, depth)

    def _room_for_sums(self) -> Any:
        """A chunk's sums between blocks of the reduction."""
        if self.count == 1:
            return None
        tile = [self.tiles.rows.size, self.tiles.vectors.size * self.lanes]
        shape = [self.blocks.column_tiles, self.blocks.most_row_tiles, *tile]
        return temporary("sums", self.contraction.dtype, shape)

    def statement(self) -> Any:
        contraction, rows, vectors = self.contraction, self.tiles.rows, self.tiles.vectors
        row_chunks = _parts(rows.count, self.blocks.row_tiles)
        column_chunks = -(-vectors.count // self.blocks.column_tiles)
        tasks = size_of(contraction.batch) * row_chunks * column_chunks
        work = rows.total * vectors.total * size_of(contraction.batch) * size_of(contraction.reduced)

        def task(position: Any) -> Any:
            row_chunk, rest = remainder(position, row_chunks), quotient(position, row_chunks)
            column_chunk = tirx.floormod(rest, index(column_chunks))
            values = spread(contraction.batch, tirx.floordiv(rest, index(column_chunks)))
            body = counted("block", self.count, lambda block: self._chunk(values, row_chunk, column_chunk, block))
            rooms = [tirx.AllocBuffer(each) for each in (self.sums, self.room) if each is not None]
            return sequence(*rooms, body)

        return shared("task", tasks, task, work, self.target)

    def _chunk(self, batch: Values, row_chunk: Any, column_chunk: Any, block: Any) -> Any:
        """All tiles of a chunk, for one block of the reduction."""
        rows, blocks = self.tiles.rows, self.blocks

        def column_tile(column_at: Any, tile: Any) -> Any:
            def row_tiles(column: Any, vectors: int, columns: int) -> Any:
                def row_tile(row_at: Any, number: Any) -> Any:
                    part = ReductionBlock(block, self.count, blocks.reduced, self.sums, (column_at, row_at))

                    def body(row: Any, tall: int, last: Any = None) -> Any:
                        place = TilePlace(batch, row, tall, column, vectors, columns, last)
                        return self.kind(self.contraction, self.lanes, place, part, self.room).body()

                    return self._by_size(rows, number, body)

                made = self._tiles_of(rows, blocks.row_tiles, row_chunk, row_tile)
                return made if self.contraction.column_range is None else self._in_range(column, columns, made)

            return self._by_column_size(tile, row_tiles)

        return self._tiles_of(self.tiles.vectors, blocks.column_tiles, column_chunk, column_tile)

    def _in_range(self, column: Any, columns: int, made: Any) -> Any:
        """The tiles of some columns, if there is something to do in them."""
        low, high = self.contraction.column_range
        return tirx.IfThenElse(tirx.And(tirx.LT(column, high), tirx.LT(low, column + index(columns))), made, None)

    def _tiles_of(self, cut: Cut | OpenCut, chunk: Any, number: Any, body: Callable[[Any, Any], Any]) -> Any:
        """The loop over the tiles of a chunk; `body` gets the place in the chunk, and the tile's number."""
        first, extent = number * sized(chunk), chunk
        if isinstance(cut, OpenCut) or cut.count % chunk:
            extent = tirx.min(sized(chunk), sized(cut.count) - first)
        return counted("tile", extent, lambda at: body(at, first + at))

    def _by_size(self, cut: Cut | OpenCut, tile: Any, body: Callable[..., Any]) -> Any:
        """`body` for the tile's first unit and size: one of two, or one that is enough for the rows of run time."""
        if isinstance(cut, OpenCut):
            return _by_height(cut, tile, body)
        (large, count), *small = sizes_of(cut)
        made = body(tile * index(large), large)
        if not small:
            return made
        (size, _), first = small[0], tile * index(large - 1) + index(count)
        return tirx.IfThenElse(tirx.LT(tile, index(count)), made, body(first, size))

    def _by_column_size(self, tile: Any, body: Callable[[Any, int, int], Any]) -> Any:
        """`body` for the tile's first column, vectors and columns: the last tile's last vector may be shorter."""
        cut, lanes = self.tiles.vectors, self.lanes
        made = self._by_size(cut, tile, lambda at, size: body(at * index(lanes), size, size * lanes))
        rest = self.columns % lanes
        if not rest:
            return made
        size = sizes_of(cut)[-1][0]
        first = (cut.total - size) * lanes
        last = body(index(first), size, self.columns - first)
        return last if cut.count == 1 else tirx.IfThenElse(tirx.LT(tile, index(cut.count - 1)), made, last)


def _parts(count: Any, size: Any) -> Any:
    """How many parts of this size there are; either may be an expression."""
    if isinstance(size, int):
        return parts_of(count, size)
    return tirx.truncdiv(count + size - index(1), size)


def _by_height(cut: OpenCut, tile: Any, body: Callable[..., Any]) -> Any:
    """A whole tile, or the smallest that is enough for the rows that are left."""
    first, last = tile * index(cut.size), cut.total - index(1)
    made, below = None, 0
    for tall in reversed(cut.heights):
        part = body(first, tall) if tall == below + 1 else body(first, tall, last)
        made = part if made is None else tirx.IfThenElse(tirx.GE(last - first, index(below)), part, made)
        below = tall
    *_, lower, whole = (0, *reversed(cut.heights))
    if whole == lower + 1:
        return made
    return tirx.IfThenElse(tirx.GE(last - first, index(whole - 1)), body(first, whole), made)
