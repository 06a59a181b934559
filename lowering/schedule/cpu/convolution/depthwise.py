"""The CPU rule for depthwise convolutions whose results are contiguous along an axis of the image.

The image may be padded, fp16 or bf16. A channel has one filter, or a few, with one element for each position of the
window, of one to three dimensions and stride 1 or 2. Elementwise consumers are computed in registers.

    parallel over images, channels and chunks of rows:
        copy     the chunk's rows of the image with their padding (`padded_chunks`); deinterleaved where the stride is 2
        taps     the filter's elements
        tiles    a few rows × vectors of columns (`matmul.tile`), with the window, or a row of it, unrolled
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product as positions_of
from typing import Any

from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.convolution.padded_chunks import PaddedChunk, chunk_of
from mlirtri.lowering.schedule.cpu.convolution.tasks import ChunkCopyTasks, Chunks
from mlirtri.lowering.schedule.cpu.matmul.rule import in_tiles
from mlirtri.lowering.schedule.cpu.matmul.tile import ReductionBlock, Tile, TilePosition, has_long_stores
from mlirtri.lowering.tir.contraction import Axis, Contraction, Values, depends, size_of, without_units
from mlirtri.lowering.tir.padded_images import Padded, core_of, padded, without_padding
from mlirtri.lowering.tir.product_recognition import Product, only_product
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence
from mlirtri.lowering.tir.tiles import for_loop, loop_nest, ramp, replaced, temporary
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, PrimFunc, Schedule, Stmt, TensorLoad, tirx

MAX_TAPS = 2048
"""Most elements of a filter: those that a tile reads stay in the first-level cache."""
MAX_UNROLLED = 32
"""Positions of a window that are unrolled; of larger windows, the innermost axis is."""
MAX_FILTERS = 3
"""Most filters per channel; more of them are better as rows of tiles."""
ROWS, VECTORS = 4, 2
"""The size of a tile: its rows share loads of their windows, and eight accumulators hide the latency of an addition."""
MIN_COLUMNS = 4


def depthwise(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the function with its convolution in tiles; None where it is no depthwise convolution."""
    match = only_product(function)
    if match is None or not is_depthwise(match[-1]):
        return None
    schedule, block, product = match
    # Each of the few filters of a channel is a batch element, which reads the image again.
    alone = replace(product, batch=(*product.batch, *product.rows), rows=())
    return in_tiles(schedule, block, alone, _loops, target)


def is_depthwise(product: Product) -> bool:
    """Return whether a product is a depthwise convolution with a small window; its image may be padded when read."""
    if size_of(product.rows) > MAX_FILTERS or not product.dtype.startswith("float") or not product.columns:
        return False
    dtypes = {str(operand.ty.dtype) for operand in (product.left, product.right)}
    if not isinstance(core_of(product.left), TensorLoad) or dtypes != {product.dtype}:
        return False
    columns, reduced = without_units(product.columns), without_units(product.reduced)
    if not columns or columns[-1].extent < MIN_COLUMNS or not 2 <= size_of(reduced) <= MAX_TAPS:
        return False
    if not reduced or reduced[-1].extent > MAX_UNROLLED:
        return False
    image = _image(product.right)
    if image is None or not any(
        depends(position, columns) and depends(position, reduced) for position in image.load.indices
    ):
        return False
    chunk = chunk_of(image, columns, reduced)
    return chunk is not None and _fits(chunk, columns) and _stride(chunk, columns[-1]) in (1, 2)


def _image(operand: Expr) -> Padded | None:
    """Return the operand as a padded image, perhaps without padding; None where it is no element of a tensor."""
    image = padded(operand)
    return without_padding(operand) if image is None and isinstance(core_of(operand), TensorLoad) else image


def _fits(chunk: PaddedChunk, columns: tuple[Axis, ...]) -> bool:
    """Return whether the copy for one row of the result is contiguous along the columns and at most a quarter of L2."""
    inner = columns[-1]
    last = chunk.sides[-1]
    others = [side.position.factor(inner.variable) for side in chunk.sides[:-1]]
    is_last = last.position.factor(inner.variable) > 0 and not any(others)
    is_last = is_last and last.dimension == len(chunk.padded.load.indices) - 1 and not last.offset.terms
    rows = 1 if len(columns) > 1 else inner.extent
    return is_last and chunk.bytes(rows) <= cache_bytes()[2] // 4


def _stride(chunk: PaddedChunk, inner: Axis) -> int:
    return chunk.sides[-1].position.factor(inner.variable)


