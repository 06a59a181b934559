"""Fragments: tiles that a block keeps in registers, in the layout that tensor cores give their sums.

A tile that a product writes may stay in registers if every other statement takes it as it lies there. Each thread has
four elements of every 16 rows and 8 columns of its warp: of rows r and r + 8 two neighbours. What takes that layout:

- a statement over all rows and columns that accesses the tile at its own row and column: each thread its elements;
- a maximum, minimum or sum of each row: in the thread, then among the four threads that share a row. Warps then divide
  the rows alone.

Any other statement makes the tile lie in shared memory, where every thread reads every element. Numbers of each row may
be in registers, too (`row_vectors`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.lowering.schedule.cuda.common.instructions import COLUMNS, ROWS, exchange
from mlirtri.lowering.schedule.cuda.common.phases import WARP
from mlirtri.lowering.schedule.cuda.tensor_cores.operands import is_multiple, start_of
from mlirtri.lowering.schedule.cuda.tensor_cores.product_results import CHUNK, in_chunks
from mlirtri.lowering.schedule.cuda.tiles.fragment_uses import Nest, Reduction, elementwise, reduction_of
from mlirtri.lowering.schedule.cuda.tiles.row_vectors import stored_elsewhere
from mlirtri.lowering.tir.primfunc import buffer as declare
from mlirtri.lowering.tir.statements import depends_on, index, sequence
from mlirtri.lowering.tir.tiles import for_loop, replaced
from mlirtri.lowering.toolchain.tvm_names import (
    LOCATION,
    Buffer,
    Expr,
    Node,
    Stmt,
    TensorLoad,
    structural_map,
    tirx,
)

QUAD = 4
"""Threads that share a row."""


@dataclass(frozen=True)
class Layout:
    """How `down` times `across` warps divide a tile: each has `instructions_down` times 16 rows and
    `instructions_across` times 8 columns."""

    rows: int
    columns: int
    down: int
    across: int

    @property
    def instructions_down(self) -> int:
        return self.rows // self.down // ROWS

    @property
    def instructions_across(self) -> int:
        return self.columns // self.across // COLUMNS

    @property
    def elements(self) -> int:
        """Return the number of elements of a thread."""
        return 4 * self.instructions_down * self.instructions_across


@dataclass
class Fragments:
    """The tiles of a block that are in registers, by buffer: their layout and each thread's registers."""

    layouts: dict[Any, Layout] = field(default_factory=dict)
    registers: dict[Any, Any] = field(default_factory=dict)
    full_rows: bool = False
    """Whether warps divide rows alone."""
    vectors: dict[Any, Any] = field(default_factory=dict)
    """Numbers of each row, by buffer: each thread's registers, for the rows that it has."""

    def add_vector(self, vector: Buffer, layout: Layout) -> None:
        self.vectors[vector] = declare(vector.name, [2 * layout.instructions_down], str(vector.dtype), "local")

    def add(self, tile: Buffer, layout: Layout) -> None:
        self.layouts[tile] = layout
        self.registers[tile] = declare(tile.name, [layout.elements], str(tile.dtype), "local")

    def touched_by(self, node: Node) -> list[Buffer]:
        """Return the tiles that a statement accesses."""
        return [tile for tile in (*self.layouts, *self.vectors) if depends_on(node, [tile])]

    def mapped(self, statement: Stmt, thread: Expr) -> Stmt | None:
        """Return a statement that accesses tiles in registers, as one thread of the block runs it."""
        tiles = [tile for tile in self.touched_by(statement) if tile in self.layouts]
        if not tiles:
            return self._over_rows(statement, thread)
        nest = elementwise(statement, tiles)
        if nest is not None:
            return self._elements(nest, self.layouts[tiles[0]], thread, statement)
        reduction = reduction_of(statement, tiles[0])
        return None if reduction is None else self._rows(reduction, tiles[0], thread)

    def _in_chunks(self, nest: Nest, layout: Layout, thread: Any) -> Any:
        """Return a copy of a tile to memory that each thread stores 16 bytes of at once."""
        place = tirx.floormod(thread, index(QUAD))

        def values_at(down: Any, across: Any, below: Any, lane: Any) -> dict[Any, Any]:
            return nest.at(*_position(layout, thread, down, across, below, lane))[0]

        def element(down: Any, across: Any, below: Any, lane: Any) -> Any:
            number, row_number = _number(layout, down, across, below, lane), _row_number(down, below)
            value = self._in_registers(nest.body.value, number, row_number)
            return [], replaced(value, values_at(down, across, below, lane))

        def whole(down: Any, group: Any, below: Any, number: Any, value: Any) -> Any:
            values = values_at(down, group * index(QUAD) + place, below, number - place * index(2))
            return tirx.BufferStore(nest.body.buffer, value, [replaced(each, values) for each in nest.body.indices])

        counts = layout.instructions_down, layout.instructions_across
        return in_chunks(counts, str(nest.body.buffer.dtype), element, whole)

    def _has_chunks(self, nest: Nest, layout: Layout) -> bool:
        """Return whether a nest stores 16-bit floats to memory in rows whose chunks of 16 bytes are a thread's."""
        store = nest.body
        if not isinstance(store, tirx.BufferStore) or nest.bounds or nest.offsets != (None, None):
            return False
        width, start = store.buffer.shape[-1], start_of(store.indices[-1], nest.column)
        is_half = str(store.buffer.dtype) in ("float16", "bfloat16")
        is_even = isinstance(width, tirx.IntImm) and int(width) % CHUNK == 0 and layout.instructions_across % 4 == 0
        is_along = start is not None and is_multiple(start, CHUNK)
        is_row = not any(depends_on(each, [nest.column]) for each in store.indices[:-1])
        return is_half and is_even and is_along and is_row and store.buffer not in self.layouts

    def _elements(self, nest: Nest, layout: Layout, thread: Any, statement: Stmt) -> Any:
        def element(down: Any, across: Any, below: Any, lane: Any) -> Any:
            row, column = _position(layout, thread, down, across, below, lane)
            number = _number(layout, down, across, below, lane)
            values, checks = nest.at(row, column)
            body = replaced(self._in_registers(nest.body, number, _row_number(down, below)), values)
            return tirx.IfThenElse(tirx.all(*checks), body, None) if checks else body

        has_chunks = self._has_chunks(nest, layout)
        written = self._in_chunks(nest, layout, thread) if has_chunks else _over(layout, element)
        location = {name: line for name, line in statement.annotations.items() if name == LOCATION}
        if not isinstance(written, tirx.For) or not location:
            return written
        parts = (written.loop_var, written.min, written.extent, written.kind, written.body, None)
        return tirx.For(*parts, {**dict(written.annotations), **location})

    def _over_rows(self, loop: Any, thread: Any) -> Any:
        """Return a loop over numbers of rows alone, as one thread runs it for the rows that it has."""
        layout = next(iter(self.layouts.values()))

        def row(down: Any, below: Any) -> Any:
            position, _ = _position(layout, thread, down, index(0), below, index(0))
            body = replaced(
                self._in_registers(loop.body, index(0), _row_number(down, below)), {loop.loop_var: position}
            )
            return _once(body, thread) if stored_elsewhere(loop, self.vectors) else body

        return for_loop(
            "down", layout.instructions_down, lambda down: for_loop("below", 2, lambda n: row(down, n), _U), _U
        )

    def _in_registers(self, node: Node, number: Any, row_number: Any) -> Any:
        def load(each: Any) -> Any:
            if each.source in self.vectors:
                return tirx.BufferLoad(self.vectors[each.source], [row_number])
            registers = self.registers.get(each.source)
            return each if registers is None else tirx.BufferLoad(registers, [number])

        def store(each: Any) -> Any:
            if each.buffer in self.vectors:
                return tirx.BufferStore(self.vectors[each.buffer], each.value, [row_number])
            registers = self.registers.get(each.buffer)
            return each if registers is None else tirx.BufferStore(registers, each.value, [number])

        return structural_map(node, [(TensorLoad, load), (tirx.BufferStore, store)], order="post")

    def _rows(self, reduction: Reduction, tile: Any, thread: Any) -> Any:
        layout, dtype = self.layouts[tile], str(reduction.carried.dtype)
        part, other = declare("part", [1], dtype, "local"), declare("other", [1], dtype, "local")
        loaded = tirx.BufferLoad(part, [index(0)])

        def row(down: Any, below: Any) -> Any:
            position, _ = _position(layout, thread, down, index(0), below, index(0))

            def term(across: Any, lane: Any, is_first: bool) -> Any:
                number = _number(layout, down, across, below, lane)
                _, column = _position(layout, thread, down, across, below, lane)
                values = {reduction.row: position, reduction.column: column}
                term = self._in_registers(_inlined(reduction.term, reduction.names), number, _row_number(down, below))
                value = replaced(term, values)
                return tirx.BufferStore(part, value if is_first else reduction.combined(loaded, value), [index(0)])

            others = for_loop(
                "across", layout.instructions_across - 1, lambda n: _lanes(lambda m: term(n + index(1), m, False)), _U
            )
            carried = tirx.BufferLoad(reduction.carried, [index(0)])
            last = tirx.BufferStore(reduction.carried, reduction.combined(carried, loaded), [index(0)])
            result = sequence(*reduction.before, last, *reduction.after)
            is_elsewhere = stored_elsewhere(result, self.vectors)
            result = replaced(self._in_registers(result, index(0), _row_number(down, below)), {reduction.row: position})
            return sequence(
                term(index(0), index(0), True),
                term(index(0), index(1), False),
                *([others] if layout.instructions_across > 1 else []),
                *_over_quad(reduction, part, other),
                _once(result, thread) if is_elsewhere else result,
            )

        rows = for_loop(
            "down", layout.instructions_down, lambda down: for_loop("below", 2, lambda n: row(down, n), _U), _U
        )
        return sequence(tirx.AllocBuffer(part), tirx.AllocBuffer(other), rows)


