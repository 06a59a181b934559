"""Fragments: tiles that a block keeps in registers, in the layout that tensor cores give their sums.

A tile that a product writes may stay in registers if every other statement takes it as it lies there. Each thread has
four elements of every 16 rows and 8 columns of its warp: of rows r and r + 8 two neighbours. What takes that layout:

- a statement over all rows and columns that accesses the tile at its own row and column: each thread its elements;
- a maximum, minimum or sum of each row: in the thread, then among the four threads that share a row. Warps then divide
  the rows alone.

Any other statement makes the tile lie in shared memory, where every thread reads every element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.lowering.schedule.cuda.instructions import COLUMNS, ROWS, exchange
from mlirtri.lowering.schedule.cuda.phases import WARP
from mlirtri.lowering.schedule.imperative.accesses import is_scalar
from mlirtri.lowering.schedule.imperative.interchange import FINISHED
from mlirtri.lowering.tir.primfunc import buffer as declare
from mlirtri.lowering.tir.statements import depends_on, index, loads_in, nodes_in, sequence
from mlirtri.lowering.tir.tiles import for_loop, replaced
from mlirtri.lowering.toolchain.tvm_names import (
    INDEPENDENT,
    LOCATION,
    Buffer,
    Expr,
    Node,
    Stmt,
    TensorLoad,
    ir,
    structural_equal,
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


@dataclass(frozen=True)
class Reduction:
    """The reduction of a tile's rows: ``for i: start; for j: carried = combine(carried, term); end``."""

    row: Any
    column: Any
    before: tuple[Any, ...]
    carried: Any
    """The scalar buffer of the running value."""
    term: Any
    value: Any
    """What is stored to `carried` for each element, in terms of `carried` and `term`."""
    names: tuple[Any, ...]
    """Values that `term` names, for each element."""
    after: tuple[Any, ...]

    def combined(self, one: Expr, other: Expr) -> Expr:
        """Return the combination of two values."""

        def load(node: Node) -> Any:
            return one if node.source.same_as(self.carried) else node

        marked = _with(self.value, self.term, other)
        return structural_map(marked, (TensorLoad, load), order="post")


@dataclass
class Fragments:
    """The tiles of a block that are in registers, by buffer: their layout and each thread's registers."""

    layouts: dict[Any, Layout] = field(default_factory=dict)
    registers: dict[Any, Any] = field(default_factory=dict)
    full_rows: bool = False
    """Whether warps divide rows alone."""

    def add(self, tile: Buffer, layout: Layout) -> None:
        self.layouts[tile] = layout
        self.registers[tile] = declare(tile.name, [layout.elements], str(tile.dtype), "local")

    def touched_by(self, node: Node) -> list[Buffer]:
        """Return the tiles that a statement accesses."""
        return [tile for tile in self.layouts if depends_on(node, [tile])]

    def mapped(self, statement: Stmt, thread: Expr) -> Stmt | None:
        """Return a statement that accesses tiles in registers, as one thread of the block runs it."""
        tiles = self.touched_by(statement)
        nest = _elementwise(statement, tiles)
        if nest is not None:
            return self._elements(nest, self.layouts[tiles[0]], thread, statement)
        reduction = _reduction(statement, tiles[0])
        return None if reduction is None else self._rows(reduction, tiles[0], thread)

    def _elements(self, nest: _Nest, layout: Layout, thread: Any, statement: Stmt) -> Any:
        def element(down: Any, across: Any, below: Any, lane: Any) -> Any:
            row, column = _position(layout, thread, down, across, below, lane)
            number = _number(layout, down, across, below, lane)
            values = {nest.row: row, nest.column: column}
            body = replaced(self._in_registers(nest.body, number), values)
            checks = [tirx.LT(values[each], extent) for each, extent in nest.bounds]
            return tirx.IfThenElse(tirx.all(*checks), body, None) if checks else body

        written = _over(layout, element)
        location = {name: line for name, line in statement.annotations.items() if name == LOCATION}
        if not isinstance(written, tirx.For) or not location:
            return written
        parts = (written.loop_var, written.min, written.extent, written.kind, written.body, None)
        return tirx.For(*parts, {**dict(written.annotations), **location})

    def _in_registers(self, node: Node, number: Any) -> Any:
        def load(each: Any) -> Any:
            registers = self.registers.get(each.source)
            return each if registers is None else tirx.BufferLoad(registers, [number])

        def store(each: Any) -> Any:
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
                value = replaced(self._in_registers(_inlined(reduction.term, reduction.names), number), values)
                return tirx.BufferStore(part, value if is_first else reduction.combined(loaded, value), [index(0)])

            others = for_loop(
                "across", layout.instructions_across - 1, lambda n: _lanes(lambda m: term(n + index(1), m, False)), _U
            )
            combined = [
                statement
                for distance in (1, 2)
                for statement in (
                    tirx.BufferStore(other, loaded, [index(0)]),
                    exchange(other, distance),
                    tirx.BufferStore(
                        part, reduction.combined(loaded, tirx.BufferLoad(other, [index(0)])), [index(0)]
                    ),
                )
            ]  # fmt: skip
            carried = tirx.BufferLoad(reduction.carried, [index(0)])
            last = tirx.BufferStore(reduction.carried, reduction.combined(carried, loaded), [index(0)])
            once = replaced(sequence(*reduction.before, last, *reduction.after), {reduction.row: position})
            return sequence(
                term(index(0), index(0), True),
                term(index(0), index(1), False),
                *([others] if layout.instructions_across > 1 else []),
                *combined,
                tirx.IfThenElse(tirx.EQ(tirx.floormod(thread, index(QUAD)), index(0)), once, None),
            )

        rows = for_loop(
            "down", layout.instructions_down, lambda down: for_loop("below", 2, lambda n: row(down, n), _U), _U
        )
        return sequence(tirx.AllocBuffer(part), tirx.AllocBuffer(other), rows)


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


