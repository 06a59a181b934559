"""The CPU rule for convolutions whose results lie side by side along an axis of the image (NCHW and the like).

Takes a PrimFunc with one block that is a product (`products`) of which one operand is read at sums of axes: strided,
dilated, grouped, of one to three dimensions. Elementwise work behind it is done on the tiles. Gives None for any other.

    parallel over images, groups and chunks of whole rows of the result:
        for block of input channels:
            copy     P[channel, kernel position, pixel of the chunk]      rows of the image, shifted and strided; of a
                                                                         padded one by way of a room with its padding
            tiles    output channels × vectors of pixels (`cpu_tile_body`)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from mlirtri.lowering.codegen.targets import vector_registers
from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.tile_sizes import Cut, choose_tiles, lanes_for, loop_kind, shared, sizes_of
from mlirtri.lowering.schedule.cpu.convolution.padded_images import core_of, padded, room_of, with_core
from mlirtri.lowering.schedule.cpu.matmul.packing import packed_left
from mlirtri.lowering.schedule.cpu.matmul.rule import in_tiles
from mlirtri.lowering.schedule.cpu.matmul.tile import ReductionBlock, Tile, TilePlace
from mlirtri.lowering.tir.contraction import Axis, Contraction, Values, depends, size_of
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.products import Product, only_product
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence
from mlirtri.lowering.tir.tiles import counted, in_lanes, nested, ramp, replaced, spread, temporary, zero_of
from mlirtri.lowering.toolchain.tvm_names import PrimFunc, Schedule, TensorLoad, tirx

MOST_PIXELS = 512
"""Longer rows of a result are cut into pieces of this length."""
GOOD_PIXELS = 96
"""Pixels of a chunk from which on its tiles are wide enough, and the copy is used often enough."""


def convolution(function: PrimFunc, target: Target) -> Schedule | None:
    """The function with its convolution in tiles; None where there is none of that kind."""
    found = only_product(function)
    if found is None or not reads_image(found[-1]):
        return None
    return in_tiles(*found, convolution_loops, target)


def reads_image(product: Product | None) -> bool:
    """Whether this rule does the product: the right operand's rows are cut out of longer ones, or of several places."""
    if product is None:
        return False
    around = padded(product.right)
    right, inner = core_of(product.right) if around is None else around.load, product.columns[-1]
    if not isinstance(right, TensorLoad) or not product.rows or inner.extent < 2:
        return False
    if size_of(product.rows) < 4 or size_of(product.reduced) < 4:
        return False
    forms = [linear(place, {}) for place in right.indices]
    if any(form is None for form in forms) or any(form.factor(inner.variable) for form in forms[:-1]):
        return False
    if inner.extent > MOST_PIXELS and not _slides(right, product):
        return False
    return forms[-1].factor(inner.variable) > 0 and not all(
        isinstance(place, tirx.Var) or not form.terms for place, form in zip(right.indices, forms, strict=True)
    )


def _slides(right: Any, product: Product) -> bool:
    """Whether windows overlap: otherwise the operand is a matrix with long rows."""
    return any(depends(place, product.columns) and depends(place, product.reduced) for place in right.indices)


def reads_padded(product: Product) -> bool:
    """Whether this rule does the product with an image that is padded as it is read."""
    if (
        not reads_image(product)
        or product.columns[-1].extent > MOST_PIXELS
        or str(product.right.ty.dtype) != product.dtype
        or not product.dtype.startswith("float")
    ):
        return False
    return room_of(product.right, product.columns, product.reduced, 1) is not None


@dataclass(frozen=True)
class _Chunk:
    """Rows of the result that are done together: how many, and the rows before the first chunk of this kind."""

    rows: int
    count: int
    before: int


def convolution_loops(contraction: Contraction, target: Target) -> Any:
    """The statements that compute the contraction, whose right operand is read at sums of axes."""
    if not isinstance(core_of(contraction.right), TensorLoad) and not _has_room(contraction):
        return None
    before: list[Any] = []
    if not isinstance(contraction.left, TensorLoad):  # filters of halves are widened once, not for each chunk
        contraction, before = packed_left(contraction, target)
    return sequence(*before, *(fresh(_all_chunks(part, target)) for part in _cut(contraction)))