def _over_quad(reduction: Reduction, part: Buffer, other: Buffer) -> list[Stmt]:
    """Return the statements that combine the parts of a row that four neighbouring threads have in registers."""
    loaded, exchanged = (tirx.BufferLoad(buffer, [index(0)]) for buffer in (part, other))
    return [
        statement
        for distance in (1, 2)
        for statement in (
            tirx.BufferStore(other, loaded, [index(0)]),
            exchange(other, distance),
            tirx.BufferStore(part, reduction.combined(loaded, exchanged), [index(0)]),
        )
    ]


_U = tirx.ForKind.UNROLLED


def _lanes(body: Callable[[Any], Any]) -> Any:
    return for_loop("lane", 2, body, _U)


def _over(layout: Layout, element: Callable[..., Any]) -> Any:
    """Return the loops over a thread's elements."""

    def pairs(down: Any, across: Any) -> Any:
        return for_loop("below", 2, lambda below: _lanes(lambda lane: element(down, across, below, lane)), _U)

    return for_loop(
        "down",
        layout.instructions_down,
        lambda i: for_loop("across", layout.instructions_across, lambda j: pairs(i, j), _U),
        _U,
    )


def _number(layout: Layout, down: Any, across: Any, below: Any, lane: Any) -> Any:
    """Return which of a thread's elements one is, as `TensorCoreKernel` counts its sums."""
    return (down * index(layout.instructions_across) + across) * index(4) + below * index(2) + lane


def _row_number(down: Any, below: Any) -> Any:
    """Return which of a thread's rows one is."""
    return down * index(2) + below


def _once(statement: Stmt, thread: Any) -> Any:
    """Return what one of the threads that share a row runs."""
    return tirx.IfThenElse(tirx.EQ(tirx.floormod(thread, index(QUAD)), index(0)), statement, None)


def _position(layout: Layout, thread: Any, down: Any, across: Any, below: Any, lane: Any) -> tuple[Any, Any]:
    """Return the row and the column of an element of a thread."""
    warp, place = tirx.floordiv(thread, index(WARP)), tirx.floormod(thread, index(WARP))
    width = index(layout.across)
    first_row = tirx.floordiv(warp, width) * index(layout.instructions_down * ROWS)
    first_column = tirx.floormod(warp, width) * index(layout.instructions_across * COLUMNS)
    row = first_row + down * index(ROWS) + below * index(8) + tirx.floordiv(place, index(QUAD))
    column = first_column + across * index(COLUMNS) + tirx.floormod(place, index(QUAD)) * index(2) + lane
    return row, column


def _inlined(term: Expr, names: Sequence[Any]) -> Any:
    for name in reversed(names):
        term = replaced(term, {name.var: name.value})
    return term