def _position(layout: Layout, thread: Any, down: Any, across: Any, below: Any, lane: Any) -> tuple[Any, Any]:
    """Return the row and the column of an element of a thread."""
    warp, place = tirx.floordiv(thread, index(WARP)), tirx.floormod(thread, index(WARP))
    width = index(layout.across)
    first_row = tirx.floordiv(warp, width) * index(layout.instructions_down * ROWS)
    first_column = tirx.floormod(warp, width) * index(layout.instructions_across * COLUMNS)
    row = first_row + down * index(ROWS) + below * index(8) + tirx.floordiv(place, index(QUAD))
    column = first_column + across * index(COLUMNS) + tirx.floormod(place, index(QUAD)) * index(2) + lane
    return row, column


@dataclass(frozen=True)
class _Nest:
    row: Any
    column: Any
    body: Any
    bounds: tuple[tuple[Any, Any], ...]
    """Variables that have to be below an extent."""


def _elementwise(statement: Stmt, tiles: Sequence[Any]) -> _Nest | None:
    """Return a nest of two parallel loops in which the tiles are accessed at their own row and column; else None."""
    loops, body = [], statement
    while len(loops) < 2 and isinstance(body, tirx.For) and INDEPENDENT in body.annotations:
        loops.append(body)
        body = body.body
    variables = {loop.loop_var for loop in loops}
    accesses = _accesses_of(body, tiles)
    if len(loops) < 2 or not accesses or depends_on(loops[1].extent, [loops[0].loop_var]):
        return None
    row, column = accesses[0] if len(accesses[0]) == 2 else (None, None)
    if row not in variables or column not in variables or row.same_as(column):
        return None
    if not all(len(each) == 2 and each[0].same_as(row) and each[1].same_as(column) for each in accesses):
        return None
    shapes = {tuple(map(int, tile.shape)) for tile in tiles}
    if len(shapes) > 1 or any(loop.step is not None or not _is(loop.min, 0) for loop in loops):
        return None
    sizes = dict(zip((row, column), shapes.pop(), strict=True))
    bounds = [(loop.loop_var, loop.extent) for loop in loops if not _is(loop.extent, sizes[loop.loop_var])]
    return _Nest(row, column, body, tuple(bounds))


def _accesses_of(body: Stmt, tiles: Sequence[Any]) -> list[list[Any]]:
    kept = set(tiles)
    loads = [list(load.indices) for load in loads_in(body) if load.source in kept]
    return loads + [list(store.indices) for store in nodes_in(body, tirx.BufferStore) if store.buffer in kept]


def _is(expression: Expr, number: int) -> bool:
    return isinstance(expression, tirx.IntImm) and int(expression) == number


def _reduction(statement: Stmt, tile: Any) -> Reduction | None:
    """Return the reduction of each row of a tile that a parallel loop is; None for any other statement."""
    size = [int(extent) for extent in tile.shape]
    is_rows = (
        isinstance(statement, tirx.For) and INDEPENDENT in statement.annotations and _is(statement.extent, size[0])
    )
    if not is_rows or not isinstance(statement.body, tirx.SeqStmt) or not _is(statement.min, 0):
        return None
    parts = list(statement.body.seq)
    places = [place for place, part in enumerate(parts) if isinstance(part, tirx.For)]
    if len(places) != 1:
        return None
    before, loop, after = parts[: places[0]], parts[places[0]], parts[places[0] + 1 :]
    inner = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
    *names, store = inner
    is_whole = _is(loop.extent, size[1]) and _is(loop.min, 0) and all(isinstance(name, tirx.Bind) for name in names)
    if not is_whole or not isinstance(store, tirx.BufferStore) or not is_scalar(store.buffer):
        return None
    allocated = [part.buffer for part in before if isinstance(part, tirx.AllocBuffer)]
    if not any(store.buffer.same_as(each) for each in allocated) or depends_on(sequence(*before, *after), [tile]):
        return None
    term = term_of(store.value, store.buffer)
    if term is None or any(load.source.same_as(store.buffer) for name in names for load in loads_in(name.value)):
        return None
    found = [list(load.indices) for load in loads_in(sequence(loop.body)) if load.source.same_as(tile)]
    variables = (statement.loop_var, loop.loop_var)
    if any(not all(map(_same, indices, variables)) for indices in found):
        return None
    return Reduction(*variables, tuple(before), store.buffer, term, store.value, tuple(names), tuple(after))


