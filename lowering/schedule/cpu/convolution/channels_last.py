"""The CPU rule for convolutions whose results are contiguous along their channels (NHWC).

The left operand is an image, read at sums of axes: strided, dilated, grouped, of two or three dimensions; of one where
it is padded. Elementwise consumers are computed on the tiles.

    parallel over images, groups, chunks of rows of the result, parts of the channels:
        copy     the chunk's part of a padded image, with its padding (`padded_chunks`)
        for tile of channels, block of the window:
            tiles    pixels of one row × vectors of channels (`matmul.tile`)
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.codegen.targets import lanes_for, vector_bits, vector_registers
from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import (
    StaticTiles,
    choose_tiles,
    tile_by_columns,
    tile_by_size,
)
from mlirtri.lowering.schedule.cpu.convolution.padded_chunks import PaddedChunk, padded_chunk
from mlirtri.lowering.schedule.cpu.convolution.tasks import ChunkCopyTasks, Chunks
from mlirtri.lowering.schedule.cpu.matmul.packing import packed_right
from mlirtri.lowering.schedule.cpu.matmul.rule import in_tiles
from mlirtri.lowering.schedule.cpu.matmul.tile import ReductionBlock, Tile, TilePosition, has_long_stores
from mlirtri.lowering.tir.contraction import Contraction, Values, size_of
from mlirtri.lowering.tir.padded_images import linear_indices, padded
from mlirtri.lowering.tir.product_recognition import Product, only_product
from mlirtri.lowering.tir.statements import index, plus, sequence
from mlirtri.lowering.tir.tiles import for_loop, loop_nest, temporary
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, PrimFunc, Schedule, Stmt, TensorLoad, tirx

MIN_PIXELS = 4
"""With fewer pixels in a row, tiles of whole rows of the result would not use all registers."""


def channels_last(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the function with its convolution in tiles; None where it is no convolution of this layout."""
    match = only_product(function)
    if match is None or not is_channels_last(match[-1]):
        return None
    return in_tiles(*match, _loops, target)


def is_channels_last(product: Product | None) -> bool:
    """Return whether a product is a convolution of this layout: its left operand is indexed by sums with row axes."""
    if product is None or not product.rows or str(product.left.ty.dtype) != product.dtype:
        return False
    image = padded(product.left)
    left = product.left if image is None else image.load
    if not isinstance(left, TensorLoad) or product.rows[-1].extent < MIN_PIXELS:
        return False
    if size_of(product.columns) < lanes_for(product.dtype) // 2 or size_of(product.reduced) < 4:
        return False
    forms = linear_indices(left)
    if forms is None or (image is None and len(product.rows) < 2):
        return False
    moving = {axis.variable for axis in product.rows}
    return any(moving & set(form.terms) and not isinstance(position, tirx.Var)
               for position, form in zip(left.indices, forms, strict=True))  # fmt: skip


def is_padded_channels_last(product: Product) -> bool:
    """Return whether a product is a convolution of this layout whose image is padded where it is read."""
    if not product.dtype.startswith("float") or not is_channels_last(product):
        return False
    image = padded_chunk(product.left, product.rows, product.reduced)
    first, *others = product.rows
    return image is not None and (bool(others) or image.bytes(first.extent) <= most_bytes())


def most_bytes() -> int:
    """Return the bytes of the second-level cache that each buffer of a task may take."""
    return cache_bytes()[2] // 4


def _loops(contraction: Contraction, target: Target) -> Stmt | None:
    is_plain = isinstance(contraction.left, TensorLoad)
    image = padded_chunk(contraction.left, contraction.rows, contraction.reduced)
    if contraction.column_terms is not None or (not is_plain and image is None):
        return None
    if len(contraction.rows) == 1 and (image is None or image.bytes(contraction.rows[0].extent) > most_bytes()):
        return None
    copies: list[Stmt] = []
    if contraction.packs_right:
        contraction, copies = packed_right(contraction, lanes_for(contraction.dtype), target)
    return sequence(*copies, InPlaceTasks(contraction, image, target).statement())


