"""Steps of a TVM `Schedule` for one loop nest: fuse, vectorise, parallelise."""

from __future__ import annotations

from mlirtri.lowering.codegen.targets import lanes_in_register
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.profitability import CALL_COST, threads_are_profitable
from mlirtri.lowering.tir.blocks import BlockFacts
from mlirtri.lowering.toolchain.tvm_names import Loop, Schedule

ROWS_OF_A_TRANSPOSE = 64
"""Rows that a transpose does for one vector of columns, so that each cache line that it loads is used as a whole."""


def lanes_of(block: BlockFacts) -> int:
    """Return the lanes of a register of a block's widest element, taken as 32 bits or more; 1 rules out vectors."""
    if not block.vectorizes:
        return 1
    accesses = (*block.reads, *block.writes)
    return lanes_in_register(*(int(access.buffer.dtype.bits) for access in accesses), least_bits=32)


def parallel_if_profitable(schedule: Schedule, loop: Loop, iterations: int, target: Target) -> None:
    """Make a loop parallel unless the work of the whole nest is too small."""
    if threads_are_profitable(target, iterations):
        schedule.parallel(loop)


def weight(block: BlockFacts) -> int:
    """Return the cost of a block in plain loop bodies."""
    return block.iterations * (CALL_COST if block.calls else 1)


def spatial(schedule: Schedule, block: BlockFacts, target: Target) -> None:
    """Schedule one elementwise nest at the root: fused where all accesses have the same indices, by rows otherwise."""
    loops = schedule.get_loops(block.handle)
    if not loops:
        return
    everything = tuple(range(len(block.extents)))
    if all(access.axes in (everything, ()) for access in (*block.reads, *block.writes)):
        loops = [schedule.fuse(*loops)]
    *outer, inner = loops
    outer_iterations = block.iterations // int(schedule.get(inner).extent)
    halves = vectorize(schedule, inner, lanes_of(block))
    if (crossing := _crossing_axis(block)) is not None and len(loops) == len(block.extents):
        outer[crossing], within = schedule.split(outer[crossing], [None, ROWS_OF_A_TRANSPOSE])
        schedule.reorder(*outer, *halves, within)
    if outer_iterations < 4 * target.threads:
        outer = [*outer, *halves[:1]]
    if outer:
        parallel_if_profitable(schedule, schedule.fuse(*outer) if len(outer) > 1 else outer[0], weight(block), target)


def _crossing_axis(block: BlockFacts) -> int | None:
    """Return the axis along which a transposing load is contiguous, where it is long enough to cut; else None."""
    last = len(block.extents) - 1
    for access in block.reads:
        axis = access.axes[-1] if access.axes else None
        if axis is not None and axis != last and last in access.axes:
            return axis if block.extents[axis] % ROWS_OF_A_TRANSPOSE == 0 else None
    return None


def vectorize(schedule: Schedule, loop: Loop, lanes: int) -> list[Loop]:
    """Vectorise a loop whose extent is a multiple of `lanes`; return the loops that are left, for LLVM to vectorise."""
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