def _loops(contraction: Contraction, target: Target) -> Stmt | None:
    image = _image(contraction.right)
    chunk = None if image is None else chunk_of(image, contraction.columns, contraction.reduced)
    if chunk is None or contraction.rows or contraction.column_terms is not None:
        return None
    return _WindowTasks(contraction, chunk, target).statement()


class _WindowTasks(ChunkCopyTasks):
    """Tasks that compute each channel of a chunk with its own filter."""

    def __init__(self, contraction: Contraction, image: PaddedChunk, target: Target):
        super().__init__(contraction, contraction.columns, target)
        self.stride = _stride(image, self.inner)
        self.vectors = -(-self.inner.extent // self.lanes)
        self.image = self._with_whole_vectors(image)
        rows = self._rows()
        self.chunks = Chunks(rows, -(-self.outer[0].extent // rows))
        self.copy = self.image.buffer(self.chunked(rows))
        self.phases = self._phases()
        self.taps = temporary("taps", contraction.dtype, [axis.extent for axis in contraction.reduced])
        self.finished = None
        if has_long_stores(contraction):
            self.finished = temporary("finished", contraction.dtype, [1, VECTORS * self.lanes])

    def _with_whole_vectors(self, image: PaddedChunk) -> PaddedChunk:
        """Return the image with more columns, so that each row's last vector is full, deinterleaved or not."""
        last = image.sides[-1]
        more = (self.vectors * self.lanes - self.inner.extent) * self.stride
        extent = last.extent + more
        if self.stride > 1:
            extent = -(-extent // (2 * self.lanes)) * 2 * self.lanes
        # Guarded even without padding: the copy extends past the end of the image.
        return replace(image, sides=(*image.sides[:-1], replace(last, extent=extent, guarded=True)))

    def _rows(self) -> int:
        total = self.outer[0].extent
        most = max(ROWS, total)
        while most > ROWS and self.image.bytes(self.chunked(min(most, total))) > cache_bytes()[1] // 2:
            most = -(-most // 2)
        enough = 4 * self.target.threads if self.target.threads > 1 else 1
        while most > ROWS and size_of(self.contraction.batch) * -(-total // most) < enough:
            most = -(-most // 2)
        return min(-(-most // ROWS) * ROWS, total)

    def _phases(self) -> Buffer | None:
        """Return a buffer for the copy with its even columns in front of the odd ones; None where the stride is 1."""
        if self.stride == 1:
            return None
        *sizes, width = self.image.extents(self.chunked(self.chunks.rows))
        return temporary("phases", self.contraction.dtype, [*sizes, 2, width // 2])

    def work(self, batch: Any) -> Any:
        contraction = self.contraction
        return 4 * (batch * size_of(contraction.columns) * size_of(contraction.reduced) // self.lanes)

    def buffers(self) -> list[Buffer | None]:
        return [self.copy, self.phases, self.taps, self.finished]

    def task(self, batch: Values, first: Expr, part: Expr) -> list[Stmt]:
        rows = self.rows_from(first)
        statements = self.filled_copy(batch, first, rows)
        if self.phases is not None:
            statements.append(self._deinterleaved(self.image.extents(self.chunked(rows))))
        statements.append(self._filter(batch))
        left = tirx.BufferLoad(self.taps, [axis.variable for axis in self.contraction.reduced])
        contraction = self.of_chunk(
            first, columns=(self.inner,), left=left, right=self._right(), packs_left=False, packs_right=True
        )
        return [*statements, self._chunk(contraction, batch, rows)]

    def _filter(self, batch: Values) -> Stmt:
        def tap(values: Values) -> Stmt:
            value = replaced(self.contraction.left, {**batch, **values})
            return tirx.BufferStore(self.taps, value, list(values.values()))

        return self._windows(lambda taps: sequence(*map(tap, taps)))

    def _windows(self, body: Callable[[list[Values]], Stmt]) -> Stmt:
        """Return the statements for all window positions: unrolled along all axes, or along the last."""
        reduced = self.contraction.reduced
        unrolled = reduced if size_of(reduced) <= MAX_UNROLLED else reduced[-1:]
        positions = positions_of(*(range(axis.extent) for axis in unrolled))
        taps = [
            {axis.variable: index(position) for axis, position in zip(unrolled, tap, strict=True)} for tap in positions
        ]
        looped = reduced[: len(reduced) - len(unrolled)]
        return loop_nest(looped, lambda values: body([{**values, **tap} for tap in taps]))

    def _deinterleaved(self, extents: list[Any]) -> Stmt:
        """Return the copy of rows, two vectors at a time, into separate even and odd columns."""
        *lines, width = extents
        lanes = self.lanes

        def line(indices: list[Expr]) -> Stmt:
            if len(indices) < len(lines):
                return for_loop("line", lines[len(indices)], lambda position: line([*indices, position]))
            return for_loop("pair", width // (2 * lanes), lambda position: pair(indices, position))

        def pair(indices: list[Expr], position: Expr) -> Stmt:
            statements, halves = [], []
            for half in (0, 1):
                buffer = new_buffer("half", str(self.copy.dtype), lanes)
                start = plus(position * index(2 * lanes), index(half * lanes))
                load = tirx.BufferLoad(self.copy, [*indices, ramp(start, lanes)])
                statements += [tirx.AllocBuffer(buffer), tirx.BufferStore(buffer, load, [ramp(index(0), lanes)])]
                halves.append(tirx.BufferLoad(buffer, [ramp(index(0), lanes)]))
            for phase in (0, 1):
                order = [index(2 * lane + phase) for lane in range(lanes)]
                target = [*indices, index(phase), ramp(position * index(lanes), lanes)]
                statements.append(tirx.BufferStore(self.phases, tirx.Shuffle(halves, order), target))
            return sequence(*statements)

        return line([])

    def _right(self) -> Expr:
        """Return the load of an element of the image from the copy, or from its even and odd columns."""
        load = self.image.load(self.copy)
        if self.phases is None:
            return load
        form = self.image.sides[-1].position
        window: Expr = index(0)
        for variable, factor in form.terms.items():
            if not variable.same_as(self.inner.variable):
                window = plus(window, variable * index(factor))
        half = [tirx.floormod(window, index(2)), plus(self.inner.variable, tirx.floordiv(window, index(2)))]
        return tirx.BufferLoad(self.phases, [*load.indices[:-1], *half])

    def _chunk(self, contraction: Contraction, batch: Values, rows: Any) -> Stmt:
        """Return the tiles of a chunk: of `ROWS` rows each, then of the remaining rows."""
        first, *middle = self.outer

        def lines(start: Expr, count: int) -> Stmt:
            def line(values: Values) -> Stmt:
                of_rows = [{**batch, **values, first.variable: plus(start, index(offset))} for offset in range(count)]
                return self._columns(contraction, of_rows)

            return loop_nest(middle, line)

        if isinstance(rows, int):
            full, remaining = divmod(rows, ROWS)
            tiles = [for_loop("tile", full, lambda tile: lines(tile * index(ROWS), ROWS))] if full else []
            return sequence(*tiles, lines(index(full * ROWS), remaining)) if remaining else sequence(*tiles)
        full = tirx.floordiv(rows, index(ROWS))
        single = for_loop("row", rows - full * index(ROWS), lambda row: lines(full * index(ROWS) + row, 1))
        return sequence(for_loop("tile", full, lambda tile: lines(tile * index(ROWS), ROWS)), single)

    def _columns(self, contraction: Contraction, rows: list[Values]) -> Stmt:
        """Return the tiles of all columns of some rows: of whole vectors, then of the remaining columns."""
        width, wide = self.inner.extent, VECTORS * self.lanes
        full, remaining = divmod(width, wide)
        tiles = []
        if full:
            tiles.append(for_loop(
                "strip", full, lambda position: self._tile(contraction, rows, position * index(wide), VECTORS, wide)
            ))  # fmt: skip
        if remaining:
            tiles.append(self._tile(contraction, rows, index(full * wide), -(-remaining // self.lanes), remaining))
        return sequence(*tiles)

    def _tile(self, contraction: Contraction, rows: list[Values], start: Expr, vectors: int, columns: int) -> Stmt:
        block = ReductionBlock(index(0), 1, contraction.reduced[0].extent, None, ())
        tiles = [
            _Row(contraction, self.lanes, TilePosition(row, index(0), 1, start, vectors, columns), block, self.finished)
            for row in rows
        ]
        steps = self._windows(lambda taps: sequence(*(tile.step(tap) for tap in taps for tile in tiles)))
        return fresh(sequence(*(tile.begin() for tile in tiles), steps, *(tile.end() for tile in tiles)))


class _Row(Tile):
    """One row of a tile, whose steps are interleaved with those of the other rows."""

    def begin(self) -> Stmt:
        return sequence(*map(tirx.AllocBuffer, self.sums), self._initial_sums())

    def step(self, tap: Values) -> Stmt:
        return self._step(tap)

    def end(self) -> Stmt:
        return self._final_statements()
