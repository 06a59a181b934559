"""The CPU's loops for elementwise work that reads across memory: squares that are turned round in registers.

Takes an elementwise nest whose results lie along one axis while an operand lies along another. Gives statements, or
None where a side of the square would be too short, or where a condition guards what is read::

    parallel stretches of the operand's axis:  for squares down the results' axis:  for squares of the stretch:
        n vectors along the operand's axis;  log n rounds of shuffles;  n vectors along the results'

Each line of memory is read and written as a whole, so that it does not matter where in a cache it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.nest import FlatAccess, Nest, NestAxis
from mlirtri.lowering.schedule.cpu.common.parallel import Outer, outer_loops
from mlirtri.lowering.schedule.cpu.common.strips import Shape, strip
from mlirtri.lowering.schedule.cpu.common.vector_stores import vector_store
from mlirtri.lowering.tir.blocks import PartedLanesError
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.toolchain.tvm_names import TensorLoad, ir, structural_equal, structural_map, structural_walk, tirx

STRETCH = 2
"""Squares side by side: neighbouring lines of each row of the operand are read soon after each other."""
SHORTEST = 4
MOST_OPERANDS = 2
"""Operands that are turned round: each has its square of registers."""
KINDS = ("float16", "float32", "float64", "int16", "int32", "int64", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class _Turn:
    """What is turned round, and how."""

    nest: Nest
    axis: NestAxis
    """Along which the results are neighbours."""
    across: NestAxis
    """Along which the operands are."""
    loads: Sequence[FlatAccess]
    side: int


def turned(nest: Nest, axis: NestAxis, across: NestAxis, lanes: int, target: Target, *, may_repeat: bool) -> Any:
    """The statements of the nest; None where it is not fit for squares."""
    side = min(lanes, _power_below(axis.extent), _power_below(across.extent))
    loads = _crossing_loads(nest, axis, across)
    if side < SHORTEST or not loads or len(loads) > MOST_OPERANDS or has_conditions(nest.body):
        return None
    if not may_repeat and (axis.extent % side or across.extent % side):
        return None
    turn = _Turn(nest, axis, across, loads, side)
    outer = [each for each in nest.axes if each is not axis and each is not across]
    squares = -(-across.extent // side)
    made = []
    for first, count, inside in (
        (0, squares // STRETCH, STRETCH),
        (squares // STRETCH * STRETCH, 1, squares % STRETCH),
    ):
        if count and inside:
            number = tirx.Var("stretch", "int64")
            body = _stretch(turn, plus(number * index(inside), index(first)), inside)
            points = nest.points // squares * count * inside
            made.append(outer_loops(Outer([*outer, NestAxis(number, count, False)], points), fresh(body), target))
    return sequence(*made)


def _power_below(extent: int) -> int:
    return 1 << (extent.bit_length() - 1)


def has_conditions(body: Any) -> bool:
    """Whether a branch guards anything of a statement."""
    found: list[Any] = []

    def call(node: Any) -> None:
        if str(getattr(node.op, "name", "")).endswith("if_then_else"):
            found.append(node)

    structural_walk(body, [(ir.Call, call), (tirx.IfThenElse, found.append)], order="pre")
    return bool(found)


def _crossing_loads(nest: Nest, axis: NestAxis, across: NestAxis) -> list[FlatAccess]:
    """The different loads to turn round; none where one is not along the axis that it should be along."""
    found: list[FlatAccess] = []
    for each in nest.operands:
        if each.step(axis.variable) in (0, 1):
            continue
        if each.step(axis.variable) is None or each.step(across.variable) != 1 or str(each.buffer.dtype) not in KINDS:
            return []
        if not any(each.buffer.same_as(other.buffer) and structural_equal(each.place, other.place) for other in found):
            found.append(each)
    return found


def _stretch(turn: _Turn, first: Any, count: int) -> Any:
    """`count` squares from number `first` on along the operands, all the way along the results."""
    down, right = tirx.Var(turn.axis.variable.name, "int64"), tirx.Var(turn.across.variable.name, "int64")
    named: list[Any] = []
    start, across = _start(turn, turn.axis, down, named), _start(turn, turn.across, first + right, named)
    body = sequence(*named, _square(turn, start, across))
    if count > 1:
        body = tirx.For(right, index(0), index(count), tirx.ForKind.SERIAL, body)
    else:
        body = substituted(body, right, index(0))
    squares = -(-turn.axis.extent // turn.side)
    return tirx.For(down, index(0), index(squares), tirx.ForKind.SERIAL, body)


def _start(turn: _Turn, axis: NestAxis, number: Any, named: list[Any]) -> Any:
    """Where a square begins; the last one may begin in the one before it."""
    start = number * index(turn.side)
    if not axis.extent % turn.side:
        return start
    # By its name TVM knows of a smaller number only how large it may be: what it needs to tell the indices apart.
    variable = tirx.Var("start", "int64")
    named.append(tirx.Bind(variable, tirx.min(start, index(axis.extent - turn.side))))
    return variable


def _square(turn: _Turn, start: Any, across: Any) -> Any:
    made, rows = [], []
    for load in turn.loads:
        vectors = [_row(turn, load, plus(start, index(at)), across, made) for at in range(turn.side)]
        rows.append(transposed(vectors, made))
    privates = [new_buffer("turned", str(load.buffer.dtype), 1) for load in turn.loads]

    def replaced(node: Any) -> Any:
        for load, private in zip(turn.loads, privates, strict=True):
            if load.buffer.same_as(node.source) and structural_equal(node.indices[0], load.place):
                return tirx.BufferLoad(private, [index(0)])
        return node

    body = structural_map(turn.nest.body, (TensorLoad, replaced), order="post")
    for at in range(turn.side):
        rooms = {each: new_buffer(each.name, str(each.dtype), 1, turn.side) for each in privates}
        for room, vectors in zip(rooms.values(), rows, strict=True):
            place = [index(0), tirx.Ramp(index(0), index(1), turn.side)]
            made += [tirx.AllocBuffer(room), tirx.BufferStore(room, vectors[at], place)]
        one = substituted(body, turn.across.variable, plus(across, index(at)))
        statement = strip(one, turn.axis.variable, start, Shape(1, turn.side), rooms)
        if statement is None:
            raise PartedLanesError("the elements of a vector part")
        made.append(statement)
    return sequence(*made)


def _row(turn: _Turn, load: FlatAccess, at: Any, across: Any, made: list[Any]) -> Any:
    """One vector along an operand."""
    lane, room = tirx.Var("lane", "int64"), new_buffer("row", str(load.buffer.dtype), turn.side)
    place = substituted(substituted(load.place, turn.axis.variable, at), turn.across.variable, across + lane)
    store = tirx.BufferStore(room, tirx.BufferLoad(load.buffer, [place]), [lane])
    made += [tirx.AllocBuffer(room), vector_store(store, lane, index(0), turn.side)]
    return tirx.BufferLoad(room, [tirx.Ramp(index(0), index(1), turn.side)])


def transposed(vectors: Sequence[Any], made: list[Any]) -> list[Any]:
    """The columns of a square of rows: blocks off the diagonal change places, of 1 element, of 2, of 4…"""
    side = len(vectors)

    dtype, everything = str(vectors[0].ty.dtype).partition("x")[0], [tirx.Ramp(index(0), index(1), side)]

    def kept(value: Any) -> Any:
        # In memory, which becomes a register: TVM's analyzers put the values of names into one another.
        room = new_buffer("line", dtype, side)
        made.extend([tirx.AllocBuffer(room), tirx.BufferStore(room, value, everything)])
        return tirx.BufferLoad(room, everything)

    rows, size = list(vectors), 1
    while size < side:
        for at in range(side):
            if at & size:
                continue
            one, other = rows[at], rows[at + size]
            low = [lane if not lane & size else side + lane - size for lane in range(side)]
            rows[at] = kept(tirx.Shuffle([one, other], [index(each) for each in low]))
            rows[at + size] = kept(tirx.Shuffle([one, other], [index(each + size) for each in low]))
        size *= 2
    return rows
