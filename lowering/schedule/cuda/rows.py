"""The CUDA rule for reductions and what goes along with them: sums, extrema, softmax, layernorm.

A block has one row or a few, whose threads go along the row together; values that are kept between passes are in shared
memory. Where rows are few and long, several blocks share one, and a second kernel combines their partial results.
Refuses functions that reduce nothing, and rows that do not fit shared memory.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from mlirtri.lowering.codegen.targets import MOST_THREADS
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.rows.rule import runs_along_memory
from mlirtri.lowering.schedule.cuda.phases import ELEMENTS, Shape, power_above, shape_for
from mlirtri.lowering.schedule.cuda.row_writer import ROW_BYTES, CudaRowWriter
from mlirtri.lowering.schedule.cuda.scans import scan_of
from mlirtri.lowering.schedule.rows.nests import NotRows, Obstacle, find_rows, nests_of, refuse_better_rules
from mlirtri.lowering.schedule.rows.plan import RowPlan, make_plan
from mlirtri.lowering.tir.primfunc import with_statements
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, Schedule, tirx

MOST_ROW_BYTES = 88 * 1024
"""The same for a given number of rows per block: devices since sm_80 allow as much on request."""
MOST = 8
"""Maximal blocks that share a row; above, each pass is a kernel of its own."""
BLOCKS = 256
"""Number of blocks that keep every device busy."""


def rows(function: PrimFunc, target: Target) -> Schedule | None:
    """Return a schedule with rows in blocks of threads; None where the function is no row kernel."""
    try:
        plan = plan_of(function, target)
    except NotRows:
        return None
    return Schedule(_written(function, plan, target))


def plan_of(function: PrimFunc, target: Target) -> RowPlan:
    """Return the plan of a row kernel for CUDA; raises `NotRows` with the reason where the function is none."""
    nests = nests_of(function)
    if any(scan_of(nest) is not None for nest in nests):
        raise NotRows("scans have a rule of their own")
    plan = make_plan(nests, find_rows(nests), function.params)
    if not plan.reducers:
        raise NotRows("nothing is reduced", Obstacle.USES)
    for nest in nests:
        refuse_better_rules(nest)
    shape = shape_of(plan, target)
    blocks = _blocks_per_row(shape, prod(plan.rows.extents), _length(plan))
    if len(nests) > 1 and not _can_share(plan) and blocks > MOST and target.row_tile is None:
        raise NotRows("rows are few and long, so that several blocks have to share each")
    writer = CudaRowWriter(plan, shape, function.params)
    most = ROW_BYTES if target.row_tile is None or len(writer.kept_rows) > 1 else MOST_ROW_BYTES
    if (size := writer.row_bytes()) > most:
        hint = "; MLIRTRI_ROW_TILE=1 overrides it" if size <= MOST_ROW_BYTES and target.row_tile is None else ""
        reason = f"a block's rows take {size} bytes of shared memory, and it has {most} for them{hint}"
        raise NotRows(reason, Obstacle.MEMORY)
    return plan


def shape_of(plan: RowPlan, target: Target) -> Shape:
    """Return how many threads go along a row, how many rows a block has, and how many blocks share a row."""
    count, length = prod(plan.rows.extents), _length(plan)
    along = all(runs_along_memory(plan, number) for number in plan.reducers)
    shape = shape_for(along, count, length)
    if target.row_tile is not None:
        lanes = min(shape.lanes, power_above(MOST_THREADS // target.row_tile + 1) // 2)
        shape = replace(shape, lanes=max(1, lanes), together=target.row_tile)
    return shape.shared_by(_blocks_per_row(shape, count, length)) if _can_share(plan) else shape


def _length(plan: RowPlan) -> int:
    return max([1, *(prod(step.extents) for step in plan.steps)])


def _can_share(plan: RowPlan) -> bool:
    """Return whether a row needs only reductions in one pass."""
    first, *others = plan.steps
    is_reduced = all(plan.nests[number].is_reduction for number in first.nests)
    return bool(first.extents) and is_reduced and not any(step.extents for step in others)


def _blocks_per_row(shape: Shape, count: int, length: int) -> int:
    """Return how many blocks share a row: several where rows are too few to keep the device busy."""
    blocks = -(-count // shape.together)
    return max(1, min(BLOCKS // blocks, length // (shape.lanes * 4 * ELEMENTS)))


def _written(function: PrimFunc, plan: RowPlan, target: Target) -> PrimFunc:
    body = CudaRowWriter(plan, shape_of(plan, target), function.params).written()
    # A variable that an expression binds is bound once in each copy of the expression.
    return tirx.transform.ConvertSSA()(IRModule({"main": with_statements(function, body)}))["main"]
