"""One tile of a contraction: its sums in registers, the reduction, and the stores with elementwise consumers.

    sums = 0                                           rows × vectors
    for k:  right[v] = …;  sums[row][v] += left[row] * right[v]
    stores of sums[row][v]                             as vectors; the last one ends with the last column

Where the reduction is cut into blocks, sums are kept between them, and the stores follow the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.tir.bfloat16_storage import BITS, HALF
from mlirtri.lowering.tir.contraction import Contraction, Values, Way, size_of
from mlirtri.lowering.tir.statements import index, new_buffer, sequence
from mlirtri.lowering.tir.tiles import (
    axis_values,
    for_loop,
    groups_of,
    in_lanes,
    loop_nest,
    ramp,
    replaced,
    sized,
    zero_of,
)
from mlirtri.lowering.tir.vectors import fetch, vectorizable
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Node,
    Stmt,
    TensorLoad,
    ir,
    structural_map,
    structural_walk,
    tirx,
)

UNROLLED_STORES = 3
"""With more stores, or a call, they are a loop over the rows of a tile, not unrolled."""
ROWS_AHEAD = 8
"""Rows of a right operand in place between those that a tile fetches and those that it loads."""
FETCHED_ROW_BYTES = 1024
"""Bytes of such a row from which a tile fetches: at smaller strides a CPU does so by itself (docs/performance.md)."""
LEAST_ROWS_OF_FETCHES = 4
"""Rows of a tile from which a fetch of each vector costs little beside its multiply-adds."""


@dataclass(frozen=True)
class TilePosition:
    """The position of a tile: values of the batch axes, first row and column; and its size."""

    batch: Values
    row: Any
    rows: int
    column: Any
    vectors: int
    columns: Any
    """Columns of the tile, an expression where they are dynamic; the last vector may have more lanes."""
    last: Any = None
    """The last row of the contraction, where the tile may extend past it; rows after it read its elements."""


@dataclass(frozen=True)
class ReductionBlock:
    """A block of the outermost reduction axis, and the buffer that keeps sums between blocks."""

    number: Any
    count: Any
    depth: Any
    """Iterations of the axis in one block; the last may have fewer."""
    buffer: Any
    """A buffer, None where there is one block only."""
    indices: tuple[Any, ...]
    """The first indices of the tile's sums in `buffer`."""


