"""The CUDA rule for scans (prefix sums and products): each line in one pass of a block, or of several.

Takes a PrimFunc of one reduction in which what comes behind an element counts as the neutral element, and elementwise
work before it. Gives a function that we write ourselves: the threads of a block take a piece of the line, a few
elements each, scan their sums in shared memory, and go on with the next piece. Where lines are few and long, several
blocks share one; a kernel before reduces the part of each block. None for any other function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.phases import WARP, Phases, Shape, Thread, own, power_above
from mlirtri.lowering.schedule.rows.nests import Axis, Nest, NotRows, nests_of
from mlirtri.lowering.schedule.rows.reducers import Reducer, reducer_of
from mlirtri.lowering.schedule.rows.writer import axis_values
from mlirtri.lowering.tir.blocks import leaf_blocks
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.tir.vectors import loaded, stored
from mlirtri.lowering.toolchain.tvm_names import (
    PrimFunc,
    SBlock,
    SBlockRealize,
    Schedule,
    TensorLoad,
    structural_equal,
    structural_map,
    structural_walk,
    tirx,
)

ELEMENTS = 4
"""Contiguous elements per thread."""
LANES = 256
"""Maximal threads per line."""
BLOCKS = 256
"""Number of blocks that keep every device busy, and the maximum that share a line."""


@dataclass(frozen=True)
class Scan:
    """A nest that is a scan: what it combines, and along which axis."""

    nest: Nest
    reducer: Reducer
    term: Any
    """The element that counts at `later`."""
    neutral: Any
    along: Axis
    later: Axis
    lines: tuple[Axis, ...]


def scans(function: PrimFunc, _target: Target) -> Schedule | None:
    """Return a scan as kernels of ours; None for any other function."""
    try:
        found = scan_of(nests_of(function)[-1])
    except NotRows:
        return None
    if found is None:
        return None
    schedule = Schedule(function)
    for block in leaf_blocks(schedule)[:-1]:
        schedule.compute_inline(block.handle)
    [nest] = nests_of(schedule.mod["main"])
    return Schedule(_written(function, scan_of(nest)))


def scan_of(nest: Nest) -> Scan | None:
    """Return the scan that a nest is; None for another."""
    reducer = reducer_of(nest)
    if reducer is None or nest.before or not isinstance(reducer.term, tirx.Select):
        return None
    condition, reduced = reducer.term.condition, [axis for axis in nest.axes if axis.is_reduction]
    if not isinstance(condition, tirx.LE):
        return None
    later = next((axis for axis in reduced if condition.a.same_as(axis.variable)), None)
    if later is None or any(axis.extent > 1 for axis in reduced if axis is not later):
        return None
    along = next((axis for axis in nest.axes if condition.b.same_as(axis.variable)), None)
    if along is None or along.extent != later.extent:
        return None
    term, neutral = reducer.term.true_value, reducer.term.false_value
    if not structural_equal(neutral, nest.init) or _names(term, along.variable):
        return None
    lines = tuple(axis for axis in nest.axes if axis is not along and not axis.is_reduction)
    return Scan(nest, reducer, term, neutral, along, later, lines)


def _names(value: Any, variable: Any) -> bool:
    found: list[Any] = []
    structural_walk(value, (tirx.Var, lambda node: found.append(node) if node.same_as(variable) else None))
    return bool(found)


def _written(function: PrimFunc, found: Scan) -> PrimFunc:
    root = SBlockRealize([], True, SBlock([], [], [], "root", _Writer(found).written()))
    return PrimFunc(list(function.params), root, function.ret_type, function.attrs)


def _shape_of(found: Scan) -> Shape:
    """Threads, and blocks for each line."""
    count, length = prod(axis.extent for axis in found.lines), found.along.extent
    loads: list[Any] = []
    structural_walk(found.term, (TensorLoad, loads.append))
    wanted = power_above(-(-length // ELEMENTS))
    if not any(_names(each.indices[-1], found.later.variable) for each in loads if each.indices) and count > 1:
        # Of elements of 8 bytes, those of a whole warp would be more than a block's shared memory.
        lanes = WARP * 4 // max(4, int(found.nest.target.dtype.bits) // 8)
        shape = Shape(min(lanes, wanted), WARP, along=False)
    else:
        lanes = min(LANES, wanted)
        shape = Shape(lanes, min(max(1, LANES // lanes), power_above(count)), along=True)
    blocks = -(-count // shape.together)
    return shape.shared_by(max(1, min(BLOCKS // blocks, length // (shape.lanes * ELEMENTS * 4))))


class _Writer:
    """Writes the kernels."""

    def __init__(self, found: Scan):
        self.found, self.shape = found, _shape_of(found)
        self.count, self.length = prod(axis.extent for axis in found.lines), found.along.extent
        self.dtype = str(found.nest.target.dtype)
        self.piece = self.shape.lanes * ELEMENTS
        pieces = -(-self.length // self.piece)
        self.pieces = -(-pieces // self.shape.parts)
        """Pieces of a line that a block does, one after the other."""

    def written(self) -> Any:
        """Return the kernel, after one that reduces the parts of lines where blocks share them."""
        if self.shape.parts == 1:
            return self._scan(None)
        left = tirx.decl_buffer([index(self.count), index(self.shape.parts)], self.dtype, "parts", layout=None)
        return sequence(tirx.AllocBuffer(left), self._parts(left), self._scan(left))

    def _parts(self, left: Any) -> Any:
        """Return the kernel that reduces the part of each block."""
        phases = Phases(self.shape, self.count)
        partial = phases.shared("partial", self.dtype, self.shape.lanes)

        def gathered(thread: Thread) -> list[Any]:
            register, turn = own("total", self.dtype), tirx.Var("turn", "int64")
            mine = (register, [index(0)])
            place = (thread.part * index(self.pieces * ELEMENTS) + turn) * index(self.shape.lanes) + thread.lane
            added = stored(*mine, self._combined(loaded(*mine, self.dtype), self._term(thread, place)))
            body = tirx.For(turn, index(0), index(self.pieces * ELEMENTS), tirx.ForKind.SERIAL, added)
            last = stored(partial, [thread.within, thread.lane], loaded(*mine, self.dtype))
            return [tirx.AllocBuffer(register), stored(*mine, self.found.neutral), body, last]

        phases.phase(gathered)
        partial = self._down(phases, partial)
        phases.phase(lambda thread: [stored(left, [thread.row, thread.part], self._of(partial, thread))], 1)
        return phases.kernel()

    def _of(self, partial: Any, thread: Thread) -> Any:
        return loaded(partial, [thread.within, index(0)], self.dtype)

    def _down(self, phases: Phases, partial: Any) -> Any:
        def combined(mine: Any, other: Any) -> Any:
            return [], [self._combined(loaded(*mine[0], self.dtype), loaded(*other[0], self.dtype))]

        return phases.combine([partial], combined)[0]

    def _scan(self, left: Any) -> Any:
        """Return the kernel that writes the results of the scan."""
        phases = Phases(self.shape, self.count)
        # Two, alternately: where one element is read by all threads and then written by one, TVM sees no conflict.
        before = phases.shared("before", self.dtype, 2)
        if left is None:
            phases.phase(lambda thread: [stored(before, [thread.within, index(0)], self.found.neutral)], 1)
        else:
            self._brought(phases, left, before)
        sizes = {"totals": self.shape.lanes, "sums": self.shape.lanes, "elements": self.piece}
        *totals, elements = (
            phases.allocated(name, self.dtype, [self.shape.together * (size + self._gap)], "shared")
            for name, size in sizes.items()
        )
        number = tirx.Var("piece", "int64")
        with phases.repeated(number, self.pieces):
            self._piece(phases, number, before, totals, elements)
        return phases.kernel()

    def _brought(self, phases: Phases, left: Any, before: Any) -> None:
        """What the parts before this one have together."""
        partial = phases.shared("partial", self.dtype, self.shape.lanes)

        def gathered(thread: Thread) -> list[Any]:
            register = own("total", self.dtype)
            mine = (register, [index(0)])

            def element(place: Any) -> list[Any]:
                value = loaded(left, [thread.row, tirx.Min(place, index(self.shape.parts - 1))], self.dtype)
                counted = tirx.Select(tirx.LT(place, thread.part), value, self.found.neutral)
                return [stored(*mine, self._combined(loaded(*mine, self.dtype), counted))]

            turn = tirx.Var("turn", "int64")
            turns = -(-self.shape.parts // self.shape.lanes)
            body = sequence(*element(turn * index(self.shape.lanes) + thread.lane))
            loop = tirx.For(turn, index(0), index(turns), tirx.ForKind.SERIAL, body)
            last = stored(partial, [thread.within, thread.lane], loaded(*mine, self.dtype))
            return [tirx.AllocBuffer(register), stored(*mine, self.found.neutral), loop, last]

        phases.phase(gathered)
        partial = self._down(phases, partial)
        phases.phase(lambda thread: [stored(before, [thread.within, index(0)], self._of(partial, thread))], 1)

    def _piece(self, phases: Phases, number: Any, before: Any, totals: list[Any], elements: Any) -> None:
        """The next piece of the line."""

        def first(thread: Thread) -> Any:
            piece = thread.part * index(self.pieces) + number
            return piece * index(self.piece) + thread.lane * index(ELEMENTS)

        def taken(thread: Thread) -> list[Any]:
            register = own("total", self.dtype)
            mine = (register, [index(0)])
            made = [tirx.AllocBuffer(register), stored(*mine, self.found.neutral)]
            for each in range(ELEMENTS):
                value = self._combined(loaded(*mine, self.dtype), self._term(thread, first(thread) + index(each)))
                made.append(stored(*mine, value))
                made.append(stored(elements, self._at(thread, thread.lane, each), loaded(*mine, self.dtype)))
            return [*made, stored(totals[0], self._at(thread, thread.lane), loaded(*mine, self.dtype))]

        phases.phase(taken)
        source, target = totals
        distance = 1
        while distance < self.shape.lanes:
            phases.phase(lambda thread, s=source, t=target, d=distance: [self._step(thread, s, t, d)])
            source, target = target, source
            distance *= 2
        now, then = ((before, tirx.floormod(number + index(each), index(2))) for each in (0, 1))
        phases.phase(lambda thread: self._left_behind(thread, first(thread), now, source, elements))
        last = index(self.shape.lanes - 1)

        def carried(thread: Thread) -> list[Any]:
            so_far = loaded(now[0], [thread.within, now[1]], self.dtype)
            value = self._combined(so_far, loaded(source, self._at(thread, last), self.dtype))
            return [stored(then[0], [thread.within, then[1]], value)]

        phases.phase(carried, 1)

    @property
    def _gap(self) -> int:
        """What keeps neighbours out of the same bank where they are in other lines."""
        return 0 if self.shape.along else 1

    def _at(self, thread: Thread, lane: Any, element: int | None = None) -> list[Any]:
        """Return the index of a lane's sum, or element; flat, because TVM closes gaps that are dimensions."""
        size = self.shape.lanes if element is None else self.piece
        start = index((element or 0) * self.shape.lanes)
        return [thread.within * index(size + self._gap) + start + lane]

    def _step(self, thread: Thread, source: Any, target: Any, distance: int) -> Any:
        """Return a step of the scan: each thread adds the sum of the one `distance` lanes before it."""
        mine = loaded(source, self._at(thread, thread.lane), self.dtype)
        place = tirx.Max(thread.lane - index(distance), index(0))
        both = self._combined(loaded(source, self._at(thread, place), self.dtype), mine)
        value = tirx.Select(tirx.GE(thread.lane, index(distance)), both, mine)
        return stored(target, self._at(thread, thread.lane), value)

    def _left_behind(self, thread: Thread, first: Any, before: tuple, totals: Any, elements: Any) -> list[Any]:
        """The results of a thread's elements."""
        start = own("start", self.dtype)
        place = [index(0)]
        so_far = loaded(before[0], [thread.within, before[1]], self.dtype)
        others = loaded(totals, self._at(thread, tirx.Max(thread.lane - index(1), index(0))), self.dtype)
        behind = tirx.Select(tirx.GT(thread.lane, index(0)), self._combined(so_far, others), so_far)
        made = [tirx.AllocBuffer(start), stored(start, place, behind)]
        for each in range(ELEMENTS):
            element = loaded(elements, self._at(thread, thread.lane, each), self.dtype)
            value = self._combined(loaded(start, place, self.dtype), element)
            at = first + index(each)
            point = self._point(thread, at)
            places = [structural_map(one, (tirx.Var, lambda node: point.get(node, node))) for one in self._places]
            result = stored(self.found.nest.target, places, value)
            made.append(tirx.IfThenElse(tirx.LT(at, index(self.length)), result, None))
        return made

    @property
    def _places(self) -> Sequence[Any]:
        return self.found.nest.store.indices

    def _combined(self, one: Any, other: Any) -> Any:
        return self.found.reducer.combine(one, other)

    def _point(self, thread: Thread, at: Any) -> dict[Any, Any]:
        """Return the axes' values at an index along the thread's line."""
        point: dict[Any, Any] = {axis.variable: index(0) for axis in self.found.nest.axes}
        point |= {self.found.along.variable: at, self.found.later.variable: at}
        return point | axis_values(self.found.lines, thread.row)

    def _term(self, thread: Thread, at: Any) -> Any:
        """An element, or the neutral one behind the line's end."""
        point = self._point(thread, at)
        value = structural_map(self.found.term, (tirx.Var, lambda node: point.get(node, node)))
        return tirx.if_then_else(tirx.LT(at, index(self.length)), value, self.found.neutral)
