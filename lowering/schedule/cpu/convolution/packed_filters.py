"""The CPU rule for convolutions of NCHW whose filters are packed once: lanes are output channels.

An image of 7 x 7 fills vectors of channels, not of pixels. The tiles read the image one element at a time, so that any
stride, dilation or layout of it costs the same. The results are transposed, since those lie along the pixels.

    parallel over images, groups, chunks of rows of the result, parts of the channels:
        copy       the chunk's part of a padded image, with its padding (`padded_chunks`)
        for tile of channels:
            tiles      pixels of one row × vectors of channels (`matmul.tile`), into a buffer
            stores     of that buffer, transposed in registers, with elementwise consumers
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import Cut, StaticTiles, cycles_of, sizes_of
from mlirtri.lowering.schedule.cpu.common.register_transposes import load_transposed
from mlirtri.lowering.schedule.cpu.convolution.channels_first import is_channels_first
from mlirtri.lowering.schedule.cpu.convolution.channels_last import MIN_PIXELS, InPlaceTasks, most_bytes
from mlirtri.lowering.schedule.cpu.convolution.padded_chunks import PaddedChunk, chunk_of, padded_chunk
from mlirtri.lowering.schedule.cpu.matmul.rule import in_tiles, is_tiled
from mlirtri.lowering.schedule.cpu.matmul.tile import ReductionBlock, Tile, TilePosition
from mlirtri.lowering.schedule.products.packed_weights import filter_layout, is_packed
from mlirtri.lowering.schedule.products.surroundings import surroundings_of
from mlirtri.lowering.tir.blocks import BlockFacts, inline_cheap, leaf_blocks
from mlirtri.lowering.tir.contraction import Axis, Contraction, Values, depends, size_of, without_units
from mlirtri.lowering.tir.padded_images import without_padding
from mlirtri.lowering.tir.product_recognition import Product, find_product, only_product
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence
from mlirtri.lowering.tir.tiles import axis_values, for_loop, groups_of, linearized, ramp, replaced, temporary
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, PrimFunc, Schedule, Stmt, TensorLoad, tirx

MIN_CHANNELS = 17
"""The fewest output channels: those of one vector read the image too often."""
MAX_PIXELS, MAX_VECTORS = 9, 3
"""Pixels and vectors of channels of a tile: larger ones are slower, though there are registers for them."""
SIZE_COST = 0.015
"""The part of the cycles that tiles of another size have to save."""
MAX_MATRIX_PIXELS = 200
"""Pixels of a 1 x 1 convolution, a product of matrices, from which lanes along them are as fast."""
_ONE_BLOCK = ReductionBlock(index(0), 1, 1, None, ())


def packs_filters(product: Product) -> bool:
    """Return whether a convolution's filters are profitable to pack once, for tiles whose lanes are channels."""
    if size_of(product.rows) < MIN_CHANNELS or not product.columns:
        return False
    if is_channels_first(product):
        return product.columns[-1].extent >= MIN_PIXELS
    return is_tiled(product) and MIN_PIXELS <= size_of(product.columns) <= MAX_MATRIX_PIXELS