class Tile:
    """Writes the statements of one tile."""

    def __init__(
        self,
        contraction: Contraction,
        lanes: int,
        position: TilePosition,
        block: ReductionBlock,
        finished: Buffer | None = None,
    ):  # fmt: skip
        self.contraction, self.lanes, self.position, self.block = contraction, lanes, position, block
        self.finished = finished
        """A buffer for the sums that long stores read; None to allocate one in the tile."""
        self.sums = [
            new_buffer(f"sums{v}", contraction.dtype, position.rows, lanes) for v in range(position.vectors)
        ]  # fmt: skip
        """Per vector of columns, one vector for each row: registers, once the loops over rows are unrolled."""

    @classmethod
    def around(cls, _contraction: Contraction, _tallest: int, task: Stmt) -> Stmt:
        """Return a task of tiles with what its tiles share before and after it."""
        return task

    def body(self) -> Stmt:
        statements = [tirx.AllocBuffer(buffer) for buffer in self.sums]
        statements += [self._initial_sums(), self._reduction(), self._final_statements()]
        return sequence(*statements)

    def _rows(self, number: Any) -> Values:
        row, last = self.position.row + number, self.position.last
        return axis_values(self.contraction.rows, row if last is None else tirx.min(row, last))

    def _written_rows(self, make: Callable[[Any], Any], kind: Any = None) -> Any:
        """Return ``make(row)`` for each row of the tile that the contraction has."""
        last = self.position.last
        if last is None:
            return for_loop("row", self.position.rows, make, kind)
        if kind is None:
            return for_loop("row", tirx.min(index(self.position.rows), last + index(1) - self.position.row), make)

        def guarded(row: Any) -> Any:
            return tirx.IfThenElse(tirx.LE(self.position.row + row, last), make(row), None)

        return for_loop("row", self.position.rows, guarded, kind)

    def _count(self, vector: int) -> int:
        return min(self.lanes, self.position.columns - vector * self.lanes)

    def _for_vectors(self, make: Callable[[Any, int, Any], Any]) -> Any:
        """Return ``make(row, number of the vector in the row, buffer)`` for each vector of sums, unrolled."""

        def of_row(row: Any) -> Any:
            return sequence(*(make(row, v, sums) for v, sums in enumerate(self.sums)))

        return for_loop("row", self.position.rows, of_row, tirx.ForKind.UNROLLED)

    def _register_indices(self, row: Any) -> list[Any]:
        return [row, ramp(index(0), self.lanes)]

    def _initial_sums(self) -> Any:
        """Return the initial sums: the start values, or those kept by the previous block."""
        zeros = self._for_vectors(
            lambda row, v, sums: tirx.BufferStore(sums, self._start(v), self._register_indices(row))
        )
        if self.block.buffer is None:
            return zeros
        loads = self._for_vectors(
            lambda row, v, sums: tirx.BufferStore(
                sums, tirx.BufferLoad(self.block.buffer, self._buffer_indices(row, v)), self._register_indices(row)
            )
        )
        return tirx.IfThenElse(tirx.EQ(self.block.number, index(0)), zeros, loads)

    def _start(self, v: int) -> Any:
        if self.contraction.column_terms is None:
            return tirx.Broadcast(zero_of(self.contraction.dtype), self.lanes)
        terms, _ = self.contraction.column_terms
        first = self.position.column + index(v * self.lanes)
        values = {**self.position.batch, **axis_values(self.contraction.columns, first)}
        load = replaced(terms, values)
        return tirx.BufferLoad(load.source, [*load.indices[:-1], ramp(index(0), self.lanes)])

    def _buffer_indices(self, row: Any, v: int) -> list[Any]:
        return [*self.block.indices, row, ramp(index(v * self.lanes), self.lanes)]

    def _reduction(self) -> Any:
        first, *inner = self.contraction.reduced
        bounds = self.contraction.reduced_range

        def loop(start: Any, extent: Any) -> Any:
            def body(offset: Expr) -> Any:
                return loop_nest(inner, self._step, {first.variable: start + offset})

            return for_loop(first.variable.name, extent, body)

        if isinstance(self.block.count, int) and self.block.count == 1:
            if bounds is None:
                return loop_nest(self.contraction.reduced, self._step)
            return loop(bounds[0], bounds[1] - bounds[0])
        depth = self.block.depth
        start = self.block.number * sized(depth)
        extent: Any = sized(depth)
        if not isinstance(depth, int) or first.extent % depth:
            extent = tirx.min(extent, sized(first.extent) - start)
        if bounds is not None:
            end = tirx.min(start + extent, bounds[1])
            start = tirx.max(start, bounds[0])
            extent = tirx.max(end - start, index(0))
        return loop(start, extent)

    def _step(self, reduced: Values) -> Any:
        values = {**self.position.batch, **reduced}
        vectors = [
            new_buffer(f"right{v}", str(self.contraction.right.ty.dtype), self.lanes)
            for v in range(self.position.vectors)
        ]
        statements: list[Stmt] = self._fetches(values)
        for v, vector in enumerate(vectors):
            statements += [tirx.AllocBuffer(vector), *self._right(values, v, vector)]

        in_vector = [ramp(index(0), self.lanes)]
        left = new_buffer("left", str(self.contraction.left.ty.dtype), self.lanes)

        def add(row: Any, v: int, sums: Any) -> Any:
            added = self.contraction.add(
                tirx.BufferLoad(sums, self._register_indices(row)),
                tirx.BufferLoad(left, in_vector),
                tirx.BufferLoad(vectors[v], in_vector),
            )
            return tirx.BufferStore(sums, added, self._register_indices(row))

        def of_row(row: Any) -> Any:
            # Once for all vectors: TVM simplifies the indices of each load.
            element = replaced(self.contraction.left, {**values, **self._rows(row)})
            broadcast = tirx.BufferStore(left, tirx.Broadcast(element, self.lanes), in_vector)
            return sequence(broadcast, *(add(row, v, sums) for v, sums in enumerate(self.sums)))

        rows = for_loop("row", self.position.rows, of_row, tirx.ForKind.UNROLLED)
        return sequence(*statements, tirx.AllocBuffer(left), rows)

    def _fetches(self, values: Values) -> list[Stmt]:
        """Return prefetches of a later row of the right operand, where it is in place and its rows are far apart."""
        contraction, (reduced, *others) = self.contraction, self.contraction.reduced
        right, width = contraction.right, size_of(contraction.columns)
        is_in_place = contraction.way is Way.TILES and not contraction.packs_right and isinstance(right, TensorLoad)
        if not is_in_place or others or self.position.rows < LEAST_ROWS_OF_FETCHES or not isinstance(width, int):
            return []
        if width * int(right.ty.dtype.bits) < 8 * FETCHED_ROW_BYTES:
            return []
        row = tirx.min(values[reduced.variable] + index(ROWS_AHEAD), sized(reduced.extent) - index(1))
        firsts = [self.position.column + index(v * self.lanes) for v in range(self.position.vectors)]
        columns = [axis_values(contraction.columns, first) for first in firsts]
        return [fetch(replaced(right, {**values, reduced.variable: row, **each})) for each in columns]

    def _right(self, values: Values, v: int, vector: Any) -> list[Any]:
        count = self.lanes if self.contraction.packs_right else self._count(v)
        zero = tirx.Broadcast(zero_of(str(vector.dtype)), self.lanes)
        statements = [] if count == self.lanes else [tirx.BufferStore(vector, zero, [ramp(index(0), self.lanes)])]

        def element(lane: Any) -> Any:
            columns = axis_values(self.contraction.columns, self.position.column + index(v * self.lanes) + lane)
            return tirx.BufferStore(vector, replaced(self.contraction.right, {**values, **columns}), [lane])

        return [*statements, in_lanes(count, element)]

    def _final_statements(self) -> Any:
        """Return the stores after the last block; after other blocks the sums are kept."""
        stores = self._stores()
        if self.block.buffer is None:
            return stores
        copies = self._for_vectors(
            lambda row, v, sums: tirx.BufferStore(
                self.block.buffer, tirx.BufferLoad(sums, self._register_indices(row)), self._buffer_indices(row, v)
            )
        )
        return tirx.IfThenElse(tirx.EQ(self.block.number, sized(self.block.count - 1)), stores, copies)

    def _stores(self) -> Any:
        """Return the stores after the reduction: unrolled over rows, or in a loop over the tile where they are long."""
        if isinstance(self.position.columns, int) and not has_long_stores(self.contraction):

            def vectors(row: Any) -> Any:
                stores = [
                    self.store(row, index(v * self.lanes), self._count(v), sums, index(0))
                    for v, sums in enumerate(self.sums)
                ]
                return sequence(*stores)

            return self._written_rows(vectors, tirx.ForKind.UNROLLED)
        # In a buffer, since registers cannot be indexed by a loop.
        finished = self.finished if self.finished is not None else self._new_buffer()
        copies = self._for_vectors(
            lambda row, v, sums: tirx.BufferStore(
                finished,
                tirx.BufferLoad(sums, self._register_indices(row)),
                [row, ramp(index(v * self.lanes), self.lanes)],
            )
        )

        def of_row(row: Any) -> Any:
            return groups_of(
                self.position.columns, self.lanes, lambda first, count: self.store(row, first, count, finished, first)
            )

        allocations = [] if self.finished is not None else [tirx.AllocBuffer(finished)]
        return sequence(*allocations, copies, self._written_rows(of_row))

    def _new_buffer(self) -> Any:
        return new_buffer("finished", self.contraction.dtype, self.position.rows, self.position.vectors * self.lanes)

    def store(self, row: Expr, first: Expr, count: int, sums: Expr, start: Expr) -> Stmt:
        """Return all stores for `count` columns of the tile from `first` on; their sums are at `start` in `sums`."""
        contraction = self.contraction
        private = {buffer: _private_buffer(buffer, count) for buffer in contraction.private}
        rows = self._rows(row)

        def at_lane(store: Stmt, lane: Any) -> Any:
            columns = axis_values(contraction.columns, self.position.column + first + lane)

            def load(node: Node) -> Any:
                if node.source.same_as(contraction.result):
                    accumulated = tirx.BufferLoad(sums, [row, start + lane])
                    return accumulated if accumulated.ty == node.ty else tirx.Cast(str(node.ty.dtype), accumulated)
                if node.source not in private:
                    return node
                value = tirx.BufferLoad(private[node.source], [lane])
                return tirx.reinterpret(HALF, value) if str(node.ty.dtype) == HALF else value

            value = vectorizable(structural_map(store.value, (TensorLoad, load), order="post"))
            if store.buffer in private:
                value = tirx.reinterpret(BITS, value) if str(store.buffer.dtype) == HALF else value
                store = tirx.BufferStore(private[store.buffer], value, [lane])
            else:
                store = tirx.BufferStore(store.buffer, value, store.indices)
            return replaced(store, {**self.position.batch, **rows, **columns})

        statements = [tirx.AllocBuffer(buffer) for buffer in private.values()]
        statements += [in_lanes(count, lambda lane, store=store: at_lane(store, lane)) for store in contraction.stores]
        return sequence(*statements)


def _private_buffer(buffer: Buffer, count: int) -> Any:
    """Return a private buffer for `count` elements; bf16 is held as bits, since TVM loses buffers of that dtype."""
    dtype = str(buffer.dtype)
    return new_buffer(buffer.name, BITS if dtype == HALF else dtype, count)


def has_long_stores(contraction: Contraction) -> bool:
    """Return whether the stores are too long to unroll over the rows of a tile."""
    return len(contraction.stores) > UNROLLED_STORES or any(map(_has_call, contraction.stores))


def _has_call(store: Stmt) -> bool:
    calls: list[Any] = []
    structural_walk(store.value, (ir.Call, calls.append))
    return bool(calls)