class InPlaceTasks(ChunkCopyTasks):
    """Tasks whose tiles read the image, or its padded copy, in place."""

    def __init__(self, contraction: Contraction, image: PaddedChunk | None, target: Target):
        super().__init__(contraction, contraction.rows, target)
        self.image = image
        self.columns = size_of(contraction.columns)
        self.tiles = self.chosen_tiles()
        self.depth, self.blocks = self._depth()
        rows, parts = self.sizes()
        self.chunks = Chunks(rows, -(-self.outer[0].extent // rows), parts)
        self.copy = None if image is None else image.buffer(self.chunked(rows))
        tile = [self.tiles.rows.size, self.tiles.vectors.size * self.lanes]
        self.sums = None
        """The sums of a task between blocks of the reduction."""
        if self.blocks > 1:
            lines = rows * size_of(self.outer[1:])
            self.sums = temporary("sums", contraction.dtype, [lines, self.tiles.rows.count, *tile])
        self.finished = temporary("finished", contraction.dtype, tile) if has_long_stores(contraction) else None

    def chosen_tiles(self) -> StaticTiles:
        return choose_tiles(self.inner.extent, -(-self.columns // self.lanes), vector_registers())

    def weight_bytes(self) -> int:
        """Return the bytes of the weights of a tile of channels that stay in L2."""
        return most_bytes()

    def _depth(self) -> tuple[int, int]:
        """Return the iterations of the outermost reduction axis whose weights stay in L2, and the number of blocks."""
        first, *inner = self.contraction.reduced
        step = size_of(inner) * self.tiles.vectors.size * vector_bits() // 8
        blocks = -(-first.extent // max(1, self.weight_bytes() // step))
        depth = -(-first.extent // blocks)
        return depth, -(-first.extent // depth)

    def sizes(self) -> tuple[int, int]:
        """Return rows per chunk and parts of the channels, such that a task stays in L2 and all threads have tasks."""
        total, tiles = self.outer[0].extent, self.tiles.vectors.count
        rows, parts = total, 1
        while rows > 1 and self.task_bytes(rows) > most_bytes():
            rows = -(-rows // 2)
        enough = 4 * self.target.threads if self.target.threads > 1 else 1
        others = size_of(self.contraction.batch)
        while others * -(-total // rows) * parts < enough and (rows > 1 or parts < tiles):
            if rows > 4 or parts >= tiles:
                rows = -(-rows // 2)
            else:
                parts += 1
        return rows, parts

    def task_bytes(self, rows: int) -> int:
        """Return the size of the padded copy, or of the sums between blocks where they are larger, in bytes."""
        lines = rows * size_of(self.outer[1:])
        sums = lines * self.inner.extent * self.tiles.vectors.size * vector_bits() // 8 if self.blocks > 1 else 0
        return max(sums, 0 if self.image is None else self.image.bytes(rows))

    def work(self, batch: Any) -> Any:
        contraction = self.contraction
        return size_of(contraction.rows) * size_of(contraction.reduced) * batch * self.tiles.vectors.total

    def buffers(self) -> list[Buffer | None]:
        return [self.copy, self.sums, self.finished]

    def task(self, batch: Values, first: Expr, part: Expr) -> list[Stmt]:
        tiles, rows = self.tiles.vectors, self.rows_from(first)
        share = -(-tiles.count // self.chunks.parts)
        count: Any = share
        if tiles.count % share:
            count = tirx.min(index(share), index(tiles.count) - part * index(share))
        left = {} if self.copy is None else {"left": self.image.load(self.copy)}
        contraction = self.of_chunk(first, rows=(self.inner,), packs_left=False, **left)

        def channels(position: Expr) -> Stmt:
            number = part * index(share) + position

            def tile(*columns: Any) -> Stmt:
                return self.channel_tile(contraction, batch, rows, columns)

            sums = tile_by_columns(tiles, self.columns, self.lanes, number, tile)
            return sequence(sums, *self.after_tile(batch, first, number))

        return [*self.filled_copy(batch, first, rows), for_loop("channels", count, channels)]

    def channel_tile(self, contraction: Contraction, batch: Values, rows: Any, columns: tuple[Expr, int, int]) -> Stmt:
        """Return the tiles of all pixels of a chunk for one tile of channels: its first, its vectors, their number."""
        return for_loop("block", self.blocks, lambda block: self._lines(contraction, batch, rows, columns, block))

    def after_tile(self, _batch: Values, _first: Expr, _number: Expr) -> list[Stmt]:
        """Return what follows tile of channels number `_number` of the chunk that begins with row `_first`."""
        return []

    def _lines(self, contraction: Contraction, batch: Values, rows: Any, columns: Any, number: Expr) -> Stmt:
        """Return the tiles of all pixels of a chunk, for one tile of channels and one block of the reduction."""

        def line(values: Values) -> Stmt:
            row: Expr = index(0)
            for axis in self.outer:
                row = plus(row * index(axis.extent), values[axis.variable])

            def tile(row_tile: Expr) -> Stmt:
                block = ReductionBlock(number, self.blocks, self.depth, self.sums, (row, row_tile))

                def body(pixel: Expr, count: int) -> Stmt:
                    position = TilePosition({**batch, **values}, pixel, count, *columns)
                    return Tile(contraction, self.lanes, position, block, self.finished).body()

                return tile_by_size(self.tiles.rows, row_tile, body)

            return for_loop("tile", self.tiles.rows.count, tile)

        first, *inner = self.outer
        return for_loop("line", rows, lambda row: loop_nest(inner, line, {first.variable: row}))
