"""The CPU rule for convolutions whose results are contiguous along an axis of the image (NCHW).

The right operand is read at sums of axes: strided, dilated, grouped, of one to three dimensions. Elementwise consumers
are computed on the tiles.

    parallel over images, groups, chunks of whole rows of the result:
        for block of input channels:
            pack     P[channel, kernel position, pixel of the chunk]      rows of the image, shifted and strided; one
                                                                         padded channel at a time where it is padded
            tiles    output channels × vectors of pixels (`matmul.tile`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import gcd
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_for, vector_registers
from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import choose_tiles, sizes_of, tile_by_size
from mlirtri.lowering.schedule.cpu.convolution.padded_channels import padded_channel
from mlirtri.lowering.schedule.cpu.convolution.tasks import Chunks, ConvolutionTasks
from mlirtri.lowering.schedule.cpu.matmul.packing import packed_left
from mlirtri.lowering.schedule.cpu.matmul.rule import in_tiles
from mlirtri.lowering.schedule.cpu.matmul.tile import ReductionBlock, Tile, TilePosition
from mlirtri.lowering.tir.contraction import Axis, Contraction, Values, depends, size_of
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.padded_images import core_of, linear_indices, padded, with_core
from mlirtri.lowering.tir.product_recognition import Product, only_product
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence
from mlirtri.lowering.tir.tiles import axis_values, for_loop, in_lanes, loop_nest, ramp, replaced, temporary, zero_of
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, PrimFunc, Schedule, Stmt, TensorLoad, tirx

MAX_PIXELS = 512
"""Longer rows of a result are split into rows of this length."""
MAX_COPIES = 1
"""Tiles or vectors of a row that are written one after the other: more are a loop, whose code is compiled once."""
GOOD_PIXELS = 96
"""Pixels of a chunk from which its tiles are wide enough, and the packed copy is reused enough."""


def convolution(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the function with its convolution in tiles; None where it is no convolution of this layout."""
    match = only_product(function)
    if match is None or not is_channels_first(match[-1]):
        return None
    return in_tiles(*match, convolution_loops, target)


def is_channels_first(product: Product | None) -> bool:
    """Return whether a product is a convolution of this layout: its right operand reads windows of an image's rows."""
    if product is None:
        return False
    image = padded(product.right)
    right, inner = core_of(product.right) if image is None else image.load, product.columns[-1]
    if not isinstance(right, TensorLoad) or not product.rows or inner.extent < 2:
        return False
    if size_of(product.rows) < 4 or size_of(product.reduced) < 4:
        return False
    forms = linear_indices(right)
    if forms is None or any(form.factor(inner.variable) for form in forms[:-1]):
        return False
    if inner.extent > MAX_PIXELS and not _slides(right, product):
        return False
    return forms[-1].factor(inner.variable) > 0 and not all(
        isinstance(position, tirx.Var) or not form.terms for position, form in zip(right.indices, forms, strict=True)
    )


def _slides(right: Any, product: Product) -> bool:
    """Return whether an index depends on a column and on the window; else the operand is a matrix with long rows."""
    return any(depends(position, product.columns) and depends(position, product.reduced) for position in right.indices)


def is_padded_channels_first(product: Product) -> bool:
    """Return whether a product is a convolution of this layout whose image is padded where it is read."""
    if (
        not is_channels_first(product)
        or product.columns[-1].extent > MAX_PIXELS
        or str(product.right.ty.dtype) != product.dtype
        or not product.dtype.startswith("float")
    ):
        return False
    return padded_channel(product.right, product.columns, product.reduced, 1) is not None


def convolution_loops(contraction: Contraction, target: Target) -> Stmt | None:
    """Return the statements that compute a convolution; None where its image's padding is not recognised."""
    if not isinstance(core_of(contraction.right), TensorLoad) and not _pads_channels(contraction):
        return None
    copies: list[Stmt] = []
    if not isinstance(contraction.left, TensorLoad):  # fp16 and bf16 filters are widened once, not per chunk
        contraction, copies = packed_left(contraction, target)
    return sequence(*copies, *(fresh(_all_chunks(part, target)) for part in _cut(contraction)))


def _pads_channels(contraction: Contraction) -> bool:
    """Return whether a chunk copies the image channel by channel into a padded buffer; not for rows that are split."""
    is_short = contraction.columns[-1].extent <= MAX_PIXELS
    return is_short and padded_channel(contraction.right, contraction.columns, contraction.reduced, 1) is not None


