"""The loops of a contraction on the CPU: register tiles, packed operands, elementwise consumers on the tile.

copy right:  P[batch, vector, k, lane]             columns as vectors, the last one padded with zeros
parallel over batch, chunks of columns, chunks of rows:
    for block of k, column tile, row tile:
        the tile (`tile`)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_for, vector_registers
from mlirtri.lowering.core.cpu import PARALLEL_VECTORS, cache_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import (
    Cut,
    OpenCut,
    OpenVectors,
    Tiles,
    loop_kind,
    tile_by_columns,
    tile_by_size,
    tiles_for,
)
from mlirtri.lowering.schedule.cpu.matmul.column_sums import column_sums
from mlirtri.lowering.schedule.cpu.matmul.dot_tile import MAX_ROWS as MOST_DOT_ROWS
from mlirtri.lowering.schedule.cpu.matmul.dot_tile import DotTile
from mlirtri.lowering.schedule.cpu.matmul.matrix_tile import MatrixTile, matrix_tiles
from mlirtri.lowering.schedule.cpu.matmul.packing import packed_left, packed_right, packed_terms, transposed_right
from mlirtri.lowering.schedule.cpu.matmul.panels import LEAST_ROWS, MOST_ROWS, Panel, panel_depth, takes_panels
from mlirtri.lowering.schedule.cpu.matmul.tile import ReductionBlock, Tile, TilePosition, has_long_stores
from mlirtri.lowering.tir.contraction import Contraction, Values, Way, lies_along, size_of
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.tir.tiles import (
    at_least,
    at_most,
    axis_values,
    ceil_div,
    for_loop,
    quotient,
    remainder,
    sized,
    temporary,
)
from mlirtri.lowering.toolchain.tvm_names import Expr, Stmt, tirx


def contraction_loops(contraction: Contraction, target: Target, least: int = 1) -> Stmt:
    """Return the statements that compute a contraction of at least `least` rows, packing included."""
    lanes = lanes_for(contraction.dtype)
    if contraction.way is Way.COLUMNS:
        return column_sums(contraction, lanes, target)
    contraction, prologue, tiles, kind = _prepared(contraction, lanes, target, least)
    return sequence(*prologue, _nests(contraction, lanes, target, tiles, kind))


def paired_loops(first: Contraction, second: Contraction, target: Target) -> Stmt:
    """Return the statements that compute two contractions of static sizes; `second` may read what `first` stores.

    Where both have the same chunks, each chunk of the first is followed by that of the second, which then finds what
    it reads in a cache: the second may read no others.
    """
    lanes = lanes_for(second.dtype)
    if Way.COLUMNS in (first.way, second.way) or first.dtype != second.dtype:
        return sequence(*(contraction_loops(contraction, target) for contraction in (first, second)))
    prepared = [_prepared(contraction, lanes, target, 1) for contraction in (first, second)]
    prologues = [statement for _, prologue, _, _ in prepared for statement in prologue]
    nests = [_Nest(contraction, lanes, target, tiles, kind) for contraction, _, tiles, kind in prepared]
    if nests[0].chunks != nests[1].chunks:
        return sequence(*prologues, *(nest.statement() for nest in nests))

    def task(position: Expr) -> Any:
        return sequence(*(nest.task(position) for nest in nests))

    kind = loop_kind(sum(nest.work for nest in nests), target)
    return sequence(*prologues, for_loop("task", nests[0].tasks, task, kind))


def _prepared(
    contraction: Contraction, lanes: int, target: Target, least: int
) -> tuple[Contraction, list[Any], Tiles, type[Tile]]:
    """Return a contraction on the copies of its operands, the statements that make them, its tiles and their kind."""
    prologue: list[Any] = []
    if contraction.way is Way.DOTS:
        rows = size_of(contraction.rows)
        cut = Cut(rows, -(-rows // MOST_DOT_ROWS)) if isinstance(rows, int) else OpenCut(rows, MOST_DOT_ROWS)
        tiles = Tiles(cut, _single_vectors(contraction, lanes))
        if contraction.transposes_right:
            contraction, prologue = transposed_right(contraction, target)
        return contraction, prologue, tiles, DotTile
    if contraction.packs_left:
        contraction, statements = packed_left(contraction, target)
        prologue += statements
    contraction, statements = packed_terms(contraction, lanes, target)
    prologue += statements
    if contraction.packs_right and not contraction.is_right_packed and not takes_panels(contraction):
        contraction, statements = packed_right(contraction, lanes, target)
        prologue += statements
    if contraction.way is Way.MATRICES:
        return contraction, prologue, matrix_tiles(contraction), MatrixTile
    rows, columns = size_of(contraction.rows), size_of(contraction.columns)
    return contraction, prologue, tiles_for(rows, columns, lanes, vector_registers(), least), Tile


def _nests(contraction: Contraction, lanes: int, target: Target, tiles: Tiles, kind: type[Tile]) -> Any:
    """Return the loops around the tiles; where their work is dynamic, a parallel and a serial version of them."""
    nest = _Nest(contraction, lanes, target, tiles, kind)
    if isinstance(nest.work, int) or target.threads == 1:
        return nest.statement()
    if takes_panels(contraction) and lies_along(contraction.right, contraction.columns[0]):
        # Little work does not pay for copies.
        contraction = replace(contraction, packs_right=False)
    alone = _Nest(contraction, lanes, replace(target, threads=1), tiles.short(), kind)
    is_profitable = tirx.GE(nest.work, index(PARALLEL_VECTORS))
    return tirx.IfThenElse(is_profitable, nest.statement(tirx.ForKind.PARALLEL), alone.statement())


def _single_vectors(contraction: Contraction, lanes: int) -> Cut | OpenVectors:
    columns = size_of(contraction.columns)
    if not isinstance(columns, int):
        return OpenVectors(columns, 1, lanes)
    return Cut(-(-columns // lanes), -(-columns // lanes))


@dataclass(frozen=True)
class _Blocks:
    """How the nest around a tile is blocked: tiles per chunk, iterations of the outermost reduction axis per block."""

    row_tiles: Any
    """Tiles of rows per chunk; an expression where an extent is dynamic."""
    most_row_tiles: int
    """An upper bound of `row_tiles`, where the reduction is cut into blocks."""
    column_tiles: int
    reduced: Any
    count: Any
    """The number of blocks of the reduction."""


class _Nest:
    def __init__(self, contraction: Contraction, lanes: int, target: Target, tiles: Tiles, kind: type[Tile]):
        self.contraction, self.lanes, self.target, self.tiles, self.kind = contraction, lanes, target, tiles, kind
        self.columns = size_of(contraction.columns)
        self.named: list[Any] = []
        """`Bind` of dynamic sizes, before all loops."""
        self.is_copied_by_panels = takes_panels(contraction)
        self.blocks = self._blocks()
        self.count = self.blocks.count
        self.sums = self._buffer_for_sums()
        self.panel = None
        if self.is_copied_by_panels:
            self.panel = Panel(contraction, lanes, tiles.vectors.size, self.blocks.reduced)
        self.finished = None
        reads_buffer = has_long_stores(contraction) or isinstance(tiles.vectors, OpenVectors)
        if kind is MatrixTile or (kind is Tile and reads_buffer):
            shape = [tiles.rows.size, tiles.vectors.size * lanes]
            self.finished = temporary("finished", contraction.dtype, shape)
        rows, vectors = tiles.rows, tiles.vectors
        # At least 1: TVM reports divisions by 0 even in loops that it has proven empty.
        self.row_chunks = self._named("row_chunks", at_least(_parts(rows.count, self.blocks.row_tiles), 1))
        self.column_chunks = self._named(
            "column_chunks", at_least(ceil_div(vectors.count, self.blocks.column_tiles), 1)
        )

    def _named(self, name: str, value: Expr) -> Any:
        """Return a value, bound to a variable where it is an expression: repeated, it takes long to simplify."""
        if isinstance(value, int):
            return value
        variable = tirx.Var(name, "int64")
        self.named.append(tirx.Bind(variable, value))
        return variable

    def _blocks(self) -> _Blocks:
        """Return blocks such that vectors of the right operand and rows of a chunk of the left one stay in L2."""
        contraction, rows, vectors = self.contraction, self.tiles.rows, self.tiles.vectors
        element = lanes_for("int8") // lanes_for(contraction.dtype)
        step = element * size_of(contraction.reduced[1:])
        share = cache_bytes()[2] // 4
        deepest = max(1, share // (vectors.size * self.lanes * step))
        if self.is_copied_by_panels:
            deepest = panel_depth(contraction, vectors.size * self.lanes, self.lanes)
        first = contraction.reduced[0].extent
        count = 1 if self.kind is not Tile else self._named("blocks", at_least(ceil_div(first, deepest), 1))
        depth = self._named("depth", _parts(first, count))
        if isinstance(depth, int):
            deepest, count = depth, -(-first // depth) if isinstance(count, int) else count
        most = max(1, share // (deepest * step * rows.size))
        column_tiles = min(vectors.count, 4) if isinstance(vectors, Cut) else 4
        if self.is_copied_by_panels:
            most = -(-MOST_ROWS // rows.size)
        batch = size_of(contraction.batch)
        if all(isinstance(size, int) for size in (rows.count, vectors.count, batch, depth)):
            row_tiles, column_tiles = self._for_threads(min(rows.count, most), column_tiles)
            return _Blocks(row_tiles, row_tiles, column_tiles, depth, count)
        row_tiles = most
        if not isinstance(depth, int):
            # A short sum allows more rows; one that is split into blocks has as many as its sums fit in L2.
            row_tiles = tirx.truncdiv(index(most * deepest), at_most(at_least(first, 1), deepest))
        if self.target.threads > 1:
            # Chunks of the same columns would each copy them.
            column_tiles = 1 if self.is_copied_by_panels else column_tiles
            others = batch * ceil_div(vectors.count, column_tiles)
            row_tiles = at_most(row_tiles, ceil_div(sized(rows.count) * others, 4 * self.target.threads))
        return _Blocks(self._named("row_tiles", at_least(row_tiles, 1)), most, column_tiles, depth, count)

    def _for_threads(self, row_tiles: int, column_tiles: int) -> tuple[int, int]:
        """Return row and column tiles per chunk, halved until there are enough chunks for the threads."""
        rows, vectors, batch = self.tiles.rows.count, self.tiles.vectors.count, size_of(self.contraction.batch)
        enough = 4 * self.target.threads if self.target.threads > 1 else 1
        least = -(-LEAST_ROWS // self.tiles.rows.size) if self.is_copied_by_panels else 1
        while batch * -(-rows // row_tiles) * -(-vectors // column_tiles) < enough:
            if row_tiles <= least and column_tiles == 1:
                break
            if column_tiles == 1 or (row_tiles >= column_tiles and not self.is_copied_by_panels):
                row_tiles = -(-row_tiles // 2)
            else:
                column_tiles = -(-column_tiles // 2)
        return row_tiles, column_tiles

    def _buffer_for_sums(self) -> Any:
        """Return the buffer that keeps a chunk's sums between blocks of the reduction; None for a single block."""
        if isinstance(self.count, int) and self.count == 1:
            return None
        tile = [self.tiles.rows.size, self.tiles.vectors.size * self.lanes]
        shape = [self.blocks.column_tiles, self.blocks.most_row_tiles, *tile]
        return temporary("sums", self.contraction.dtype, shape)

    @property
    def work(self) -> Any:
        """Return the number of vector operations of all tiles."""
        contraction, tiles = self.contraction, self.tiles
        return tiles.rows.total * tiles.vectors.total * size_of(contraction.batch) * size_of(contraction.reduced)

    @property
    def chunks(self) -> tuple[Any, ...]:
        """Return what decides which rows and columns each task computes."""
        blocks, extents = self.blocks, [axis.extent for axis in self.contraction.batch]
        return self.tiles.rows, self.tiles.vectors, blocks.row_tiles, blocks.column_tiles, extents

    @property
    def tasks(self) -> Any:
        """Return the number of tasks: chunks of rows and columns, for each batch."""
        return size_of(self.contraction.batch) * self.row_chunks * self.column_chunks

    def task(self, position: Expr) -> Any:
        """Return the statements of one task."""
        row_chunk, remaining = remainder(position, self.row_chunks), quotient(position, self.row_chunks)
        column_chunk = remainder(remaining, self.column_chunks)
        values = axis_values(self.contraction.batch, quotient(remaining, self.column_chunks))
        body = for_loop("block", self.count, lambda block: self._chunk(values, row_chunk, column_chunk, block))
        panel = self.panel.buffer if self.panel is not None else None
        allocations = [tirx.AllocBuffer(buffer) for buffer in (self.sums, self.finished, panel) if buffer is not None]
        return sequence(*allocations, self.kind.around(self.contraction, self.tiles.rows.size, body))

    def statement(self, kind: Any = None) -> Any:
        if kind is None and isinstance(self.work, int):
            kind = loop_kind(self.work, self.target)
        tasks = for_loop("task", self.tasks, self.task, kind)
        return sequence(*self.named, tasks)

    def _chunk(self, batch: Values, row_chunk: Any, column_chunk: Any, block: Any) -> Any:
        rows, blocks = self.tiles.rows, self.blocks

        def column_tile(column_number: Any, tile: Any) -> Any:
            def row_tiles(column: Any, vectors: int, columns: int) -> Any:
                contraction, copy = self.contraction, []
                if self.panel is not None:
                    contraction = self.panel.read(column, block)
                    copy = [self.panel.copy(batch, column, columns, block)]

                def row_tile(row_number: Any, number: Any) -> Any:
                    part = ReductionBlock(block, self.count, blocks.reduced, self.sums, (column_number, row_number))

                    def body(row: Any, tall: int, last: Any = None) -> Any:
                        position = TilePosition(batch, row, tall, column, vectors, columns, last)
                        return self.kind(contraction, self.lanes, position, part, self.finished).body()

                    if isinstance(rows, OpenCut):
                        return _by_height(rows, number, body)
                    return tile_by_size(rows, number, body)

                tiles = self._tiles_of(rows, blocks.row_tiles, row_chunk, row_tile)
                return self._in_range(column, columns, sequence(*copy, tiles))

            vectors = self.tiles.vectors
            if isinstance(vectors, OpenVectors):
                return _by_width(vectors, tile, row_tiles)
            return tile_by_columns(vectors, self.columns, self.lanes, tile, row_tiles)

        return self._tiles_of(self.tiles.vectors, blocks.column_tiles, column_chunk, column_tile)

    def _in_range(self, column: Any, columns: int, tiles: Any) -> Any:
        """Return the tiles of some columns, under the condition that they meet `column_range`, if there is one."""
        if self.contraction.column_range is None:
            return tiles
        low, high = self.contraction.column_range
        return tirx.IfThenElse(tirx.And(tirx.LT(column, high), tirx.LT(low, column + index(columns))), tiles, None)

    def _tiles_of(
        self, cut: Cut | OpenCut | OpenVectors, chunk: Any, number: Any, body: Callable[[Any, Any], Any]
    ) -> Any:
        """Return the loop over the tiles of a chunk; `body` takes the index in the chunk and the index of the tile."""
        first, extent = number * sized(chunk), chunk
        if not isinstance(cut, Cut) or not isinstance(chunk, int):
            extent = tirx.min(sized(chunk), sized(cut.count) - first)
        elif cut.count % chunk:
            # Even chunks: a thread with a shorter one would wait for the others.
            chunks = ceil_div(cut.count, chunk)
            first, end = (quotient(boundary * index(cut.count), chunks) for boundary in (number, number + index(1)))
            extent = end - first
        return for_loop("tile", extent, lambda position: body(position, first + position))


