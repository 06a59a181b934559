"""Loops of run-time sizes that read across the way they write: squares that are turned round in registers.

Takes a loop of independent iterations, along which operands lie in memory, around others, along the innermost of which
the results lie. Gives the same in squares (`cpu_transposes`), the last of which reach back into those before, and the
sizes that have to be as long as a square for that; None for any other loop::

    for i: for j: y[i, j] = x[j, i]   ──►   for squares along i: for squares along j:
                                                n rows of x;  log n rounds of shuffles;  n rows of y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.cpu.common.strips import Shape, strip
from mlirtri.lowering.schedule.cpu.common.transposes import (
    KINDS,
    MOST_OPERANDS,
    SHORTEST,
    STRETCH,
    has_conditions,
    transposed,
)
from mlirtri.lowering.schedule.cpu.common.vector_stores import vector_store
from mlirtri.lowering.schedule.cpu.loops.accesses import Access, accesses_of
from mlirtri.lowering.schedule.cpu.loops.vector_choice import contains_loops, lanes_of, step_of
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.statements import depends_on, index, loads_in, minus, new_buffer, plus, sequence, substituted
from mlirtri.lowering.toolchain.tvm_attributes import PARALLEL
from mlirtri.lowering.toolchain.tvm_names import TensorLoad, structural_equal, structural_map, structural_walk, tirx


@dataclass(frozen=True)
class Squares:
    """A loop in squares, and when it may be run."""

    statement: Any
    is_enough: Any
    """A condition on the sizes that only the run shows."""


@dataclass(frozen=True)
class _Turn:
    """What is turned round."""

    across: Any
    """The loop along which the operands lie."""
    between: Sequence[Any]
    down: Any
    """The loop along which the results lie."""
    loads: Sequence[Any]
    side: int


def squares_of(loop: Any) -> Squares | None:
    """The loop in squares; None where it is not fit for them."""
    turn = _turn_of(loop)
    if turn is None:
        return None
    ends = [tirx.Var(each.loop_var.name, "int64") for each in (turn.across, turn.down)]
    body = _square(turn, *ends)
    if body is None:
        return None
    block, right, number = (tirx.Var(name, "int64") for name in ("block", "right", "number"))
    body = sequence(
        _last_in(turn.across, ends[0], block * index(STRETCH) + right, turn.side),
        _last_in(turn.down, ends[1], number, turn.side),
        body,
    )
    body = tirx.For(right, index(0), index(STRETCH), tirx.ForKind.SERIAL, body)
    body = tirx.For(number, index(0), _strips(turn.down, turn.side), tirx.ForKind.SERIAL, body)
    for each in reversed(turn.between):
        body = tirx.For(each.loop_var, each.min, each.extent, tirx.ForKind.SERIAL, body, None, each.annotations)
    width = turn.side * STRETCH
    body = tirx.For(block, index(0), _strips(turn.across, width), tirx.ForKind.SERIAL, body, None, loop.annotations)
    long = [tirx.GE(each.extent, index(turn.side)) for each in (turn.across, turn.down)]
    return Squares(body, tirx.And(*long))


def _turn_of(loop: Any) -> _Turn | None:
    chain = [loop]
    while isinstance(chain[-1].body, tirx.For):
        chain.append(chain[-1].body)
    *between, down = chain[1:] or [loop]
    is_nest = len(chain) > 1 and all(_is_plain(each, chain) for each in chain)
    if not is_nest or contains_loops(down.body) or has_conditions(down.body):
        return None
    accesses = accesses_of(down.body)
    side = lanes_of(accesses)
    for each in (loop, down):
        while isinstance(each.extent, tirx.IntImm) and side > each.extent.value:
            side //= 2
    stores = [each for each in accesses.shared if each.is_store]
    written = [each.buffer for each in stores]
    if side < SHORTEST or accesses.is_opaque or any(step_of(each, down.loop_var) != 1 for each in stores):
        return None
    # The last squares do again what those before have done.
    if any(not each.is_store and each.buffer in written for each in accesses.shared):
        return None
    loads = _crossing_loads(down.body, accesses.private, loop.loop_var, down.loop_var)
    return _Turn(loop, between, down, loads, side) if loads and len(loads) <= MOST_OPERANDS else None


def _is_plain(loop: Any, chain: Sequence[Any]) -> bool:
    """Whether a loop's iterations are independent, counted from 0, and as many for each iteration of the others."""
    is_counted = isinstance(loop.min, tirx.IntImm) and not loop.min.value and loop.step is None
    return (
        PARALLEL in loop.annotations and is_counted and not depends_on(loop.extent, [each.loop_var for each in chain])
    )