def _has_room(contraction: Contraction) -> bool:
    """Whether an image that is padded as it is read is so in a room: pieces of long rows have none."""
    is_short = contraction.columns[-1].extent <= MOST_PIXELS
    return is_short and room_of(contraction.right, contraction.columns, contraction.reduced, 1) is not None


def _cut(contraction: Contraction) -> list[Contraction]:
    """The contraction with rows of the result that are short enough: pieces of one length, and what is left."""
    inner = contraction.columns[-1]
    if inner.extent <= MOST_PIXELS:
        return [contraction]
    whole, rest = divmod(inner.extent, MOST_PIXELS)
    piece, pixel = Axis(tirx.Var("piece", "int64"), whole), Axis(tirx.Var("pixel", "int64"), MOST_PIXELS)
    last = Axis(tirx.Var("pixel", "int64"), rest)
    pieces = _in_place(contraction, [piece, pixel], piece.variable * index(MOST_PIXELS) + pixel.variable)
    if not rest:
        return [pieces]
    return [pieces, _in_place(contraction, [last], last.variable + index(whole * MOST_PIXELS))]


def _in_place(contraction: Contraction, axes: list[Axis], position: Any) -> Contraction:
    """The contraction for the columns at a position among the innermost axis of them."""
    *outer, inner = contraction.columns
    values = {inner.variable: position}
    return replace(
        contraction, columns=(*outer, *axes), right=replaced(contraction.right, values),
        stores=tuple(replaced(store, values) for store in contraction.stores),
    )  # fmt: skip


def _all_chunks(contraction: Contraction, target: Target) -> Any:
    *outer, inner = contraction.columns
    total = size_of(outer)
    rows = min(total, _rows_of_a_chunk(inner.extent, lanes_for(contraction.dtype)))
    whole, rest = divmod(total, rows)
    chunks = [_Chunk(rows, whole, 0)] + ([_Chunk(rest, 1, whole * rows)] if rest else [])
    return sequence(*(_Tasks(contraction, chunk, target).statement() for chunk in chunks))


