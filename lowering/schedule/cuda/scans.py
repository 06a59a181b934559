"""The CUDA rule for scans (prefix sums and products): each line in one pass of a block, or of several.

Takes a PrimFunc of one reduction in which what comes after an element counts as the neutral element, and elementwise
work before it. The threads of a block take a chunk of the line, a few elements each, scan their sums in shared memory,
and go on with the next chunk. Where lines are few and long, several blocks share one; a kernel before reduces the part
of each block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.common.phases import WARP, Phases, Shape, Thread, power_above, register
from mlirtri.lowering.schedule.rows.nests import BlockAxis, BlockNest, NotRows, nests_of
from mlirtri.lowering.schedule.rows.plan import reducer_of_nest
from mlirtri.lowering.schedule.rows.writer import Element, axis_values
from mlirtri.lowering.tir.blocks import leaf_blocks
from mlirtri.lowering.tir.primfunc import with_statements
from mlirtri.lowering.tir.reducers import Reducer
from mlirtri.lowering.tir.statements import depends_on, index, loads_in, new_buffer, sequence
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.tir.vectors import loaded, stored
from mlirtri.lowering.toolchain.tvm_names import Expr, IRModule, PrimFunc, Schedule, structural_equal, tirx

ELEMENTS = 4
"""Contiguous elements per thread."""
LANES = 256
"""Maximal threads per line."""
BLOCKS = 256
"""Number of blocks that keep every device busy, and the maximum that share a line."""


@dataclass(frozen=True)
class Scan:
    """A nest that is a scan: what it combines, and along which axis."""

    nest: BlockNest
    reducer: Reducer
    term: Any
    """The element that counts at `later`."""
    neutral: Any
    along: BlockAxis
    later: BlockAxis
    lines: tuple[BlockAxis, ...]


def scans(function: PrimFunc, _target: Target) -> Schedule | None:
    """Return a scan as kernels of ours; None for any other function."""
    try:
        if scan_of(nests_of(function)[-1]) is None:
            return None
    except NotRows:
        return None
    schedule = Schedule(function)
    for block in leaf_blocks(schedule)[:-1]:
        schedule.compute_inline(block.handle)
    [nest] = nests_of(schedule.mod["main"])
    scan = scan_of(nest)
    if scan is None:
        return None
    # The elementwise work before the scan is written several times, with the names that it binds.
    written = IRModule({"main": with_statements(function, _Writer(scan).written())})
    return Schedule(tirx.transform.ConvertSSA()(written)["main"])


def scan_of(nest: BlockNest) -> Scan | None:
    """Return the scan that a nest is; None for another."""
    reducer = reducer_of_nest(nest)
    if reducer is None or not isinstance(reducer.term, tirx.Select):
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
    if not structural_equal(neutral, nest.init) or depends_on(term, [along.variable]):
        return None
    lines = tuple(axis for axis in nest.axes if axis is not along and not axis.is_reduction)
    return Scan(nest, reducer, term, neutral, along, later, lines)


def _shape_of(scan: Scan) -> Shape:
    """Return the threads, and the blocks for each line."""
    count, length = prod(axis.extent for axis in scan.lines), scan.along.extent
    last = [load.indices[-1] for load in loads_in(scan.term) if load.indices]
    enough = power_above(-(-length // ELEMENTS))
    if not any(depends_on(position, [scan.later.variable]) for position in last) and count > 1:
        # Of elements of 8 bytes, those of a whole warp would be more than a block's shared memory.
        lanes = WARP * 4 // max(4, int(scan.nest.target.dtype.bits) // 8)
        shape = Shape(min(lanes, enough), WARP, along=False)
    else:
        lanes = min(LANES, enough)
        shape = Shape(lanes, min(max(1, LANES // lanes), power_above(count)), along=True)
    blocks = -(-count // shape.together)
    return replace(shape, parts=max(1, min(BLOCKS // blocks, length // (shape.lanes * ELEMENTS * 4))))


class _Writer:
    def __init__(self, scan: Scan):
        self.scan, self.shape = scan, _shape_of(scan)
        self.count, self.length = prod(axis.extent for axis in scan.lines), scan.along.extent
        self.dtype, self.combine = str(scan.nest.target.dtype), scan.reducer.combine
        self.chunk = self.shape.lanes * ELEMENTS
        chunks = -(-self.length // self.chunk)
        self.chunks = -(-chunks // self.shape.parts)
        """Pieces of a line that a block does, one after the other."""

    def written(self) -> Any:
        """Return the kernel, after one that reduces the parts of lines where blocks share them."""
        if self.shape.parts == 1:
            return self._write_scan(None)
        sums = new_buffer("parts", self.dtype, self.count, self.shape.parts)
        return sequence(tirx.AllocBuffer(sums), self._parts(sums), self._write_scan(sums))

    def _parts(self, sums: Any) -> Any:
        phases = Phases(self.shape, self.count)
        count = self.chunks * ELEMENTS

        def element(thread: Thread, iteration: Any) -> Any:
            position = (thread.part * index(count) + iteration) * index(self.shape.lanes) + thread.lane
            return self._term(thread, position)

        partial = self._reduced(phases, count, element)
        phases.phase(lambda thread: [stored(sums, [thread.row, thread.part], self._first(partial, thread))], 1)
        return phases.kernel()

    def _first(self, partial: Any, thread: Thread) -> Any:
        return loaded(partial, [thread.within, index(0)], self.dtype)

    def _reduced(self, phases: Phases, count: int, element: Callable[[Thread, Any], Any]) -> Any:
        """Return shared memory whose first element has what all threads of a line reduce, each `count` elements."""
        partial = phases.shared("partial", self.dtype, self.shape.lanes)

        def gathered(thread: Thread) -> list[Any]:
            accumulator, iteration = register("accumulator", self.dtype), tirx.Var("iteration", "int64")
            mine = (accumulator, [index(0)])
            update = stored(*mine, self.combine(loaded(*mine, self.dtype), element(thread, iteration)))
            loop = tirx.For(iteration, index(0), index(count), tirx.ForKind.SERIAL, update)
            last = stored(partial, [thread.within, thread.lane], loaded(*mine, self.dtype))
            return [tirx.AllocBuffer(accumulator), stored(*mine, self.scan.neutral), loop, last]

        def combined(mine: list[Element], other: list[Element]) -> tuple[list[Any], list[Any]]:
            return [], [self.combine(loaded(*mine[0], self.dtype), loaded(*other[0], self.dtype))]

        phases.phase(gathered)
        return phases.combine([partial], combined)[0]

    def _write_scan(self, sums: Any) -> Any:
        phases = Phases(self.shape, self.count)
        # Two, alternately: where one element is read by all threads and then written by one, TVM sees no conflict.
        prefix = phases.shared("before", self.dtype, 2)
        if sums is None:
            phases.phase(lambda thread: [stored(prefix, [thread.within, index(0)], self.scan.neutral)], 1)
        else:
            self._prefix_of_block(phases, sums, prefix)
        sizes = {"lane_sums": self.shape.lanes, "next_sums": self.shape.lanes, "elements": self.chunk}
        *lane_sums, elements = (
            phases.allocated(name, self.dtype, [self.shape.together * (size + self._padding)], "shared")
            for name, size in sizes.items()
        )
        number = tirx.Var("chunk", "int64")
        with phases.repeated(number, self.chunks):
            self._chunk(phases, number, prefix, lane_sums, elements)
        return phases.kernel()

    def _prefix_of_block(self, phases: Phases, sums: Any, prefix: Any) -> None:
        """Add the phases that reduce the parts of the line before this block's."""

        def element(thread: Thread, iteration: Any) -> Any:
            part = iteration * index(self.shape.lanes) + thread.lane
            value = loaded(sums, [thread.row, tirx.Min(part, index(self.shape.parts - 1))], self.dtype)
            return tirx.Select(tirx.LT(part, thread.part), value, self.scan.neutral)

        partial = self._reduced(phases, -(-self.shape.parts // self.shape.lanes), element)
        phases.phase(lambda thread: [stored(prefix, [thread.within, index(0)], self._first(partial, thread))], 1)

    def _chunk(self, phases: Phases, number: Any, prefix: Any, lane_sums: list[Any], elements: Any) -> None:
        """Add the phases of the next chunk of the line."""

        def first(thread: Thread) -> Any:
            chunk = thread.part * index(self.chunks) + number
            return chunk * index(self.chunk) + thread.lane * index(ELEMENTS)

        def taken(thread: Thread) -> list[Any]:
            accumulator = register("accumulator", self.dtype)
            mine = (accumulator, [index(0)])
            statements = [tirx.AllocBuffer(accumulator), stored(*mine, self.scan.neutral)]
            for element in range(ELEMENTS):
                value = self.combine(loaded(*mine, self.dtype), self._term(thread, first(thread) + index(element)))
                statements.append(stored(*mine, value))
                statements.append(
                    stored(elements, self._index_of(thread, thread.lane, element), loaded(*mine, self.dtype))
                )
            return [*statements, stored(lane_sums[0], self._index_of(thread, thread.lane), loaded(*mine, self.dtype))]

        phases.phase(taken)
        source, target = lane_sums
        distance = 1
        while distance < self.shape.lanes:
            phases.phase(lambda thread, s=source, t=target, d=distance: [self._step(thread, s, t, d)])
            source, target = target, source
            distance *= 2
        current, following = ((prefix, tirx.floormod(number + index(element), index(2))) for element in (0, 1))
        phases.phase(lambda thread: self._results(thread, first(thread), current, source, elements))
        last = index(self.shape.lanes - 1)

        def carried(thread: Thread) -> list[Any]:
            so_far = loaded(current[0], [thread.within, current[1]], self.dtype)
            value = self.combine(so_far, loaded(source, self._index_of(thread, last), self.dtype))
            return [stored(following[0], [thread.within, following[1]], value)]

        phases.phase(carried, 1)

    @property
    def _padding(self) -> int:
        """Return the padding that keeps neighbours of different lines out of one bank."""
        return 0 if self.shape.along else 1

    def _index_of(self, thread: Thread, lane: Any, element: int | None = None) -> list[Any]:
        """Return the index of a lane's sum, or element; flat, because TVM closes gaps that are dimensions."""
        size = self.shape.lanes if element is None else self.chunk
        start = index((element or 0) * self.shape.lanes)
        return [thread.within * index(size + self._padding) + start + lane]

    def _step(self, thread: Thread, source: Any, target: Any, distance: int) -> Any:
        """Return a step of the scan: each thread adds the sum of the one `distance` lanes before it."""
        mine = loaded(source, self._index_of(thread, thread.lane), self.dtype)
        lane = tirx.Max(thread.lane - index(distance), index(0))
        both = self.combine(loaded(source, self._index_of(thread, lane), self.dtype), mine)
        value = tirx.Select(tirx.GE(thread.lane, index(distance)), both, mine)
        return stored(target, self._index_of(thread, thread.lane), value)

    def _results(self, thread: Thread, first: Any, prefix: tuple[Any, Any], lane_sums: Any, elements: Any) -> list[Any]:
        start = register("start", self.dtype)
        zero = [index(0)]
        so_far = loaded(prefix[0], [thread.within, prefix[1]], self.dtype)
        others = loaded(lane_sums, self._index_of(thread, tirx.Max(thread.lane - index(1), index(0))), self.dtype)
        behind = tirx.Select(tirx.GT(thread.lane, index(0)), self.combine(so_far, others), so_far)
        statements = [tirx.AllocBuffer(start), stored(start, zero, behind)]
        for number in range(ELEMENTS):
            element = loaded(elements, self._index_of(thread, thread.lane, number), self.dtype)
            value = self.combine(loaded(start, zero, self.dtype), element)
            position = first + index(number)
            point = self._point(thread, position)
            indices = [replaced(expression, point) for expression in self.scan.nest.store.indices]
            result = stored(self.scan.nest.target, indices, value)
            statements.append(tirx.IfThenElse(tirx.LT(position, index(self.length)), result, None))
        return statements

    def _point(self, thread: Thread, position: Expr) -> dict[Any, Any]:
        point: dict[Any, Any] = {axis.variable: index(0) for axis in self.scan.nest.axes}
        point |= {self.scan.along.variable: position, self.scan.later.variable: position}
        return point | axis_values(self.scan.lines, thread.row)

    def _term(self, thread: Thread, position: Expr) -> Any:
        """Return an element, or the neutral one past the line's end."""
        point = self._point(thread, position)
        value = replaced(self.scan.term, point)
        return tirx.if_then_else(tirx.LT(position, index(self.length)), value, self.scan.neutral)