def _same(one: Any, other: Any) -> bool:
    return bool(one.same_as(other))


def term_of(value: Expr, carried: Buffer) -> Expr | None:
    """Return what a sum adds to `carried`, or what a maximum or minimum compares it with; None for other values."""

    def is_carried(node: Node) -> bool:
        return isinstance(node, TensorLoad) and node.source.same_as(carried)

    if isinstance(value, tirx.Add | tirx.Max | tirx.Min):
        sides = [side for side in (value.a, value.b) if not is_carried(side)]
        return sides[0] if len(sides) == 1 and not depends_on(sides[0], [carried]) else None
    choice = _choice(value)
    if choice is None:
        return None
    condition, *values = choice
    terms = [side for side in values if not is_carried(side)]
    if len(terms) != 1 or depends_on(terms[0], [carried]):
        return None

    def is_order(test: Any) -> bool:
        if isinstance(test, tirx.Or):
            return is_order(test.a) and is_order(test.b)
        if isinstance(test, ir.Call) and str(getattr(test.op, "name", "")).endswith("isnan"):
            return True
        if isinstance(test, tirx.NE):
            return structural_equal(test.a, test.b)
        is_comparison = isinstance(test, tirx.LT | tirx.LE | tirx.GT | tirx.GE)
        sides = [side for side in (test.a, test.b) if not is_carried(side)] if is_comparison else []
        return len(sides) == 1 and structural_equal(sides[0], terms[0])

    return terms[0] if is_order(condition) else None


def _choice(value: Expr) -> tuple[Any, Any, Any] | None:
    if isinstance(value, tirx.Select):
        return value.condition, value.true_value, value.false_value
    if isinstance(value, ir.Call) and str(getattr(value.op, "name", "")).endswith("if_then_else"):
        return tuple(value.args)
    return None


def _with(value: Expr, term: Expr, other: Any) -> Any:
    """Return an expression with `other` in place of a part of it."""
    return structural_map(value, (type(term), lambda node: other if structural_equal(node, term) else node))


def _inlined(term: Expr, names: Sequence[Any]) -> Any:
    for name in reversed(names):
        term = replaced(term, {name.var: name.value})
    return term


@dataclass
class Uses:
    """How the statements of a block use the results of its products; its fields are filled by `visit`."""

    results: Sequence[Any]
    rejected: dict[Any, Any] = field(default_factory=dict)
    """Tiles that a statement cannot take in registers, with the first such statement."""
    reduced: set[Any] = field(default_factory=set)
    """Tiles whose rows are reduced."""

    def visit(self, node: Node) -> None:
        """Note the uses in a statement of the block, prepared, whose products are finished."""
        if isinstance(node, tirx.AttrStmt):
            if node.attr_key != FINISHED:
                self.visit(node.body)
        elif isinstance(node, tirx.SeqStmt):
            for child in node.seq:
                self.visit(child)
        elif isinstance(node, tirx.IfThenElse):
            self._around(node, node.condition, [node.then_case, node.else_case])
        elif isinstance(node, tirx.While):
            self._around(node, node.condition, [node.body])
        elif isinstance(node, tirx.For) and INDEPENDENT not in node.annotations:
            self._around(node, node.extent, [node.body])
        elif not isinstance(node, tirx.AllocBuffer):
            self._leaf(node)

    def _around(self, node: Node, value: Expr, parts: Sequence[Any]) -> None:
        self._reject([tile for tile in self.results if depends_on(value, [tile])], node)
        for part in parts:
            if part is not None:
                self.visit(part)

    def _leaf(self, node: Node) -> None:
        tiles = [tile for tile in self.results if depends_on(node, [tile])]
        if not tiles or _elementwise(node, tiles) is not None:
            return
        if len(tiles) == 1 and _reduction(node, tiles[0]) is not None:
            self.reduced.add(tiles[0])
        else:
            self._reject(tiles, node)

    def _reject(self, tiles: Sequence[Any], node: Node) -> None:
        for tile in tiles:
            self.rejected.setdefault(tile, node)