def _rows_of_a_chunk(width: int, lanes: int) -> int:
    """Rows that fill whole vectors together, if that takes no more than twice what is enough."""
    rows = fill = lanes // gcd(width, lanes)
    while rows * width < GOOD_PIXELS:
        rows += fill
    return rows if rows * width <= 4 * GOOD_PIXELS else -(-GOOD_PIXELS // width)


class _Tasks:
    """All chunks of one size."""

    def __init__(self, contraction: Contraction, chunk: _Chunk, target: Target):
        self.contraction, self.chunk, self.target = contraction, chunk, target
        self.known_batch = [axis for axis in contraction.batch if isinstance(axis.extent, int)]
        """Images that only the run counts may be one."""
        self.lanes = lanes_for(contraction.dtype)
        self.width = contraction.columns[-1].extent
        self.pixels = chunk.rows * self.width
        vectors = -(-self.pixels // self.lanes)
        self.pitch = vectors * self.lanes
        self.tiles = choose_tiles(size_of(contraction.rows), vectors, vector_registers())
        first, *self.inner = contraction.reduced
        inner_bytes = size_of(self.inner) * self.pitch * int(contraction.right.ty.dtype.bits) // 8
        most = max(1, cache_bytes()[2] // 2 // inner_bytes)
        self.depth = -(-first.extent // -(-first.extent // most))
        self.blocks = -(-first.extent // self.depth)
        self.tall = self._row_tiles_per_task()
        self.room = room_of(contraction.right, contraction.columns, contraction.reduced, chunk.rows)
        self.right = contraction.right
        """What copies read: the image, or the room in which it is padded."""
        if self.room is not None:
            self.room_buffer = self.room.buffer()
            variables = [axis.variable for axis in (*contraction.columns, *self.inner)]
            self.right = self.room.load(self.room_buffer, variables)

    def _row_tiles_per_task(self) -> int:
        """All tiles of output channels where there are chunks enough for the threads."""
        tasks, count = size_of(self.known_batch) * self.chunk.count, self.tiles.rows.count
        parts = min(count, -(-2 * self.target.threads // tasks)) if self.target.threads > 1 else 1
        return -(-count // parts)

    def statement(self) -> Any:
        contraction, chunks = self.contraction, self.chunk.count
        parts = -(-self.tiles.rows.count // self.tall)
        work = size_of(contraction.rows) * size_of(contraction.reduced) * self.pitch // self.lanes

        def task(position: Any) -> Any:
            part, rest = tirx.floormod(position, index(parts)), tirx.floordiv(position, index(parts))
            batch = spread(contraction.batch, tirx.floordiv(rest, index(chunks)))
            row = plus(tirx.floormod(rest, index(chunks)) * index(self.chunk.rows), index(self.chunk.before))
            return self._task(batch, row, part)

        tasks = size_of(contraction.batch) * chunks * parts
        if loop_kind(work * size_of(self.known_batch) * chunks * parts, self.target) == tirx.ForKind.PARALLEL:
            return counted("task", tasks, task, tirx.ForKind.PARALLEL)
        return shared("task", tasks, task, work * tasks, self.target)

    def _task(self, batch: Values, row: Any, part: Any) -> Any:
        """One chunk for some output channels: block by block of the reduction, its copy and its tiles."""
        dtype = str(self.contraction.right.ty.dtype)
        packed = temporary("pixels", dtype, [self.depth, *(axis.extent for axis in self.inner), self.pitch])
        kept = None
        if self.blocks > 1:
            tile = [self.tiles.rows.size, self.tiles.vectors.size * self.lanes]
            kept = temporary("sums", self.contraction.dtype, [self.tall, self.tiles.vectors.count, *tile])

        def block(number: Any) -> Any:
            return sequence(self._copy(packed, batch, row, number), self._tiles(packed, batch, row, part, number, kept))

        allocated = [tirx.AllocBuffer(each) for each in (packed, kept) if each is not None]
        if self.room is not None:
            allocated += [tirx.AllocBuffer(self.room_buffer), self.room.cleared(self.room_buffer, self.lanes)]
        return sequence(*allocated, counted("block", self.blocks, block))

    # --- the copy ----------------------------------------------------------------------------------------------------

    def _copy(self, packed: Any, batch: Values, row: Any, number: Any) -> Any:
        """Pixels as the tiles read them: for each term of the sum, all rows of the chunk behind each other."""
        first = self.contraction.reduced[0]
        start, extent = self._block(number)

        def term(at: Any) -> Any:
            made = nested(self.inner, lambda values: rows({**values, first.variable: start + at}, at))
            if self.room is None:
                return made
            values = {**batch, first.variable: start + at}
            return sequence(self.room.filled(self.room_buffer, values, row, self.lanes), made)

        def rows(values: Values, at: Any) -> Any:
            place = [at, *(values[axis.variable] for axis in self.inner)]
            values = {**batch, **values}
            made = counted("line", self.chunk.rows, lambda line: self._line(packed, place, values, row, line))
            if self.pitch == self.pixels:
                return made
            zero = tirx.Broadcast(zero_of(str(packed.dtype)), self.lanes)
            last = ramp(index(self.pitch - self.lanes), self.lanes)
            return sequence(tirx.BufferStore(packed, zero, [*place, last]), made)

        return counted("channel", extent, term)

    def _block(self, number: Any) -> tuple[Any, Any]:
        """First iteration and extent of one block of the outermost reduction axis."""
        start, whole = number * index(self.depth), self.contraction.reduced[0].extent
        if whole % self.depth:
            return start, tirx.min(index(self.depth), index(whole) - start)
        return start, index(self.depth)

    def _line(self, packed: Any, place: list[Any], values: Values, row: Any, line: Any) -> Any:
        """One row of pixels, as vectors; the last ones may be done twice."""
        *outer, inner = self.contraction.columns
        values = {**values, **spread(outer, line if self.room is not None else plus(row, line))}
        form = linear(core_of(self.right).indices[-1], {})
        stride = form.factor(inner.variable)

        def vector(start: Any, lanes: int) -> Any:
            to = [*place, line * index(self.width) + start]
            if stride == 2 and lanes == self.lanes:
                return self._every_second(packed, to, values, start)
            return in_lanes(lanes, lambda lane: self._pixel(packed, to, values, start, lane))

        return self._vectors(vector)

    def _vectors(self, vector: Any) -> Any:
        lanes, width = self.lanes, self.width
        while lanes > width:
            lanes //= 2
        whole, rest = divmod(width, lanes)
        made = [vector(index(at * lanes), lanes) for at in range(whole)]
        return sequence(*made, vector(index(width - lanes), lanes)) if rest else sequence(*made)

    def _pixel(self, packed: Any, to: list[Any], values: Values, start: Any, lane: Any) -> Any:
        inner = self.contraction.columns[-1]
        value = replaced(self.right, {**values, inner.variable: start + lane})
        return tirx.BufferStore(packed, value, [*to[:-1], to[-1] + lane])

    def _every_second(self, packed: Any, to: list[Any], values: Values, start: Any) -> Any:
        """A vector of every second element, out of two vectors of neighbours: the last element is the last one read."""
        lanes, dtype, right = self.lanes, str(packed.dtype), core_of(self.right)
        both = [new_buffer(name, dtype, lanes) for name in ("even", "odd")]
        inner = self.contraction.columns[-1]
        *outer, last = [replaced(each, {**values, inner.variable: start}) for each in right.indices]
        made = []
        for half, buffer in enumerate(both):
            first = plus(last, index(half * (lanes - 1)))
            load = [*outer, first]
            made += [
                tirx.AllocBuffer(buffer),
                in_lanes(lanes, lambda lane, b=buffer, at=load: tirx.BufferStore(
                    b, with_core(self.right, tirx.BufferLoad(right.source, [*at[:-1], at[-1] + lane])), [lane]
                )),
            ]  # fmt: skip

        def element(lane: Any, half: int) -> Any:
            value = tirx.BufferLoad(both[half], [lane * index(2) + index(half)])
            return tirx.BufferStore(packed, value, [*to[:-1], to[-1] + index(half * lanes // 2) + lane])

        made += [in_lanes(lanes // 2, lambda lane, half=half: element(lane, half)) for half in (0, 1)]
        return sequence(*made)

    # --- the tiles ---------------------------------------------------------------------------------------------------

    def _tiles(self, packed: Any, batch: Values, row: Any, part: Any, number: Any, kept: Any) -> Any:
        chunk = self._of_chunk(packed, row)
        rows, vectors = self.tiles.rows, self.tiles.vectors
        left: Any = index(self.tall)
        if rows.count % self.tall:
            left = tirx.min(left, index(rows.count) - part * index(self.tall))

        def column_tile(at: Any, first: int, size: int) -> Any:
            columns = min(size * self.lanes, self.pixels - first * self.lanes)

            def row_tile(row_at: Any) -> Any:
                block = ReductionBlock(number, self.blocks, self.depth, kept, (row_at, at))

                def body(first_row: Any, tall: int) -> Any:
                    place = TilePlace(batch, first_row, tall, index(first * self.lanes), size, columns)
                    return Tile(chunk, self.lanes, place, block).body()

                return _by_size(rows, part * index(self.tall) + row_at, body)

            return counted("tile", left, row_tile)

        made, first = [], 0
        for size, count in sizes_of(vectors):
            for _ in range(count):
                made.append(column_tile(index(len(made)), first, size))
                first += size
        return sequence(*made)

    def _of_chunk(self, packed: Any, row: Any) -> Contraction:
        """The contraction of one chunk's pixels, which are counted from its first one."""
        *outer, inner = self.contraction.columns
        first = self.contraction.reduced[0]
        pixel = Axis(tirx.Var("pixel", "int64"), self.pixels)
        line = plus(row, tirx.floordiv(pixel.variable, index(self.width)))
        values = {inner.variable: tirx.floormod(pixel.variable, index(self.width)), **spread(outer, line)}
        terms = [tirx.floormod(first.variable, index(self.depth)), *(axis.variable for axis in self.inner)]
        return replace(
            self.contraction, columns=(pixel,), right=tirx.BufferLoad(packed, [*terms, pixel.variable]),
            stores=tuple(replaced(store, values) for store in self.contraction.stores),
        )  # fmt: skip


def _by_size(cut: Cut, tile: Any, body: Any) -> Any:
    """`body` for the tile's first row and how many it has: one of two sizes."""
    (large, count), *small = sizes_of(cut)
    made = body(tile * index(large), large)
    if not small:
        return made
    size, _ = small[0]
    return tirx.IfThenElse(tirx.LT(tile, index(count)), made, body(tile * index(large - 1) + index(count), size))
