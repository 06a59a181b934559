"""The CPU rule for convolutions of each channel by itself (depthwise), whose results lie along an axis of the image.

Takes a PrimFunc with one block that is a product (`products`) of an image, which may be padded or a half, and a filter
with one element for each place of the window, of one to three dimensions, at every place or every second one; of a few
such filters for each channel. Padding is put around what a chunk reads, in a room that stays in the first cache;
elementwise work behind it is done in registers. Gives None for others.

    parallel over images, channels and chunks of rows:
        room     the chunk's rows of the image with their padding (`image_pieces`); columns two apart side by side
        taps     the filter's elements
        tiles    a few rows × vectors of columns (`cpu_tile_body`), with the window, or a row of it, written out
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product as places_of
from typing import Any

from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.tile_sizes import lanes_for, loop_kind
from mlirtri.lowering.schedule.cpu.convolution.image_tiles import Pieces, pieces_around
from mlirtri.lowering.schedule.cpu.convolution.padded_images import Padded, core_of, padded, without_padding
from mlirtri.lowering.schedule.cpu.matmul.rule import in_tiles
from mlirtri.lowering.schedule.cpu.matmul.tile import ReductionBlock, Tile, TilePlace, has_long_stores
from mlirtri.lowering.tir.contraction import Axis, Contraction, Values, depends, size_of, without_units
from mlirtri.lowering.tir.products import Product, only_product
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence
from mlirtri.lowering.tir.tiles import counted, nested, replaced, spread, temporary
from mlirtri.lowering.toolchain.tvm_names import PrimFunc, Schedule, TensorLoad, tirx

MOST_TAPS = 2048
"""Places of a window: what a tile reads of the filter stays in the first cache."""
MOST_UNROLLED = 32
"""Places of a window that are written out; of larger windows, the innermost axis is."""
MOST_FILTERS = 3
"""Filters of one channel; more are rows of tiles of their own."""
ROWS, VECTORS = 4, 2
"""Of a tile: rows share what their windows have in common, and eight sums are enough to wait for none."""
FEW_COLUMNS = 4


def depthwise(function: PrimFunc, target: Target) -> Schedule | None:
    """The function with its convolution in tiles; None where there is none of that kind."""
    found = only_product(function)
    if found is None or not reads_own_channel(found[-1]):
        return None
    schedule, block, product = found
    # A few filters for each channel: each is a channel's own, in an image that is read as often.
    alone = replace(product, batch=(*product.batch, *product.rows), rows=())
    return in_tiles(schedule, block, alone, _loops, target)


def reads_own_channel(product: Product) -> bool:
    """Whether this rule does the product: of a padded image, each channel of which has a small window of its own."""
    if size_of(product.rows) > MOST_FILTERS or not product.dtype.startswith("float") or not product.columns:
        return False
    both = (product.left, product.right)
    if not isinstance(core_of(product.left), TensorLoad) or any(str(each.ty.dtype) != product.dtype for each in both):
        return False
    columns, reduced = without_units(product.columns), without_units(product.reduced)
    if not columns or columns[-1].extent < FEW_COLUMNS or not 2 <= size_of(reduced) <= MOST_TAPS:
        return False
    if not reduced or reduced[-1].extent > MOST_UNROLLED:
        return False
    found = _image(product.right)
    if found is None or not any(depends(place, columns) and depends(place, reduced) for place in found.load.indices):
        return False
    pieces = pieces_around(found, columns, reduced)
    return pieces is not None and _fits(pieces, columns) and _stride(pieces, columns[-1]) in (1, 2)


def _image(operand: Any) -> Padded | None:
    """The operand as a padded image, perhaps without any padding; None where it is no element of a tensor."""
    found = padded(operand)
    return without_padding(operand) if found is None and isinstance(core_of(operand), TensorLoad) else found


def _fits(pieces: Pieces, columns: tuple[Axis, ...]) -> bool:
    """Whether a row of the result, or the only one, has a room that is small enough; columns are neighbours there."""
    inner = columns[-1]
    last = pieces.sides[-1]
    others = [side.own.factor(inner.variable) for side in pieces.sides[:-1]]
    is_last = last.own.factor(inner.variable) > 0 and not any(others)
    is_last = is_last and last.dimension == len(pieces.padded.load.indices) - 1 and not last.others.terms
    rows = 1 if len(columns) > 1 else inner.extent
    return is_last and _bytes(pieces, rows) <= cache_bytes()[2] // 4


def _bytes(pieces: Pieces, rows: int) -> int:
    return pieces.size(rows) * int(pieces.padded.operand.ty.dtype.bits) // 8


def _stride(pieces: Pieces, inner: Axis) -> int:
    return pieces.sides[-1].own.factor(inner.variable)


def _loops(contraction: Contraction, target: Target) -> Any:
    found = _image(contraction.right)
    pieces = None if found is None else pieces_around(found, contraction.columns, contraction.reduced)
    if pieces is None or contraction.rows or contraction.column_terms is not None:
        return None
    return _Tasks(contraction, pieces, target).statement()


class _Tasks:
    """The loops around the tiles."""

    def __init__(self, contraction: Contraction, pieces: Pieces, target: Target):
        self.contraction, self.target = contraction, target
        self.lanes = lanes_for(contraction.dtype)
        *outer, self.inner = contraction.columns
        self.outer = outer or [Axis(tirx.Var("line", "int64"), 1)]
        self.stride = _stride(pieces, self.inner)
        self.vectors = -(-self.inner.extent // self.lanes)
        self.pieces = self._with_whole_vectors(pieces)
        self.rows = self._rows()
        self.room = self.pieces.buffer(self._read(self.rows))
        self.phases = self._phases()
        taps = [axis.extent for axis in contraction.reduced]
        self.taps = temporary("taps", contraction.dtype, taps)
        self.finished = None
        if has_long_stores(contraction):
            self.finished = temporary("finished", contraction.dtype, [1, VECTORS * self.lanes])

    def _read(self, rows: Any) -> Any:
        """How many places of the axis that chunks are of: the only axis of columns is not cut."""
        return rows if len(self.contraction.columns) > 1 else self.inner.extent

    def _with_whole_vectors(self, pieces: Pieces) -> Pieces:
        """With more columns: the last vector of each row is whole, and so are those that are taken apart."""
        last = pieces.sides[-1]
        more = (self.vectors * self.lanes - self.inner.extent) * self.stride
        extent = last.extent + more
        if self.stride > 1:
            extent = -(-extent // (2 * self.lanes)) * 2 * self.lanes
        # Guarded, as there are places behind the image now, also of one that has no padding there.
        return replace(pieces, sides=(*pieces.sides[:-1], replace(last, extent=extent, guarded=True)))

    def _rows(self) -> int:
        """Rows of a chunk: what they read stays in the first cache, and threads have enough to do."""
        total = self.outer[0].extent
        most = max(ROWS, total)
        while most > ROWS and _bytes(self.pieces, self._read(min(most, total))) > cache_bytes()[1] // 2:
            most = -(-most // 2)
        enough = 4 * self.target.threads if self.target.threads > 1 else 1
        while most > ROWS and size_of(self.contraction.batch) * -(-total // most) < enough:
            most = -(-most // 2)
        return min(-(-most // ROWS) * ROWS, total)

    def _phases(self) -> Any:
        """The room with even columns before odd ones; None where each column is read."""
        if self.stride == 1:
            return None
        *sizes, width = self.pieces.extents(self._read(self.rows))
        return temporary("phases", self.contraction.dtype, [*sizes, 2, width // 2])

    def statement(self) -> Any:
        contraction = self.contraction
        chunks = -(-self.outer[0].extent // self.rows)
        tasks = size_of(contraction.batch) * chunks
        work = size_of(contraction.batch) * size_of(contraction.columns) * size_of(contraction.reduced) // self.lanes

        def task(position: Any) -> Any:
            batch = spread(contraction.batch, tirx.floordiv(position, index(chunks)))
            return self._task(batch, tirx.floormod(position, index(chunks)) * index(self.rows))

        return counted("task", tasks, task, loop_kind(4 * work, self.target))

    def _task(self, batch: Values, first: Any) -> Any:
        rows: Any = self.rows
        if self.outer[0].extent % self.rows:
            rows = tirx.min(index(self.rows), index(self.outer[0].extent) - first)
        buffers = (self.room, self.phases, self.taps, self.finished)
        made = [tirx.AllocBuffer(each) for each in buffers if each is not None]
        made.append(self.pieces.filled(self.room, batch, first, self._read(rows), self.lanes))
        if self.phases is not None:
            made.append(self._apart(self.pieces.extents(self._read(rows))))
        made.append(self._filter(batch))
        return sequence(*made, self._chunk(self._of_chunk(first), batch, rows))

    def _filter(self, batch: Values) -> Any:
        """The filter's elements side by side."""

        def tap(values: Values) -> Any:
            value = replaced(self.contraction.left, {**batch, **values})
            return tirx.BufferStore(self.taps, value, list(values.values()))

        return self._windows(lambda taps: sequence(*map(tap, taps)))

    def _windows(self, make: Callable[[list[Values]], Any]) -> Any:
        """Statements for all places of the window: written out, or those of the last axis in loops over the others."""
        reduced = self.contraction.reduced
        written = reduced if size_of(reduced) <= MOST_UNROLLED else reduced[-1:]
        places = places_of(*(range(axis.extent) for axis in written))
        taps = [{axis.variable: index(at) for axis, at in zip(written, tap, strict=True)} for tap in places]
        looped = reduced[: len(reduced) - len(written)]
        return nested(looped, lambda values: make([{**values, **tap} for tap in taps]))

    def _apart(self, extents: list[Any]) -> Any:
        """Rows of the room, two vectors at a time, into their even and odd columns."""
        *lines, width = extents
        lanes = self.lanes

        def line(places: list[Any]) -> Any:
            if len(places) < len(lines):
                return counted("line", lines[len(places)], lambda at: line([*places, at]))
            return counted("pair", width // (2 * lanes), lambda at: pair(places, at))

        def pair(places: list[Any], at: Any) -> Any:
            made, halves = [], []
            for half in (0, 1):
                buffer = new_buffer("half", str(self.room.dtype), lanes)
                start = plus(at * index(2 * lanes), index(half * lanes))
                load = tirx.BufferLoad(self.room, [*places, tirx.Ramp(start, index(1), lanes)])
                made += [tirx.AllocBuffer(buffer), tirx.BufferStore(buffer, load, [_all(lanes)])]
                halves.append(tirx.BufferLoad(buffer, [_all(lanes)]))
            for phase in (0, 1):
                order = [index(2 * lane + phase) for lane in range(lanes)]
                place = [*places, index(phase), tirx.Ramp(at * index(lanes), index(1), lanes)]
                made.append(tirx.BufferStore(self.phases, tirx.Shuffle(halves, order), place))
            return sequence(*made)

        return line([])

    def _of_chunk(self, first: Any) -> Contraction:
        """The contraction of one chunk, whose rows are counted from its first one."""
        values = {self.outer[0].variable: plus(first, self.outer[0].variable)}
        stores = tuple(replaced(store, values) for store in self.contraction.stores)
        left = tirx.BufferLoad(self.taps, [axis.variable for axis in self.contraction.reduced])
        return replace(
            self.contraction, columns=(self.inner,), left=left, right=self._right(), stores=stores,
            packs_left=False, packs_right=True,
        )  # fmt: skip

    def _right(self) -> Any:
        """An element of the image, out of the room, or of its even or odd columns."""
        load = self.pieces.load(self.room)
        if self.phases is None:
            return load
        own = self.pieces.sides[-1].own
        window: Any = index(0)
        for variable, factor in own.terms.items():
            if not variable.same_as(self.inner.variable):
                window = plus(window, variable * index(factor))
        half = [tirx.floormod(window, index(2)), plus(self.inner.variable, tirx.floordiv(window, index(2)))]
        return tirx.BufferLoad(self.phases, [*load.indices[:-1], *half])

    def _chunk(self, contraction: Contraction, batch: Values, rows: Any) -> Any:
        """Tiles of whole rows, then the rows that are left one by one."""
        first, *middle = self.outer

        def lines(start: Any, count: int) -> Any:
            def line(values: Values) -> Any:
                here = [{**batch, **values, first.variable: plus(start, index(at))} for at in range(count)]
                return self._columns(contraction, here)

            return nested(middle, line)

        if isinstance(rows, int):
            whole, rest = divmod(rows, ROWS)
            made = [counted("tile", whole, lambda at: lines(at * index(ROWS), ROWS))] if whole else []
            return sequence(*made, lines(index(whole * ROWS), rest)) if rest else sequence(*made)
        whole = tirx.floordiv(rows, index(ROWS))
        single = counted("row", rows - whole * index(ROWS), lambda at: lines(whole * index(ROWS) + at, 1))
        return sequence(counted("tile", whole, lambda at: lines(at * index(ROWS), ROWS)), single)

    def _columns(self, contraction: Contraction, rows: list[Values]) -> Any:
        """All columns of some rows: tiles of whole vectors, then what is left."""
        width, wide = self.inner.extent, VECTORS * self.lanes
        whole, rest = divmod(width, wide)
        made = []
        if whole:
            made.append(counted(
                "strip", whole, lambda at: self._tile(contraction, rows, at * index(wide), VECTORS, wide)
            ))  # fmt: skip
        if rest:
            made.append(self._tile(contraction, rows, index(whole * wide), -(-rest // self.lanes), rest))
        return sequence(*made)

    def _tile(self, contraction: Contraction, rows: list[Values], start: Any, vectors: int, columns: int) -> Any:
        block = ReductionBlock(index(0), 1, contraction.reduced[0].extent, None, ())
        tiles = [
            _Row(contraction, self.lanes, TilePlace(row, index(0), 1, start, vectors, columns), block, self.finished)
            for row in rows
        ]
        steps = self._windows(lambda taps: sequence(*(tile.step(tap) for tap in taps for tile in tiles)))
        return fresh(sequence(*(tile.begin() for tile in tiles), steps, *(tile.end() for tile in tiles)))


class _Row(Tile):
    """One row of a tile, between whose steps those of others stand."""

    def begin(self) -> Any:
        return sequence(*(tirx.AllocBuffer(each) for each in self.sums), self._first())

    def step(self, tap: Values) -> Any:
        return self._step(tap)

    def end(self) -> Any:
        return self._last()


def _all(lanes: int) -> Any:
    return tirx.Ramp(index(0), index(1), lanes)