def _cut(contraction: Contraction) -> list[Contraction]:
    """Return the contraction as contractions of at most `MAX_PIXELS` columns: full ones, and the remainder."""
    inner = contraction.columns[-1]
    if inner.extent <= MAX_PIXELS:
        return [contraction]
    full, remaining = divmod(inner.extent, MAX_PIXELS)
    row, pixel = Axis(tirx.Var("segment", "int64"), full), Axis(tirx.Var("pixel", "int64"), MAX_PIXELS)
    last = Axis(tirx.Var("pixel", "int64"), remaining)
    rows = _with_columns(contraction, [row, pixel], row.variable * index(MAX_PIXELS) + pixel.variable)
    if not remaining:
        return [rows]
    return [rows, _with_columns(contraction, [last], last.variable + index(full * MAX_PIXELS))]


def _with_columns(contraction: Contraction, axes: list[Axis], position: Expr) -> Contraction:
    """Return the contraction with other axes for the innermost columns, whose index is `position`."""
    *outer, inner = contraction.columns
    values = {inner.variable: position}
    return replace(
        contraction, columns=(*outer, *axes), right=replaced(contraction.right, values),
        stores=tuple(replaced(store, values) for store in contraction.stores),
    )  # fmt: skip


def _all_chunks(contraction: Contraction, target: Target) -> Stmt:
    *outer, inner = contraction.columns
    total_rows = size_of(outer)
    rows = min(total_rows, _rows_of_chunk(inner.extent, lanes_for(contraction.dtype)))
    full, remaining = divmod(total_rows, rows)
    cuts = [(rows, full, 0)] + ([(remaining, 1, full * rows)] if remaining else [])
    return sequence(*(_PackedTasks(contraction, *cut, target).statement() for cut in cuts))


