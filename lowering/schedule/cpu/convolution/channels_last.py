"""The CPU rule for convolutions whose results lie side by side along their channels (NHWC and the like).

Takes a PrimFunc with one block that is a product (`products`) of which the left operand is an image, read at sums of
axes: strided, dilated, grouped, of two or three dimensions; of one where it is padded. Elementwise work behind it is
done on the tiles. Gives None for any other.

    parallel over images, groups, chunks of rows of the result, parts of the channels:
        room     what the chunk reads of a padded image, with its padding (`image_pieces`)
        for tile of channels, block of the window:
            tiles    pixels of one row × vectors of channels (`cpu_tile_body`)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mlirtri.lowering.codegen.targets import vector_bits, vector_registers
from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.tile_sizes import Cut, choose_tiles, lanes_for, loop_kind, sizes_of
from mlirtri.lowering.schedule.cpu.convolution.image_tiles import Pieces, pieces_of
from mlirtri.lowering.schedule.cpu.convolution.padded_images import padded
from mlirtri.lowering.schedule.cpu.matmul.packing import packed_right
from mlirtri.lowering.schedule.cpu.matmul.rule import in_tiles
from mlirtri.lowering.schedule.cpu.matmul.tile import ReductionBlock, Tile, TilePlace, has_long_stores
from mlirtri.lowering.tir.contraction import Axis, Contraction, Values, size_of
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.products import Product, only_product
from mlirtri.lowering.tir.statements import index, plus, sequence
from mlirtri.lowering.tir.tiles import counted, nested, replaced, spread, temporary
from mlirtri.lowering.toolchain.tvm_names import PrimFunc, Schedule, TensorLoad, tirx

FEW_PIXELS = 4
"""With fewer pixels in a row, tiles of whole rows of the result leave registers unused."""


def channels_last(function: PrimFunc, target: Target) -> Schedule | None:
    """The function with its convolution in tiles; None where there is none of that kind."""
    found = only_product(function)
    if found is None or not reads_image_last(found[-1]):
        return None
    return in_tiles(*found, _loops, target)


def reads_image_last(product: Product | None) -> bool:
    """Whether this rule does the product: places of the left operand are sums of the result's and of a window's."""
    if product is None or not product.rows or str(product.left.ty.dtype) != product.dtype:
        return False
    around = padded(product.left)
    left = product.left if around is None else around.load
    if not isinstance(left, TensorLoad) or product.rows[-1].extent < FEW_PIXELS:
        return False
    if size_of(product.columns) < lanes_for(product.dtype) // 2 or size_of(product.reduced) < 4:
        return False
    forms = [linear(place, {}) for place in left.indices]
    if None in forms or (around is None and len(product.rows) < 2):
        return False
    moving = {axis.variable for axis in product.rows}
    return any(moving & set(form.terms) and not isinstance(place, tirx.Var)
               for place, form in zip(left.indices, forms, strict=True))  # fmt: skip


def reads_padded_last(product: Product) -> bool:
    """Whether this rule does the product with an image that is padded as it is read."""
    if not product.dtype.startswith("float") or not reads_image_last(product):
        return False
    pieces = pieces_of(product.left, product.rows, product.reduced)
    return pieces is not None and (len(product.rows) > 1 or _bytes(pieces, product.rows[0].extent) <= _most_bytes())


def _most_bytes() -> int:
    return cache_bytes()[2] // 4


def _bytes(pieces: Pieces, rows: int) -> int:
    return pieces.size(rows) * int(pieces.padded.operand.ty.dtype.bits) // 8


def _loops(contraction: Contraction, target: Target) -> Any:
    is_plain = isinstance(contraction.left, TensorLoad)
    pieces = pieces_of(contraction.left, contraction.rows, contraction.reduced)
    if contraction.column_terms is not None or (not is_plain and pieces is None):
        return None
    if len(contraction.rows) == 1 and (pieces is None or _bytes(pieces, contraction.rows[0].extent) > _most_bytes()):
        return None
    before: list[Any] = []
    if contraction.packs_right:
        contraction, before = packed_right(contraction, lanes_for(contraction.dtype), target)
    return sequence(*before, _Tasks(contraction, pieces, target).statement())


class _Tasks:
    """The loops around the tiles."""

    def __init__(self, contraction: Contraction, pieces: Pieces | None, target: Target):
        self.contraction, self.pieces, self.target = contraction, pieces, target
        self.lanes = lanes_for(contraction.dtype)
        self.columns = size_of(contraction.columns)
        *outer, self.pixels = contraction.rows
        self.outer = outer or [Axis(tirx.Var("line", "int64"), 1)]
        """Axes of whole rows of the result; chunks are of the first one."""
        self.tiles = choose_tiles(self.pixels.extent, -(-self.columns // self.lanes), vector_registers())
        self.depth, self.blocks = self._depth()
        self.rows, self.parts = self._sizes()
        self.room = None if pieces is None else pieces.buffer(self.rows if outer else self.pixels.extent)
        self.finished = None
        if has_long_stores(contraction):
            self.finished = temporary("finished", contraction.dtype, self._tile_shape())

    def _tile_shape(self) -> list[int]:
        return [self.tiles.rows.size, self.tiles.vectors.size * self.lanes]

    def _depth(self) -> tuple[int, int]:
        """Iterations of the outermost axis of the sum whose vectors stay in the second cache, and how many blocks."""
        first, *inner = self.contraction.reduced
        step = size_of(inner) * self.tiles.vectors.size * vector_bits() // 8
        blocks = -(-first.extent // max(1, _most_bytes() // step))
        depth = -(-first.extent // blocks)
        return depth, -(-first.extent // depth)

    def _sizes(self) -> tuple[int, int]:
        """Rows of a chunk and parts of the channels: what is read stays in the cache, and threads have enough."""
        total, tiles = self.outer[0].extent, self.tiles.vectors.count
        rows, parts = total, 1
        while rows > 1 and self._kept_bytes(rows) > _most_bytes():
            rows = -(-rows // 2)
        enough = 4 * self.target.threads if self.target.threads > 1 else 1
        others = size_of(self.contraction.batch)
        while others * -(-total // rows) * parts < enough and (rows > 1 or parts < tiles):
            if rows > 4 or parts >= tiles:
                rows = -(-rows // 2)
            else:
                parts += 1
        return rows, parts

    def _kept_bytes(self, rows: int) -> int:
        """What a chunk keeps: the room, and sums between blocks."""
        lines = rows * size_of(self.outer[1:])
        sums = lines * self.pixels.extent * self.tiles.vectors.size * vector_bits() // 8 if self.blocks > 1 else 0
        return max(sums, 0 if self.pieces is None else _bytes(self.pieces, rows))

    def statement(self) -> Any:
        contraction = self.contraction
        chunks = -(-self.outer[0].extent // self.rows)
        vectors = self.tiles.vectors.total
        work = size_of(contraction.rows) * size_of(contraction.reduced) * size_of(contraction.batch) * vectors

        def task(position: Any) -> Any:
            part, rest = tirx.floormod(position, index(self.parts)), tirx.floordiv(position, index(self.parts))
            batch = spread(contraction.batch, tirx.floordiv(rest, index(chunks)))
            return self._task(batch, tirx.floormod(rest, index(chunks)) * index(self.rows), part)

        tasks = size_of(contraction.batch) * chunks * self.parts
        return counted("task", tasks, task, loop_kind(work, self.target))

    def _task(self, batch: Values, first: Any, part: Any) -> Any:
        """One chunk of rows for some channels."""
        tiles = self.tiles.vectors
        share = -(-tiles.count // self.parts)
        count: Any = share if tiles.count % share == 0 else tirx.min(
            index(share), index(tiles.count) - part * index(share)
        )  # fmt: skip
        rows: Any = self.rows
        if self.outer[0].extent % self.rows:
            rows = tirx.min(index(self.rows), index(self.outer[0].extent) - first)
        kept = None
        if self.blocks > 1:
            lines = self.rows * size_of(self.outer[1:])
            kept = temporary("sums", self.contraction.dtype, [lines, self.tiles.rows.count, *self._tile_shape()])
        made = [tirx.AllocBuffer(each) for each in (self.room, kept, self.finished) if each is not None]
        if self.room is not None:
            read = rows if len(self.contraction.rows) > 1 else self.pixels.extent
            made.append(self.pieces.filled(self.room, batch, first, read, self.lanes))
        contraction = self._of_chunk(first)

        def channels(at: Any) -> Any:
            def lines(column: Any, vectors: int, columns: int) -> Any:
                return counted("block", self.blocks, lambda block: self._lines(
                    contraction, batch, rows, kept, (column, vectors, columns), block
                ))  # fmt: skip

            return self._by_columns(part * index(share) + at, lines)

        return sequence(*made, counted("channels", count, channels))

    def _of_chunk(self, first: Any) -> Contraction:
        """The contraction of one chunk, whose rows are counted from its first one."""
        values = {self.outer[0].variable: plus(first, self.outer[0].variable)}
        contraction = self.contraction
        left = replaced(contraction.left, values) if self.room is None else self.pieces.load(self.room)
        stores = tuple(replaced(store, values) for store in contraction.stores)
        return replace(contraction, rows=(self.pixels,), left=left, stores=stores, packs_left=False)

    def _lines(self, contraction: Contraction, batch: Values, rows: Any, kept: Any, place: Any, number: Any) -> Any:
        """All pixels of a chunk for one tile of channels and one block of the window."""
        column, vectors, columns = place

        def line(values: Values) -> Any:
            at_line = index(0)
            for axis in self.outer:
                at_line = plus(at_line * index(axis.extent), values[axis.variable])

            def tile(at: Any) -> Any:
                block = ReductionBlock(number, self.blocks, self.depth, kept, (at_line, at))

                def body(pixel: Any, count: int) -> Any:
                    where = TilePlace({**batch, **values}, pixel, count, column, vectors, columns)
                    return Tile(contraction, self.lanes, where, block, self.finished).body()

                return _by_size(self.tiles.rows, at, body)

            return counted("tile", self.tiles.rows.count, tile)

        first, *inner = self.outer
        return counted("line", rows, lambda at: nested(inner, line, {first.variable: at}))

    def _by_columns(self, tile: Any, body: Callable[[Any, int, int], Any]) -> Any:
        """`body` for a tile's first column, vectors and columns: the last one's last vector may be shorter."""
        cut, lanes = self.tiles.vectors, self.lanes
        made = _by_size(cut, tile, lambda at, size: body(at * index(lanes), size, size * lanes))
        if not self.columns % lanes:
            return made
        size = sizes_of(cut)[-1][0]
        first = (cut.total - size) * lanes
        last = body(index(first), size, self.columns - first)
        return last if cut.count == 1 else tirx.IfThenElse(tirx.LT(tile, index(cut.count - 1)), made, last)


def _by_size(cut: Cut, tile: Any, body: Callable[[Any, int], Any]) -> Any:
    """`body` for a tile's first unit and how many it has: one of two sizes."""
    (large, count), *small = sizes_of(cut)
    made = body(tile * index(large), large)
    if not small:
        return made
    size, _ = small[0]
    return tirx.IfThenElse(tirx.LT(tile, index(count)), made, body(tile * index(large - 1) + index(count), size))
