"""In-register transposes of imperative loops of dynamic sizes, which load along one loop and store along another.

The last squares (`common.transposes.Square`) overlap those before, so the loops must be as long as a square::

    for i: for j: y[i, j] = x[j, i]   ──►   for squares along i: for squares along j:
                                                n rows of x;  log n rounds of shuffles;  n rows of y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from mlirtri.lowering.schedule.cpu.common.register_transposes import (
    DTYPES,
    MAX_OPERANDS,
    SHORTEST,
    SQUARES_ABREAST,
    Square,
    has_conditions,
)
from mlirtri.lowering.schedule.imperative.accesses import LoopAccess, accesses_of
from mlirtri.lowering.schedule.imperative.vector_choice import contains_loops, lanes_of, step_of
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.statements import depends_on, index, loads_in, minus, plus, sequence
from mlirtri.lowering.toolchain.tvm_names import (
    INDEPENDENT,
    Expr,
    Stmt,
    TensorLoad,
    Var,
    structural_equal,
    structural_walk,
    tirx,
)


@dataclass(frozen=True)
class Squares:
    """A loop in squares, and the condition under which it may run."""

    statement: Stmt
    is_enough: Expr | None
    """Whether all loops of dynamic sizes are as long as a square; None where there are none."""


@dataclass(frozen=True)
class _Loops:
    across: Stmt
    """The loop along which the operands are contiguous."""
    between: Sequence[Stmt]
    down: Stmt
    """The loop along which the results are contiguous."""
    square: Square


def squares_of(loop: Stmt) -> Squares | None:
    """Return a `For` in squares; None where it is no transpose."""
    loops = _loops_of(loop)
    if loops is None:
        return None
    ends = [tirx.Var(tile_loop.loop_var.name, "int64") for tile_loop in (loops.across, loops.down)]
    across, down = ends
    side = loops.square.side
    body = loops.square.statements(down, across)
    if body is None:
        return None
    block, right, number = (tirx.Var(name, "int64") for name in ("block", "right", "number"))
    body = sequence(
        _last_in(loops.across, across, block * index(SQUARES_ABREAST) + right, side),
        _last_in(loops.down, down, number, side),
        body,
    )
    body = tirx.For(right, index(0), index(SQUARES_ABREAST), tirx.ForKind.SERIAL, body)
    body = tirx.For(number, index(0), _tiles_of(loops.down, side), tirx.ForKind.SERIAL, body)
    for outer in reversed(loops.between):
        body = tirx.For(outer.loop_var, outer.min, outer.extent, tirx.ForKind.SERIAL, body, None, outer.annotations)
    blocks = _tiles_of(loops.across, side * SQUARES_ABREAST)
    body = tirx.For(block, index(0), blocks, tirx.ForKind.SERIAL, body, None, loop.annotations)
    # A square is never longer than a loop of static size.
    dynamic = [tile_loop.extent for tile_loop in (loops.across, loops.down) if not _is_static(tile_loop)]
    are_long = [tirx.GE(extent, index(side)) for extent in dynamic]
    return Squares(body, reduce(tirx.And, are_long) if are_long else None)


def _loops_of(loop: Stmt) -> _Loops | None:
    chain = [loop]
    while isinstance(chain[-1].body, tirx.For):
        chain.append(chain[-1].body)
    *between, down = chain[1:] or [loop]
    is_nest = len(chain) > 1 and all(_is_plain(member, chain) for member in chain)
    if not is_nest or contains_loops(down.body) or has_conditions(down.body):
        return None
    accesses = accesses_of(down.body)
    side = lanes_of(accesses)
    for tile_loop in (loop, down):
        while _is_static(tile_loop) and side > tile_loop.extent.value:
            side //= 2
    stores = [access for access in accesses.shared if access.is_store]
    written = [access.buffer for access in stores]
    if side < SHORTEST or accesses.is_opaque or any(step_of(access, down.loop_var) != 1 for access in stores):
        return None
    # The last squares repeat iterations of those before.
    if any(not access.is_store and access.buffer in written for access in accesses.shared):
        return None
    loads = _crossing_loads(down.body, accesses.private, loop.loop_var, down.loop_var)
    if not loads or len(loads) > MAX_OPERANDS:
        return None
    return _Loops(loop, between, down, Square(down.body, down.loop_var, loop.loop_var, loads, side))


def _is_static(loop: Stmt) -> bool:
    return isinstance(loop.extent, tirx.IntImm)


def _is_plain(loop: Stmt, chain: Sequence[Stmt]) -> bool:
    """Return whether a loop's iterations are independent, start at 0, and are as many in each of the other loops'."""
    is_counted = isinstance(loop.min, tirx.IntImm) and not loop.min.value and loop.step is None
    return (
        INDEPENDENT in loop.annotations
        and is_counted
        and not depends_on(loop.extent, [outer.loop_var for outer in chain])
    )


def _crossing_loads(body: Stmt, private: set[Var], across: Var, down: Var) -> list[TensorLoad]:
    """Return the different loads to transpose; none where one is contiguous along neither loop."""
    crossing: list[TensorLoad] = []
    bound: list[Var] = list(private)
    structural_walk(body, (tirx.Bind, lambda node: bound.append(node.var)))
    for load in loads_in(body):
        forms = tuple(linear(position, {}) for position in load.indices)
        access = LoopAccess(load.source, forms, False, ())
        if load.source in private or step_of(access, down) in (0, 1):
            continue
        if None in forms or not forms or forms[-1].factor(across) != 1 or str(load.source.dtype) not in DTYPES:
            return []
        indices = [tirx.Evaluate(position) for position in load.indices]
        if any(form.factor(across) for form in forms[:-1]) or any(depends_on(position, bound) for position in indices):
            return []
        if not any(structural_equal(load, other) for other in crossing):
            crossing.append(load)
    return crossing


def _tiles_of(loop: Stmt, width: int) -> Expr:
    if _is_static(loop):
        return index(-(-loop.extent.value // width))
    return tirx.floordiv(plus(loop.extent, index(width - 1)), index(width))


def _last_in(loop: Stmt, variable: Var, number: Expr, side: int) -> Stmt:
    """Return the `Bind` of the first iteration of a square, which ends where the loop does at the latest."""
    return tirx.Bind(variable, tirx.min(number * index(side), minus(loop.extent, index(side))))
