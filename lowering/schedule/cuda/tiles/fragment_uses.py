"""Statements that take a product's result in registers, as `fragments.py` lays it out, and those that do not.

Recognises statements over all rows and columns of tiles that access each element at its own row and column, and
reductions of each row. Indices may have an offset that the loops do not change: ``t[first + i, j]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.lowering.schedule.imperative.accesses import is_scalar
from mlirtri.lowering.schedule.imperative.interchange import FINISHED
from mlirtri.lowering.tir.statements import depends_on, index, loads_in, nodes_in, sequence, with_body
from mlirtri.lowering.toolchain.tvm_names import (
    INDEPENDENT,
    Analyzer,
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


@dataclass(frozen=True)
class Nest:
    """Two parallel loops whose body accesses tiles at ``[row + offsets[0], column + offsets[1]]``."""

    row: Any
    column: Any
    offsets: tuple[Any, Any]
    """What is added to the variables; None for nothing."""
    body: Any
    bounds: tuple[tuple[Any, Any], ...]
    """Variables that have to be below an extent."""

    def at(self, row: Expr, column: Expr) -> tuple[dict[Expr, Expr], list[Expr]]:
        """Return the values of the variables at an element of the tiles, and what holds if the loops reach it."""
        pairs = zip((self.row, self.column), self.offsets, (row, column), strict=True)
        values = {name: position if offset is None else position - offset for name, offset, position in pairs}
        moved = [name for name, offset in zip(values, self.offsets, strict=True) if offset is not None]
        checks = [tirx.GE(values[name], index(0)) for name in moved]
        return values, [*checks, *(tirx.LT(values[name], extent) for name, extent in self.bounds)]


def elementwise(statement: Stmt, tiles: Sequence[Buffer]) -> Nest | None:
    """Return a nest of two parallel loops in which the tiles are accessed at their own row and column; else None."""
    loops, body = [], statement
    while len(loops) < 2 and isinstance(body, tirx.For) and INDEPENDENT in body.annotations:
        loops.append(body)
        body = with_names_inside(body.body) if len(loops) == 1 else body.body
    accesses = _accesses_of(body, tiles)
    if len(loops) < 2 or not accesses or depends_on(loops[1].extent, [loops[0].loop_var]):
        return None
    if any(loop.step is not None or not _is(loop.min, 0) for loop in loops):
        return None
    shapes = {tuple(map(int, tile.shape)) for tile in tiles}
    forms = [[_moved(position, loops) for position in access] for access in accesses]
    if len(shapes) > 1 or len(forms[0]) != 2 or None in forms[0] or not all(_agree(form, forms[0]) for form in forms):
        return None
    (row, down), (column, across) = forms[0]
    inside = [node.var for node in nodes_in(body, tirx.Bind)]
    inside += [node.buffer for node in nodes_in(body, tirx.AllocBuffer)]
    if row.same_as(column) or any(depends_on(each, inside) for each in (down, across) if each is not None):
        return None
    sizes = dict(zip((row, column), shapes.pop(), strict=True))
    whole = {name for name, offset in forms[0] if offset is None}
    bounds = [
        (loop.loop_var, loop.extent)
        for loop in loops
        if loop.loop_var not in whole or not _is(loop.extent, sizes[loop.loop_var])
    ]
    return Nest(row, column, (down, across), body, tuple(bounds))


def _moved(position: Expr, loops: Sequence[Any]) -> Any:
    """Return the variable of a loop and what an index adds to it, None for nothing; None for any other index."""
    names = [loop.loop_var for loop in loops if depends_on(position, [loop.loop_var])]
    if len(names) != 1:
        return None
    if position.same_as(names[0]):
        return names[0], None
    offset = Analyzer().simplify(position - names[0])
    return None if depends_on(offset, names) or loads_in(offset) else (names[0], offset)


def _agree(form: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two accesses are at the same row and column."""
    return len(form) == len(other) and all(
        one is not None
        and one[0].same_as(two[0])
        and (one[1] is two[1] or (None not in (one[1], two[1]) and structural_equal(one[1], two[1])))
        for one, two in zip(form, other, strict=True)
    )


def with_names_inside(body: Stmt, annotation: str = INDEPENDENT) -> Stmt:
    """Return a parallel loop with the numbers inside that are computed before it, so that all its elements are divided.

    ``x = f(i); for j: t[i, j] = g(x, j)`` becomes ``for j: x = f(i); t[i, j] = g(x, j)``; other statements stay, such
    as numbers that are read from what the loop writes. `annotation` is what marks the loop as parallel.
    """
    if not isinstance(body, tirx.SeqStmt):
        return body
    *before, loop = body.seq
    if not isinstance(loop, tirx.For) or annotation not in loop.annotations:
        return body
    if not all(isinstance(each, tirx.Bind | tirx.AllocBuffer | tirx.BufferStore) for each in before):
        return body
    named = [each.var if isinstance(each, tirx.Bind) else each.buffer for each in before]
    allocated = {each.buffer for each in before if isinstance(each, tirx.AllocBuffer)}
    stored = {each.buffer for each in before if isinstance(each, tirx.BufferStore)}
    written = {store.buffer for store in nodes_in(loop, tirx.BufferStore)}
    if {load.source for each in before for load in loads_in(each)} & written:
        return body
    stored |= {buffer for buffer in written if is_scalar(buffer)}
    if not stored <= allocated | {node.buffer for node in nodes_in(loop, tirx.AllocBuffer)}:
        return body
    if depends_on(loop.extent, named) or depends_on(loop.min, named):
        return body
    return with_body(loop, sequence(*before, loop.body))


def _accesses_of(body: Stmt, tiles: Sequence[Any]) -> list[list[Any]]:
    kept = set(tiles)
    loads = [list(load.indices) for load in loads_in(body) if load.source in kept]
    return loads + [list(store.indices) for store in nodes_in(body, tirx.BufferStore) if store.buffer in kept]


def _is(expression: Expr, number: int) -> bool:
    return isinstance(expression, tirx.IntImm) and int(expression) == number


def reduction_of(statement: Stmt, tile: Buffer) -> Reduction | None:
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
        if not tiles or elementwise(node, tiles) is not None:
            return
        if len(tiles) == 1 and reduction_of(node, tiles[0]) is not None:
            self.reduced.add(tiles[0])
        else:
            self._reject(tiles, node)

    def _reject(self, tiles: Sequence[Any], node: Node) -> None:
        for tile in tiles:
            self.rejected.setdefault(tile, node)