def _crossing_loads(body: Any, private: set[Any], across: Any, down: Any) -> list[Any]:
    """The different loads to turn round; none where one is along neither axis, or where it is is found inside."""
    found: list[Any] = []
    bound: list[Any] = list(private)
    structural_walk(body, (tirx.Bind, lambda node: bound.append(node.var)))
    for load in loads_in(body):
        forms = tuple(linear(each, {}) for each in load.indices)
        access = Access(load.source, forms, False, ())
        if load.source in private or step_of(access, down) in (0, 1):
            continue
        if None in forms or not forms or forms[-1].factor(across) != 1 or str(load.source.dtype) not in KINDS:
            return []
        outer = [tirx.Evaluate(each) for each in load.indices]
        if any(form.factor(across) for form in forms[:-1]) or any(depends_on(each, bound) for each in outer):
            return []
        if not any(structural_equal(load, other) for other in found):
            found.append(load)
    return found


def _strips(loop: Any, width: int) -> Any:
    """How many strips a loop has, the last of which may reach back."""
    if isinstance(loop.extent, tirx.IntImm):
        return index(-(-loop.extent.value // width))
    return tirx.floordiv(plus(loop.extent, index(width - 1)), index(width))


def _last_in(loop: Any, variable: Any, number: Any, side: int) -> Any:
    """Names the start of a square, which ends where the loop does at the latest."""
    return tirx.Bind(variable, tirx.min(number * index(side), minus(loop.extent, index(side))))


def _square(turn: _Turn, across: Any, down: Any) -> Any:
    """One square from these places on; None where the elements of a vector part."""
    made, rows = [], []
    for load in turn.loads:
        vectors = [_row(turn, load, across, plus(down, index(at)), made) for at in range(turn.side)]
        rows.append(transposed(vectors, made))
    privates = [new_buffer("turned", str(load.source.dtype), 1) for load in turn.loads]

    def replaced(node: Any) -> Any:
        for load, private in zip(turn.loads, privates, strict=True):
            if structural_equal(node, load):
                return tirx.BufferLoad(private, [index(0)])
        return node

    body = structural_map(turn.down.body, (TensorLoad, replaced), order="post")
    for at in range(turn.side):
        rooms = {each: new_buffer(each.name, str(each.dtype), 1, turn.side) for each in privates}
        for room, vectors in zip(rooms.values(), rows, strict=True):
            place = [index(0), tirx.Ramp(index(0), index(1), turn.side)]
            made += [tirx.AllocBuffer(room), tirx.BufferStore(room, vectors[at], place)]
        one = substituted(body, turn.across.loop_var, plus(across, index(at)))
        statement = strip(one, turn.down.loop_var, down, Shape(1, turn.side), rooms)
        if statement is None:
            return None
        made.append(statement)
    return sequence(*made)


def _row(turn: _Turn, load: Any, across: Any, at: Any, made: list[Any]) -> Any:
    """One vector along an operand."""
    lane, room = tirx.Var("lane", "int64"), new_buffer("row", str(load.source.dtype), turn.side)
    place = substituted(substituted(load, turn.down.loop_var, at), turn.across.loop_var, across + lane)
    made += [tirx.AllocBuffer(room), vector_store(tirx.BufferStore(room, place, [lane]), lane, index(0), turn.side)]
    return tirx.BufferLoad(room, [tirx.Ramp(index(0), index(1), turn.side)])
