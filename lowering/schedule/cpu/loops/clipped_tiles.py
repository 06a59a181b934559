"""Tile kernels whose blocks do not divide an array: the last blocks apart, so that all others have constant sizes.

    for by: for bx:                                          for by but the last: for bx but the last:
        for k:                                                   for k but the last: t = a[…]; products
            t = 0; t[:min(64, n - …)] = a[…]        ──►          the last k: t = 0; t[:8] = a[…]; products
            products                                         by, and the last bx: …  the last by, and bx: …

A copy of a whole tile needs no zeros before it, so that the products of all but the last steps become one with a longer
sum. Blocks are only divided where they are proven independent, since their order changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.core.stage import STAGES
from mlirtri.lowering.schedule.imperative.allocations import with_allocations_inside
from mlirtri.lowering.schedule.imperative.interchange import prepare, with_parts
from mlirtri.lowering.schedule.imperative.perfect_nests import nest_of
from mlirtri.lowering.tir.statements import (
    depends_on,
    fresh,
    index,
    loads_in,
    nodes_in,
    sequence,
    split_grid,
    substituted,
    with_body,
)
from mlirtri.lowering.toolchain.tvm_names import INDEPENDENT, Analyzer, Range, Stmt, Var, structural_map, tirx

MOST_COPIES = 4
"""Copies of the body of a block: two axes of the grid with an edge."""


def with_whole_tiles(statement: Stmt) -> Stmt:
    """Return a statement with the clipped blocks and steps of its tile kernels apart from the others."""
    if isinstance(statement, tirx.For):
        grid, body = split_grid(statement)
        return _blocks(grid, body) if grid else with_body(statement, with_whole_tiles(statement.body))
    if isinstance(statement, tirx.SeqStmt):
        return sequence(*(with_whole_tiles(child) for child in with_allocations_inside(list(statement.seq))))
    return with_parts(statement, with_whole_tiles)


def _blocks(grid: Sequence[Any], body: Stmt) -> Any:
    """Return the nests over the blocks of a grid: one of whole blocks, and those of the edges."""
    nests = [(list(grid), body)]
    for axis in range(len(grid)):
        divided = [_divided(loops, axis, inner) for loops, inner in nests]
        if 2 * len(nests) > MOST_COPIES or not all(divided):
            continue
        nests = [nest for pair in divided if pair is not None for nest in pair]
    if len(nests) > 1 and not _are_independent(grid, body):
        nests = [(list(grid), body)]
    written = []
    for number, (loops, inner) in enumerate(nests):
        nest = _steps(inner)
        for loop in reversed(loops):
            nest = with_body(loop, nest)
        written.append(fresh(nest) if number else nest)
    return sequence(*written)


def _are_independent(grid: Sequence[Any], body: Stmt) -> bool:
    nest = body
    for loop in reversed(grid):
        nest = with_body(loop, nest)
    nest = prepare(nest)
    for _ in grid:
        if not isinstance(nest, tirx.For) or INDEPENDENT not in nest.annotations:
            return False
        nest = nest.body
    return True


Nest = tuple[list[Any], Any]
"""Loops over blocks, outermost first, and the body of a block."""


def _divided(loops: list[Any], axis: int, body: Stmt) -> tuple[Nest, Nest] | None:
    """Return the nest without the last iteration of a loop, and that iteration; None where it is no edge."""
    parts = _apart(loops[axis], body)
    if parts is None:
        return None
    whole, edge = parts
    first = [*loops[:axis], _shorter(loops[axis], loops[axis].extent.value - 1), *loops[axis + 1 :]]
    # The last iteration keeps its loop, whose variable the body no longer reads: a nest for the threads.
    last = [*loops[:axis], _shorter(loops[axis], 1), *loops[axis + 1 :]]
    return (first, whole), (last, edge)


def _steps(statement: Stmt) -> Any:
    """Return the body of a block with the last step of its pipelined loops apart, and no zeros under whole copies."""
    if isinstance(statement, tirx.For):
        if STAGES not in statement.annotations:
            return with_body(statement, _steps(statement.body))
        body = _steps(statement.body)
        parts = _apart(statement, body)
        if parts is None:
            return with_body(statement, body)
        whole, edge = (_steps(part) for part in parts)
        return sequence(with_body(_shorter(statement, statement.extent.value - 1), whole), fresh(edge))
    if isinstance(statement, tirx.SeqStmt):
        return sequence(*_without_zeros([_steps(child) for child in with_allocations_inside(list(statement.seq))]))
    return with_parts(statement, _steps)


def _shorter(loop: Stmt, extent: int) -> Any:
    return tirx.For(
        loop.loop_var, loop.min, index(extent), loop.kind, loop.body, loop.thread_binding, loop.annotations, loop.step
    )


def _apart(loop: Stmt, body: Stmt) -> tuple[Any, Any] | None:
    """Return the body of all iterations but the last, and that of the last; None where sizes do not tell them apart."""
    is_plain = isinstance(loop.extent, tirx.IntImm) and isinstance(loop.min, tirx.IntImm) and loop.min.value == 0
    if not is_plain or loop.extent.value < 2 or not _has_clipped(body, loop.loop_var):
        return None
    last = loop.extent.value - 1
    whole = _with_ranges(body, loop.loop_var, last)
    if _has_clipped(whole, loop.loop_var):
        return None
    return whole, _with_ranges(substituted(body, loop.loop_var, index(last)), None, 0)


def _has_clipped(body: Stmt, variable: Var) -> bool:
    return any(depends_on(loop.extent, [variable]) for loop in nodes_in(body, tirx.For))


def _with_ranges(body: Stmt, variable: Var, extent: int) -> Any:
    """Return the body with the extents of its loops simplified, for a variable of this range."""
    analyzer = Analyzer()
    if variable is not None:
        analyzer.bind(variable, Range(index(0), index(extent)))

    def shorten(loop: Stmt) -> Any:
        if isinstance(loop.extent, tirx.IntImm):
            return loop
        size = analyzer.simplify(loop.extent)
        parts = (loop.loop_var, loop.min, size, loop.kind, loop.body, loop.thread_binding)
        return tirx.For(*parts, loop.annotations, loop.step)

    return structural_map(body, (tirx.For, shorten), order="post")


def _without_zeros(statements: list[Any]) -> list[Any]:
    """Return the statements without nests that fill what the next nest overwrites."""
    kept = []
    for number, statement in enumerate(statements):
        following = statements[number + 1] if number + 1 < len(statements) else None
        if following is None or not _is_overwritten(statement, following):
            kept.append(statement)
    return kept


def _is_overwritten(statement: Stmt, following: Any) -> bool:
    first, second = nest_of(statement), nest_of(following)
    if first is None or second is None or first.names or second.names:
        return False
    memory = first.store.buffer
    return (
        memory.same_as(second.store.buffer)
        and second.reaches_all()
        and not any(load.source.same_as(memory) for load in loads_in(second.store.value))
    )
