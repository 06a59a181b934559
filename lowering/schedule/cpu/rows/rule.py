"""The CPU rule for row kernels: rows in parallel, each in vectorised passes while it is in cache.

Where rows are interleaved in memory, a strip of rows is computed at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

from mlirtri.lowering.core.cpu import PARALLEL_ITERATIONS, cache_bytes, profitable
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.profitability import threads_are_profitable
from mlirtri.lowering.schedule.cpu.rows.block_sums import BlockWriter
from mlirtri.lowering.schedule.cpu.rows.columns import ColumnWriter, columns_of, lanes_of_rows
from mlirtri.lowering.schedule.rows.nests import BlockNest, NotRows, Obstacle, nests_of
from mlirtri.lowering.schedule.rows.plan import EXPENSIVE, RowPlan, make_plan, runs_along_memory
from mlirtri.lowering.schedule.rows.shared_axes import find_rows
from mlirtri.lowering.tir.statements import delinearized, index
from mlirtri.lowering.toolchain.tvm_names import (
    EXACT_BUFFERS,
    Buffer,
    IRModule,
    PrimFunc,
    Range,
    SBlock,
    SBlockRealize,
    Schedule,
    Stmt,
    tirx,
)

ROW_BLOCK_ITERATIONS = 16384
"""Iterations of one task, whose buffers are allocated once."""
LONGEST_ACROSS = 1024
"""Elements of rows that are interleaved: each is on another page, and the TLB has a limited number of entries."""
WAYS = 16
"""Ways of the second-level cache, on current CPUs."""
FINISHED = 16
"""Ratio of a reduction's terms to the elements computed from it, above which the latter are negligible."""