def _parts(count: Any, size: Any) -> Any:
    if isinstance(size, int):
        return ceil_div(count, size)
    return tirx.truncdiv(size + count - index(1), size)


def _by_width(cut: OpenVectors, tile: Any, body: Callable[[Any, int, Any], Any]) -> Any:
    """Return ``body(first column, vectors, columns)`` of a tile of dynamic columns; one vector is a tile of its own."""
    width = cut.size * cut.lanes
    first = tile * index(width)
    remaining = cut.columns - first
    full = body(first, cut.size, tirx.min(remaining, index(width)))
    if cut.size == 1:
        return full
    return tirx.IfThenElse(tirx.GT(remaining, index(cut.lanes)), full, body(first, 1, remaining))


def _by_height(cut: OpenCut, tile: Any, body: Callable[..., Any]) -> Any:
    """Return ``body(first row, rows)`` of a whole tile, or of the smallest one that covers the rows that are left."""
    first, last = tile * index(cut.size), cut.total - index(1)
    statement, below = None, 0
    for tall in reversed(cut.heights):
        part = body(first, tall) if tall == below + 1 else body(first, tall, last)
        statement = part if statement is None else tirx.IfThenElse(tirx.GE(last - first, index(below)), part, statement)
        below = tall
    *_, lower, full = (0, *reversed(cut.heights))
    if full == lower + 1:
        return statement
    return tirx.IfThenElse(tirx.GE(last - first, index(full - 1)), body(first, full), statement)