def packed_filters(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the function with its convolution in tiles; None where its filters are not packed."""
    match = _match(function)
    if match is None:
        return None
    product = match[-1]
    if not is_packed(product.left, without_units(product.rows), without_units(product.reduced), product.dtype):
        return None
    return in_tiles(*match, _loops, target)


def takes_filters(function: PrimFunc) -> bool:
    """Return whether a function is a convolution whose filters are packed, with elementwise work on its tiles alone."""
    match = _match(function)
    if match is None or not packs_filters(match[-1]) or filter_layout(match[-1]) is None:
        return False
    schedule, block, product = match
    blocks = leaf_blocks(schedule)
    return len(surroundings_of(schedule, blocks, block, product).absorbed) == len(blocks)


def _match(function: PrimFunc) -> tuple[Schedule, BlockFacts, Product] | None:
    """Return the only product of a function, with what is cheap and not behind it inlined where it is read."""
    match = only_product(function)
    if match is None:
        return None
    schedule, block, product = match
    around = surroundings_of(schedule, leaf_blocks(schedule), block, product)
    inline_cheap(schedule, around.absorbed)
    blocks = [block for block in leaf_blocks(schedule) if not block.is_spatial]
    product = find_product(blocks[0], schedule.get(blocks[0].handle))
    return None if product is None else (schedule, blocks[0], product)


def _loops(contraction: Contraction, target: Target) -> Stmt | None:
    """Return the statements of a contraction whose left operand is packed filters."""
    contraction = _with_joined_pixels(contraction)
    turned = _turned(contraction)
    image, read = _images(turned)
    if read is not None and read.bytes(1) > most_bytes() and len(turned.rows) > len(contraction.columns):
        # Not even one image fits: chunks are rows of it.
        turned = replace(turned, batch=contraction.batch, rows=contraction.columns)
        image, read = _images(turned)
    if image is None and not isinstance(turned.left, TensorLoad):
        return None
    return fresh(_TransposedTasks(turned, contraction, (image, read), target).statement())


def _images(turned: Contraction) -> tuple[PaddedChunk | None, PaddedChunk | None]:
    """Return the padded copy of the image, None where it is read in place; and what a chunk reads of it, if known."""
    if not isinstance(turned.left, TensorLoad):
        image = padded_chunk(turned.left, turned.rows, turned.reduced)
        return image, image
    return None, chunk_of(without_padding(turned.left), turned.rows, turned.reduced)


def _with_joined_pixels(contraction: Contraction) -> Contraction:
    """Return the contraction with one axis of pixels, where those of an image lie one after the other."""
    image, columns = contraction.right, contraction.columns
    if not isinstance(image, TensorLoad) or len(columns) < 2:
        return contraction
    last = list(zip(image.indices, image.source.ty.shape, strict=True))[-len(columns) :]
    pairs = zip(last, columns, strict=True)
    if not all(position.same_as(axis.variable) and int(size) == axis.extent for (position, size), axis in pairs):
        return contraction
    pixel = Axis(tirx.Var("pixel", "int64"), size_of(columns))
    values = axis_values(columns, pixel.variable)
    stores = tuple(replaced(store, values) for store in contraction.stores)
    return replace(contraction, columns=(pixel,), right=replaced(image, values), stores=stores)


def _turned(contraction: Contraction) -> Contraction:
    """Return the contraction with pixels as rows and channels as columns; images are rows of pixels, too."""
    images = tuple(axis for axis in contraction.batch if isinstance(axis.extent, int))
    are_rows = len(images) == len(contraction.batch) == 1 and depends(contraction.right, images)
    return replace(
        contraction, batch=() if are_rows else contraction.batch, packs_left=False, packs_right=True,
        rows=(*images, *contraction.columns) if are_rows else contraction.columns, is_right_packed=True,
        columns=contraction.rows, left=contraction.right, right=contraction.left,
    )  # fmt: skip


def _cost(tiles: StaticTiles) -> float:
    """Return the cycles of tiles; each further size is code of its own, which has to save more than it costs."""
    sizes = len(sizes_of(tiles.rows)) * len(sizes_of(tiles.vectors))
    return cycles_of(tiles) * (1 + SIZE_COST * (sizes - 1))


class _TransposedTasks(InPlaceTasks):
    """Tasks that keep the sums of a tile of channels in a buffer, and store them transposed."""

    def __init__(
        self, turned: Contraction, contraction: Contraction, images: tuple[PaddedChunk | None, ...], target: Target
    ):
        self.original = contraction
        image, self.read = images
        super().__init__(turned, image, target)
        self.images = self.chunks.rows if self._has_images else 1
        self.collected = temporary("collected", contraction.dtype, self._collected(self.chunks.rows))
        self.finished = None

    @property
    def _has_images(self) -> bool:
        """Whether the outermost axis of pixels is that of images, whose results lie apart."""
        return len(self.contraction.rows) > len(self.original.columns)

    def _collected(self, rows: int) -> list[int]:
        """Return the shape of the buffer for the sums of a chunk: pixels of each image in whole vectors, channels."""
        pixels = size_of(self.outer[1:]) * self.inner.extent
        images, pixels = (rows, pixels) if self._has_images else (1, rows * pixels)
        return [images, -(-pixels // self.lanes) * self.lanes, self.tiles.vectors.size * self.lanes]

    def chosen_tiles(self) -> StaticTiles:
        pixels, vectors = self.inner.extent, -(-self.columns // self.lanes)
        options = [
            StaticTiles(Cut(pixels, -(-pixels // tall)), Cut(vectors, -(-vectors // wide)))
            for tall in range(1, MAX_PIXELS + 1)
            for wide in range(1, MAX_VECTORS + 1)
        ]
        return min(options, key=lambda tiles: (_cost(tiles), tiles.rows.count))

    def weight_bytes(self) -> int:
        return 2 * most_bytes()

    def sizes(self) -> tuple[int, int]:
        """Return rows per chunk, of which there are as many in each chunk, and parts of the channels."""
        total = self.outer[0].extent
        fits = [rows for rows in range(1, total + 1) if not total % rows and self.task_bytes(rows) <= 2 * most_bytes()]
        rows = max(fits, default=1)
        tasks = size_of(self.contraction.batch) * total // rows
        return rows, min(self.tiles.vectors.count, -(-self.target.threads // tasks))

    def task_bytes(self, rows: int) -> int:
        read = 0 if self.read is None else self.read.bytes(rows)
        return max(read, super().task_bytes(rows)) + prod(self._collected(rows)) * 4

    def buffers(self) -> list[Buffer | None]:
        return [*super().buffers(), self.collected]

    def channel_tile(self, contraction: Contraction, batch: Values, rows: Any, columns: tuple[Expr, int, int]) -> Stmt:
        """Return the tiles of all pixels of a chunk, whose sums are kept."""
        axes = [*self.outer, self.inner]
        image = axes.pop(0).variable if self._has_images else index(0)
        pixel = linearized(axes, {axis.variable: axis.variable for axis in axes})
        result = tirx.BufferLoad(contraction.result, [index(0)] * len(contraction.result.ty.shape))
        kept = tirx.BufferStore(self.collected, result, [image, pixel, contraction.columns[0].variable - columns[0]])
        return super().channel_tile(replace(contraction, stores=(kept,), private=()), batch, rows, columns)

    def after_tile(self, batch: Values, first: Expr, number: Expr) -> list[Stmt]:
        """Return the stores of a tile of channels, vector by vector, of each image in squares of pixels × channels."""
        cut = self.tiles.vectors
        start, vectors = number * index(cut.size), index(cut.size)
        if cut.large < cut.count:
            start = number * index(cut.size - 1) + tirx.min(number, index(cut.large))
            vectors = vectors - tirx.Select(tirx.GE(number, index(cut.large)), index(1), index(0))

        def image(position: Expr) -> Stmt:
            def vector(v: Expr) -> Stmt:
                return self._squares(batch, (first, position), (start + v) * index(self.lanes), v)

            return for_loop("vector", vectors if cut.size > 1 else 1, vector)

        return [for_loop("image", self.images, image)]

    def _squares(self, batch: Values, first: tuple[Expr, Expr], channel: Expr, vector: Expr) -> Stmt:
        """Return the stores of one vector of channels from `channel` on, of all pixels of one image of the chunk."""
        chunk = self._of_pixels(*first)
        channels: Any = self.lanes
        if self.columns % self.lanes:
            channels = tirx.min(index(self.lanes), index(self.columns) - channel)

        def square(pixel: Expr, count: int) -> Stmt:
            statements: list[Stmt] = []

            def element(position: int, lane: Expr) -> Expr:
                place = [first[1], plus(pixel, index(position)), vector * index(self.lanes) + lane]
                return tirx.BufferLoad(self.collected, place)

            columns = load_transposed(element, self.contraction.dtype, self.lanes, statements)
            lines = new_buffer("lines", self.contraction.dtype, self.lanes, self.lanes)
            statements.append(tirx.AllocBuffer(lines))
            for position, value in enumerate(columns):
                statements.append(tirx.BufferStore(lines, value, [index(position), ramp(index(0), self.lanes)]))
            tile = Tile(chunk, self.lanes, TilePosition(batch, channel, self.lanes, pixel, 1, count), _ONE_BLOCK)
            stores = for_loop("channel", channels, lambda line: tile.store(line, index(0), count, lines, index(0)))
            return sequence(*statements, stores)

        return groups_of(size_of(chunk.columns), self.lanes, square)

    def _of_pixels(self, first: Expr, image: Expr) -> Contraction:
        """Return the contraction of the pixels of an image of the chunk that begins with image, or row, `first`."""
        axes = list(self.original.columns)
        start = self.outer[0].variable
        if not self._has_images:
            axes = [replace(self.outer[0], extent=self.chunks.rows), *self.outer[1:], self.inner]
        pixel = Axis(tirx.Var("pixel", "int64"), size_of(axes))
        values = axis_values(axes, pixel.variable)
        values[start] = plus(first, image if self._has_images else values[start])
        stores = tuple(replaced(store, values) for store in self.original.stores)
        return replace(self.original, columns=(pixel,), stores=stores)