def _rows_of_chunk(width: int, lanes: int) -> int:
    """Return the number of rows of a chunk: they fill whole vectors unless that takes over 4 * `GOOD_PIXELS` pixels."""
    rows = fill = lanes // gcd(width, lanes)
    while rows * width < GOOD_PIXELS:
        rows += fill
    return rows if rows * width <= 4 * GOOD_PIXELS else -(-GOOD_PIXELS // width)


class _PackedTasks(ConvolutionTasks):
    """Tasks for chunks of one size, each of which packs the pixels that it reads (im2col), block by block."""

    def __init__(self, contraction: Contraction, rows: int, count: int, first_row: int, target: Target):
        super().__init__(contraction, target)
        self.width = contraction.columns[-1].extent
        self.pixels = rows * self.width
        vectors = -(-self.pixels // self.lanes)
        self.pitch = vectors * self.lanes
        self.tiles = choose_tiles(size_of(contraction.rows), vectors, vector_registers())
        first, *self.window = contraction.reduced
        dtype = contraction.right.ty.dtype
        most = max(1, cache_bytes()[2] // 2 // (size_of(self.window) * self.pitch * int(dtype.bits) // 8))
        self.depth = -(-first.extent // -(-first.extent // most))
        self.blocks = -(-first.extent // self.depth)
        self.tall = self._row_tiles_per_task(count)
        self.chunks = Chunks(rows, count, -(-self.tiles.rows.count // self.tall), first_row)
        self.taps = size_of(self.window)
        self.packed = temporary("pixels", str(dtype), [self.depth * self.taps, self.pitch])
        self.sums = None
        """The sums of a task between blocks of the reduction."""
        if self.blocks > 1:
            tile = [self.tiles.rows.size, self.tiles.vectors.size * self.lanes]
            self.sums = temporary("sums", contraction.dtype, [self.tall, self.tiles.vectors.count, *tile])
        self.channel = padded_channel(contraction.right, contraction.columns, contraction.reduced, rows)
        self.padded = None if self.channel is None else self.channel.buffer()
        self.right = contraction.right if self.channel is None else self.channel.load(self.padded)
        """The operand that is packed: the image, or one padded channel of it."""

    def _row_tiles_per_task(self, chunks: int) -> int:
        """Return the number of row tiles of a task: all of them where there are enough chunks for the threads."""
        static = [axis for axis in self.contraction.batch if isinstance(axis.extent, int)]
        tasks, count = size_of(static) * chunks, self.tiles.rows.count
        parts = min(count, -(-2 * self.target.threads // tasks)) if self.target.threads > 1 else 1
        return -(-count // parts)

    def work(self, batch: Any) -> Any:
        contraction, chunks = self.contraction, self.chunks
        vectors = size_of(contraction.rows) * size_of(contraction.reduced) * self.pitch // self.lanes
        return vectors * (batch * chunks.count * chunks.parts)

    def buffers(self) -> list[Buffer | None]:
        return [self.packed, self.sums, self.padded]

    def task(self, batch: Values, first: Expr, part: Expr) -> list[Stmt]:
        def block(number: Expr) -> Stmt:
            return sequence(self._copy(batch, first, number), self._tiles(batch, first, part, number))

        cleared = [] if self.channel is None else [self.channel.cleared(self.padded, self.lanes)]
        return [*cleared, for_loop("block", self.blocks, block)]

    def _copy(self, batch: Values, row: Expr, number: Expr) -> Stmt:
        """Return the packing of a block of channels: for each channel and window position, all rows of the chunk."""
        first = self.contraction.reduced[0]
        start, extent = self._block(number)

        def channel(position: Expr) -> Stmt:
            copies = loop_nest(self.window, lambda values: rows({**values, first.variable: start + position}, position))
            if self.channel is None:
                return copies
            values = {**batch, first.variable: start + position}
            return sequence(self.channel.filled(self.padded, values, row, self.lanes), copies)

        def rows(values: Values, position: Expr) -> Stmt:
            target = [self._term(position, [values[axis.variable] for axis in self.window])]
            values = {**batch, **values}
            lines = for_loop("line", self.chunks.rows, lambda line: self._line(target, values, row, line))
            if self.pitch == self.pixels:
                return lines
            zero = tirx.Broadcast(zero_of(str(self.packed.dtype)), self.lanes)
            last = ramp(index(self.pitch - self.lanes), self.lanes)
            return sequence(tirx.BufferStore(self.packed, zero, [*target, last]), lines)

        return for_loop("channel", extent, channel)

    def _block(self, number: Expr) -> tuple[Expr, Expr]:
        start, length = number * index(self.depth), self.contraction.reduced[0].extent
        if length % self.depth:
            return start, tirx.min(index(self.depth), index(length) - start)
        return start, index(self.depth)

    def _line(self, target: list[Expr], values: Values, row: Expr, line: Expr) -> Stmt:
        """Return the copy of a row of pixels to `target`, in vectors; the last one may overlap the one before."""
        *outer, inner = self.contraction.columns
        values = {**values, **axis_values(outer, line if self.channel is not None else plus(row, line))}
        form = linear(core_of(self.right).indices[-1], {})
        stride = form.factor(inner.variable)

        def vector(start: Expr, lanes: int) -> Stmt:
            to = [*target, line * index(self.width) + start]
            if stride == 2 and lanes == self.lanes:
                return self._every_second(to, values, start)
            return in_lanes(lanes, lambda lane: pixel(to, start, lane))

        def pixel(to: list[Expr], start: Expr, lane: Expr) -> Stmt:
            value = replaced(self.right, {**values, inner.variable: start + lane})
            return tirx.BufferStore(self.packed, value, [*to[:-1], to[-1] + lane])

        lanes = self.lanes
        while lanes > self.width:
            lanes //= 2
        full, remaining = divmod(self.width, lanes)
        if full > MAX_COPIES:
            vectors = [for_loop("vector", full, lambda number: vector(number * index(lanes), lanes))]
        else:
            vectors = [vector(index(number * lanes), lanes) for number in range(full)]
        return sequence(*vectors, vector(index(self.width - lanes), lanes)) if remaining else sequence(*vectors)

    def _every_second(self, to: list[Expr], values: Values, start: Expr) -> Stmt:
        """Return the copy of every second element, by shuffling two contiguous vectors, both in bounds.

        TVM would gather the elements one by one.
        """
        lanes, dtype, right = self.lanes, str(self.packed.dtype), core_of(self.right)
        halves = [new_buffer(name, dtype, lanes) for name in ("even", "odd")]
        inner = self.contraction.columns[-1]
        *outer, last = [replaced(position, {**values, inner.variable: start}) for position in right.indices]

        def loaded(buffer: Buffer, first: Expr, lane: Expr) -> Stmt:
            load = tirx.BufferLoad(right.source, [*outer, first + lane])
            return tirx.BufferStore(buffer, with_core(self.right, load), [lane])

        def stored(half: int, lane: Expr) -> Stmt:
            value = tirx.BufferLoad(halves[half], [lane * index(2) + index(half)])
            return tirx.BufferStore(self.packed, value, [*to[:-1], to[-1] + index(half * lanes // 2) + lane])

        statements: list[Stmt] = []
        for half, buffer in enumerate(halves):
            first = plus(last, index(half * (lanes - 1)))
            statements += [tirx.AllocBuffer(buffer), in_lanes(lanes, partial(loaded, buffer, first))]
        return sequence(*statements, *(in_lanes(lanes // 2, partial(stored, half)) for half in (0, 1)))

    def _tiles(self, batch: Values, row: Expr, part: Expr, number: Expr) -> Stmt:
        chunk = self._of_chunk(row)
        depth = self.depth * self.taps if len(chunk.reduced) == 1 else self.depth
        rows = self.tiles.rows
        row_tiles: Expr = index(self.tall)
        if rows.count % self.tall:
            row_tiles = tirx.min(row_tiles, index(rows.count) - part * index(self.tall))

        def column_tile(column_number: Expr, first: Expr, size: int, columns: int) -> Stmt:
            def row_tile(row_number: Expr) -> Stmt:
                block = ReductionBlock(number, self.blocks, depth, self.sums, (row_number, column_number))

                def body(first_row: Expr, tall: int) -> Stmt:
                    position = TilePosition(batch, first_row, tall, first, size, columns)
                    return Tile(chunk, self.lanes, position, block).body()

                return tile_by_size(rows, part * index(self.tall) + row_number, body)

            return for_loop("tile", row_tiles, row_tile)

        return self._column_tiles(column_tile)

    def _column_tiles(self, tile: Callable[[Expr, Expr, int, int], Stmt]) -> Stmt:
        """Return ``tile(number, first pixel, vectors, pixels)`` of all tiles of columns; equal ones are a loop."""
        tiles: list[Stmt] = []
        number = first = 0
        for size, count in sizes_of(self.tiles.vectors):
            width = size * self.lanes
            full = min(count, (self.pixels - first) // width)
            one = partial(self._tile_of_many, tile, (number, first), size)
            tiles += [for_loop("strip", full, one)] if full > MAX_COPIES else map(one, map(index, range(full)))
            if full < count:
                start = first + full * width
                tiles.append(tile(index(number + full), index(start), size, self.pixels - start))
            number, first = number + count, first + count * width
        return sequence(*tiles)

    def _tile_of_many(
        self, tile: Callable[[Expr, Expr, int, int], Stmt], start: tuple[int, int], size: int, step: Expr
    ) -> Stmt:
        """Return the tile of number `step` among those of `size` vectors, which begin with a tile and a pixel."""
        (number, first), width = start, size * self.lanes
        return tile(plus(step, index(number)), plus(step * index(width), index(first)), size, width)

    def _of_chunk(self, row: Expr) -> Contraction:
        """Return the contraction of a chunk that begins with `row`; its columns are all pixels of the chunk."""
        *outer, inner = self.contraction.columns
        first = self.contraction.reduced[0]
        pixel = Axis(tirx.Var("pixel", "int64"), self.pixels)
        line = plus(row, tirx.floordiv(pixel.variable, index(self.width)))
        values = {inner.variable: tirx.floormod(pixel.variable, index(self.width)), **axis_values(outer, line)}
        variables = [axis.variable for axis in self.window]
        term = self._term(tirx.floormod(first.variable, index(self.depth)), variables)
        chunk = replace(
            self.contraction, columns=(pixel,), right=tirx.BufferLoad(self.packed, [term, pixel.variable]),
            stores=tuple(replaced(store, values) for store in self.contraction.stores),
        )  # fmt: skip
        return _with_joined_sum(chunk, self.packed, self.depth * self.taps)

    def _term(self, channel: Expr, positions: Sequence[Any]) -> Expr:
        """Return the number of a term of the sum in the packed buffer: of a channel and a position of the window."""
        term = channel
        for axis, position in zip(self.window, positions, strict=True):
            term = plus(term * index(axis.extent), position)
        return term


def _with_joined_sum(contraction: Contraction, packed: Buffer, terms: int) -> Contraction:
    """Return a contraction of `packed` whose sum is one loop, where the filter lies in the order of the sum.

    LLVM unrolls short loops over the window, which makes code of many times the length that is no faster.
    """
    left, reduced = contraction.left, contraction.reduced
    if not isinstance(left, TensorLoad) or len(reduced) < 2:
        return contraction
    last = list(zip(left.indices, left.source.ty.shape, strict=True))[-len(reduced) :]
    axes = zip(last, reduced, strict=True)
    if not all(at.same_as(axis.variable) and int(size) == axis.extent for (at, size), axis in axes):
        return contraction
    joined = Axis(tirx.Var("term", "int64"), size_of(reduced))
    values = axis_values(reduced, joined.variable)
    pixel = contraction.columns[0]
    position = tirx.floormod(joined.variable, index(terms))
    right = tirx.BufferLoad(packed, [position, pixel.variable])
    return replace(contraction, reduced=(joined,), left=replaced(left, values), right=right)