def rows(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the function with rows in parallel blocks; None where it is no row kernel."""
    try:
        nests = nests_of(function)
        # A single reduction has a rule of its own, which also divides one result among the threads.
        if len(nests) < 2 or only_finishes(nests):
            return None
        plan = plan_of(nests, function.params, target)
    except NotRows:
        return None
    across = None if is_along_memory(plan) else columns_of(plan)
    written = _written(function, plan, target) if across is None else _in_strips(function, plan, across, target)
    return Schedule(written.with_attrs({EXACT_BUFFERS: True}))


def plan_of(nests: Sequence[BlockNest], outputs: Sequence[Buffer], target: Target) -> RowPlan:
    """Return the plan of a row kernel; raises `NotRows` with the reason where nests are none, or no profitable one."""
    plan = make_plan(nests, find_rows(nests), outputs)
    if not plan.reducers:
        raise NotRows("nothing is reduced, and what makes it has other readers too", Obstacle.USES)
    if not is_along_memory(plan) and columns_of(plan) is None:
        raise NotRows("neither what it reduces nor its rows lie side by side in memory")
    if not _fits_cache(plan, target):
        reason = "elements of a row lie too far apart in memory for the second cache"
        if is_along_memory(plan):
            reason = f"a row takes {row_bytes(plan)} bytes, more than half of the second cache"
        raise NotRows(f"{reason}; MLIRTRI_ROW_TILE overrides it", Obstacle.MEMORY)
    if not _has_enough_rows(plan, target):
        raise NotRows("there are fewer rows than threads", Obstacle.THREADS)
    return plan


def is_along_memory(plan: RowPlan) -> bool:
    """Return whether all reductions read contiguous elements of a row."""
    return all(runs_along_memory(plan, n) for n in plan.reducers)


def only_finishes(nests: Sequence[BlockNest]) -> bool:
    """Return whether one reduction is followed by work on its result alone, too little for a launch or a pass."""
    first, *others = nests
    if not others or not first.is_reduction or any(nest.is_reduction for nest in others):
        return False
    work = [prod(axis.extent for axis in nest.axes) for nest in nests]
    targets = [nest.target for nest in nests]
    is_own = all(any(load.source.same_as(target) for target in targets) for nest in others for load in nest.loads)
    return is_own and FINISHED * max(work[1:]) <= work[0]


def row_bytes(plan: RowPlan) -> int:
    """Return the bytes that one row accesses."""
    buffers: dict[Any, int] = {}
    for nest, inside in zip(plan.nests, plan.inside, strict=True):
        for buffer in (nest.target, *(load.source for load in nest.loads)):
            size = prod(inside.extents) * max(1, int(buffer.dtype.bits) // 8)
            buffers[buffer] = max(buffers.get(buffer, 0), min(size, _bytes(buffer)))
    folded = [plan.nests[n].target for n in plan.folded]
    return sum(size for buffer, size in buffers.items() if not any(buffer.same_as(target) for target in folded))


def _bytes(buffer: Buffer) -> int:
    return prod(int(extent) for extent in buffer.shape) * max(1, int(buffer.dtype.bits) // 8)


def _fits_cache(plan: RowPlan, target: Target) -> bool:
    """Return whether a row stays in cache from its first pass to its last; a tile size set by the user is accepted."""
    if target.row_tile is not None:
        return True
    if is_along_memory(plan):
        return profitable(row_bytes(plan) <= cache_bytes()[2] // 2)
    # Rows that are interleaved are computed in strips, of which each element may be on a page of its own.
    longest = max(prod(step.extents) for step in plan.steps)
    return profitable(_strip(plan) > 0 and longest <= min(LONGEST_ACROSS, _most_across(plan)))


def _most_across(plan: RowPlan) -> int:
    """Return the elements of interleaved rows that L2 keeps: large strides map to few of its sets."""
    way_bytes = cache_bytes()[2] // WAYS
    targets = {nest.target for nest in plan.nests}
    steps = [
        prod(int(size) for size in load.source.shape[dimension + 1 :]) * max(1, int(load.source.dtype.bits) // 8)
        for nest, inside in zip(plan.nests, plan.inside, strict=True)
        for load in nest.loads
        if load.source not in targets
        for dimension, axis in enumerate(nest.plain(load.indices))
        if inside.groups and axis == inside.groups[-1][-1]
    ]
    return min((WAYS * way_bytes // gcd(step, way_bytes) for step in steps), default=LONGEST_ACROSS)


def _has_enough_rows(plan: RowPlan, target: Target) -> bool:
    """Return whether there is a row, or a strip, for every thread, where threads are profitable."""
    together = 1 if is_along_memory(plan) else lanes_of_rows(plan)
    return profitable(prod(plan.rows.extents) // together >= target.threads or _work(plan) < PARALLEL_ITERATIONS)


def _strip(plan: RowPlan) -> int:
    """Return the rows of a strip of interleaved rows: as many vectors as additions are in flight, or 0."""
    wide = lanes_of_rows(plan)
    fitting = (wide * times for times in (4, 2, 1) if row_bytes(plan) * wide * times <= cache_bytes()[2] // 2)
    return next(fitting, 0)


def _work(plan: RowPlan) -> int:
    steps = (prod(step.extents) * sum(_weight(plan, n) for n in step.nests) for step in plan.steps)
    return prod(plan.rows.extents) * sum(steps)


def _written(function: PrimFunc, plan: RowPlan, target: Target) -> PrimFunc:
    count = prod(plan.rows.extents)
    iterations = max(1, max(prod(step.extents) for step in plan.steps))
    together = max(1, min(count, target.row_tile or ROW_BLOCK_ITERATIONS // iterations))
    while target.row_tile is None and together > 1 and -(-count // together) < 4 * target.threads:
        together //= 2
    blocks = -(-count // together)
    block, within = tirx.Var("block", "int64"), tirx.Var("row", "int64")
    row = within if blocks == 1 else block * index(together) + within
    ahead: list[Any] = []
    if count * row_bytes(plan) > cache_bytes()[2]:
        ahead = delinearized(tirx.min(row + index(1), index(count - 1)), plan.rows.extents)
    writer = BlockWriter(plan, delinearized(row, plan.rows.extents), function.params, ahead)
    body = writer.written()
    remaining = (
        index(together) if count % together == 0 else tirx.Min(index(together), index(count) - block * index(together))
    )
    body = tirx.For(within, index(0), remaining, tirx.ForKind.SERIAL, body)
    # Allocated here, not in the block: TVM would shrink a block's buffer to one element.
    body = tirx.SeqStmt([*(tirx.AllocBuffer(buffer) for buffer in writer.memory), body])
    loop = tirx.For(block, index(0), index(blocks), _kind_of_loop(plan, target), body)
    return with_statement(function, plan.nests[-1].name, loop)


def _in_strips(function: PrimFunc, plan: RowPlan, across: range, target: Target) -> PrimFunc:
    extents = plan.rows.extents
    length, outer = prod(extents[axis] for axis in across), prod(extents[: across.start])
    width = min(length, _strip(plan) or lanes_of_rows(plan))
    strips = -(-length // width)
    task = tirx.Var("task", "int64")
    strip = index(0) if strips == 1 else tirx.floormod(task, index(strips))
    outer_indices = delinearized(task if strips == 1 else tirx.floordiv(task, index(strips)), extents[: across.start])

    def of_row(number: Any) -> list[Any]:
        along = delinearized(strip * index(width) + number, [extents[axis] for axis in across])
        return [*outer_indices, *along, *(index(0) for _ in extents[across.stop :])]

    def body(count: int) -> Any:
        writer = ColumnWriter(plan, of_row, count, function.params)
        written = writer.written()
        return tirx.SeqStmt([*(tirx.AllocBuffer(buffer) for buffer in writer.memory), written])

    full, remaining = body(width), length % width
    if remaining:
        full = tirx.IfThenElse(tirx.LT(strip, index(strips - 1)), full, body(remaining))
    loop = tirx.For(task, index(0), index(outer * strips), _kind_of_loop(plan, target), full)
    return with_statement(function, plan.nests[-1].name, loop)


def _kind_of_loop(plan: RowPlan, target: Target) -> Any:
    is_parallel = threads_are_profitable(target, _work(plan))
    return tirx.ForKind.PARALLEL if is_parallel else tirx.ForKind.SERIAL


def with_statement(function: PrimFunc, name: str, statement: Stmt) -> PrimFunc:
    """Return the function with `statement` in one block that may read and write all parameters."""
    regions = [
        tirx.BufferRegion(parameter, [Range(index(0), size) for size in parameter.shape])
        for parameter in function.params
    ]
    inner = SBlockRealize([], True, SBlock([], regions, regions, name, statement))
    root = SBlockRealize([], True, SBlock([], [], [], "root", inner))
    result = PrimFunc(list(function.params), root, function.ret_type, function.attrs)
    # Copies of expressions bind the same variables.
    return tirx.transform.ConvertSSA()(IRModule({"main": result}))["main"]


def _weight(plan: RowPlan, n: int) -> int:
    return 16 if plan.cost(n) >= EXPENSIVE else 1
