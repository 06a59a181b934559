"""How the CPU's schedule rules treat one loop nest: flatten, vectorise, spread over threads.

Takes a `Schedule` under construction and the facts of a block. Changes that block's loops only.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.codegen.targets import vector_bits
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.parallel import PARALLEL_POINTS, worth
from mlirtri.lowering.tir.blocks import BlockFacts
from mlirtri.lowering.toolchain.tvm_names import Schedule

ROWS_OF_A_TRANSPOSE = 64
"""Rows that a transpose does for one vector of columns, so that each line of memory that it read is used up."""
CALL_POINTS = 16
"""How many plain loop bodies one with a function call such as `exp` is worth."""


def lanes_of(block: BlockFacts) -> int:
    """Vector lanes for a block: a register of its widest element, taken as 32 bits or more; 1 forbids vectors."""
    if not block.vectorizes:
        return 1
    widest = max(int(access.buffer.dtype.bits) for access in (*block.reads, *block.writes))
    return vector_bits() // max(widest, 32)


def parallel_if_worth(schedule: Schedule, loop: Any, points: int, target: Target) -> None:
    """Run a loop on several threads unless the whole work is too small."""
    if target.threads > 1 and worth(points >= PARALLEL_POINTS):
        schedule.parallel(loop)


def weight(block: BlockFacts) -> int:
    return block.points * (CALL_POINTS if block.calls else 1)


def spatial(schedule: Schedule, block: BlockFacts, target: Target) -> None:
    """One elementwise nest at the root: flat where all accesses agree, by rows otherwise."""
    loops = schedule.get_loops(block.handle)
    if not loops:
        return
    everything = tuple(range(len(block.extents)))
    if all(access.axes in (everything, ()) for access in (*block.reads, *block.writes)):
        loops = [schedule.fuse(*loops)]
    *outer, inner = loops
    outer_points = block.points // int(schedule.get(inner).extent)
    halves = vectorize(schedule, inner, lanes_of(block))
    if (crossing := _crossing_axis(block)) is not None and len(loops) == len(block.extents):
        outer[crossing], within = schedule.split(outer[crossing], [None, ROWS_OF_A_TRANSPOSE])
        schedule.reorder(*outer, *halves, within)
    if outer_points < 4 * target.threads:
        outer = [*outer, *halves[:1]]
    if outer:
        parallel_if_worth(schedule, schedule.fuse(*outer) if len(outer) > 1 else outer[0], weight(block), target)


def _crossing_axis(block: BlockFacts) -> int | None:
    """The axis along which a transposing read runs through memory, where it is long enough to cut."""
    last = len(block.extents) - 1
    for access in block.reads:
        axis = access.axes[-1] if access.axes else None
        if axis is not None and axis != last and last in access.axes:
            return axis if block.extents[axis] % ROWS_OF_A_TRANSPOSE == 0 else None
    return None


def vectorize(schedule: Schedule, loop: Any, lanes: int) -> list[Any]:
    """Vectorise a loop that divides into vectors and give what is left of it outside; LLVM does the odd sizes."""
    extent = int(schedule.get(loop).extent)
    while lanes > 4 and extent % lanes:
        lanes //= 2
    if lanes < 4 or extent % lanes:
        return [loop]
    if extent == lanes:
        schedule.vectorize(loop)
        return []
    outer, inner = schedule.split(loop, [None, lanes])
    schedule.vectorize(inner)
    return [outer]
