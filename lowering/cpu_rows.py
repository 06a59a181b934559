"""The CPU rule for row kernels: softmax, layernorm and whatever else reduces rows and goes along them again.

Takes a PrimFunc of plain nests that share the axes of their rows. Gives a function that we write ourselves: rows in
parallel, all of a row while it is in cache, each pass with vectors and several partial results, an odd end as one
shorter vector. None where there is no such row, or it does not fit half of the second cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mlirtri.lowering.cpu_facts import cache_bytes
from mlirtri.lowering.cpu_loops import PARALLEL_POINTS
from mlirtri.lowering.cpu_parallel import worth
from mlirtri.lowering.row_nests import Nest, NotRows, find_rows, nests_of
from mlirtri.lowering.row_passes import RowWriter
from mlirtri.lowering.row_plan import DEAR, RowPlan, make_plan
from mlirtri.lowering.target import Target
from mlirtri.lowering.tir_statements import index
from mlirtri.lowering.tvm_names import IRModule, PrimFunc, Range, SBlock, SBlockRealize, Schedule, tirx

ROW_BLOCK_POINTS = 16384
"""Elements of one block of rows: its memory is allocated once, and it is what a thread takes."""
FINISHED = 16
"""Terms of a reduction for each element of what follows it in the same function."""


def rows(function: PrimFunc, target: Target) -> Schedule | None:
    """Whole rows, one after the other, in parallel blocks."""
    plan = plan_of(function)
    if plan is None or not fits_cache(plan, target) or not has_enough_rows(plan, target):
        return None
    return Schedule(_written(function, plan, target))


def plan_of(function: PrimFunc) -> RowPlan | None:
    """The plan of a PrimFunc of several nests, if it is a row kernel with reductions along neighbours in memory."""
    try:
        nests = nests_of(function)
        plan = make_plan(nests, find_rows(nests), function.params)
    except NotRows:
        return None
    # Reductions have a rule of their own, which shares one result among the threads, too.
    if (
        len(nests) < 2
        or only_finishes(nests)
        or not plan.reducers
        or not all(runs_along_memory(plan, at) for at in plan.reducers)
    ):
        return None
    return plan


def only_finishes(nests: Sequence[Nest]) -> bool:
    """Whether one reduction is followed by work on its result alone, too little for a launch or a pass of its own."""
    first, *others = nests
    if not others or not first.is_reduction or any(nest.is_reduction for nest in others):
        return False
    work = [prod(axis.extent for axis in nest.axes) for nest in nests]
    own = [nest.target for nest in nests]
    is_own = all(any(load.source.same_as(each) for each in own) for nest in others for load in nest.loads)
    return is_own and FINISHED * max(work[1:]) <= work[0]


def runs_along_memory(plan: RowPlan, at: int) -> bool:
    """Whether the last axis of a nest within its row has neighbours in memory, in some of what it reads."""
    nest, inside = plan.nests[at], plan.inside[at]
    if not inside.groups:
        return True
    last = inside.groups[-1][-1]
    return any(load.indices and nest.plain(load.indices)[-1] == last for load in nest.loads)


def row_bytes(plan: RowPlan) -> int:
    """Memory that one row touches."""
    buffers: dict[Any, int] = {}
    for nest, inside in zip(plan.nests, plan.inside, strict=True):
        for buffer in (nest.target, *(load.source for load in nest.loads)):
            size = prod(inside.extents) * max(1, int(buffer.dtype.bits) // 8)
            buffers[buffer] = max(buffers.get(buffer, 0), min(size, _bytes(buffer)))
    folded = [plan.nests[at].target for at in plan.folded]
    return sum(size for buffer, size in buffers.items() if not any(buffer.same_as(each) for each in folded))


def _bytes(buffer: Any) -> int:
    return prod(int(extent) for extent in buffer.shape) * max(1, int(buffer.dtype.bits) // 8)


def fits_cache(plan: RowPlan, target: Target) -> bool:
    """Whether a row stays in cache from its first pass to its last; a tile that somebody asks for is taken as it is."""
    return target.row_tile is not None or worth(row_bytes(plan) <= cache_bytes()[2] // 2)


def has_enough_rows(plan: RowPlan, target: Target) -> bool:
    """Whether every thread has a row, where there is work for several."""
    return worth(prod(plan.rows.extents) >= target.threads or _work(plan) < PARALLEL_POINTS)


def _work(plan: RowPlan) -> int:
    """Plain loop bodies, in number."""
    steps = (prod(step.extents) * sum(_weight(plan, at) for at in step.nests) for step in plan.steps)
    return prod(plan.rows.extents) * sum(steps)


def _written(function: PrimFunc, plan: RowPlan, target: Target) -> PrimFunc:
    count = prod(plan.rows.extents)
    points = max(1, max(prod(step.extents) for step in plan.steps))
    together = max(1, min(count, target.row_tile or ROW_BLOCK_POINTS // points))
    while target.row_tile is None and together > 1 and -(-count // together) < 4 * target.threads:
        together //= 2
    blocks = -(-count // together)
    block, within = tirx.Var("block", "int64"), tirx.Var("row", "int64")
    row = within if blocks == 1 else block * index(together) + within
    ahead: list[Any] = []
    if count * row_bytes(plan) > cache_bytes()[2]:
        ahead = _row_indices(tirx.min(row + index(1), index(count - 1)), plan.rows.extents)
    writer = RowWriter(plan, _row_indices(row, plan.rows.extents), function.params, ahead)
    body = writer.written()
    left = (
        index(together) if count % together == 0 else tirx.Min(index(together), index(count) - block * index(together))
    )
    body = tirx.For(within, index(0), left, tirx.ForKind.SERIAL, body)
    # Not the block's own memory, of which TVM would keep one element of what one vector goes through.
    body = tirx.SeqStmt([*(tirx.AllocBuffer(each) for each in writer.memory), body])
    kind = (
        tirx.ForKind.PARALLEL if target.threads > 1 and worth(_work(plan) >= PARALLEL_POINTS) else tirx.ForKind.SERIAL
    )
    return with_statement(function, plan.nests[-1].name, tirx.For(block, index(0), index(blocks), kind, body))


def with_statement(function: PrimFunc, name: str, statement: Any) -> PrimFunc:
    """The function that does `statement`, in one block that may read and write all parameters."""
    whole = [tirx.BufferRegion(each, [Range(index(0), size) for size in each.shape]) for each in function.params]
    inner = SBlockRealize([], True, SBlock([], whole, whole, name, statement))
    root = SBlockRealize([], True, SBlock([], [], [], "root", inner))
    made = PrimFunc(list(function.params), root, function.ret_type, function.attrs)
    # What expressions name is named once in each of their copies.
    return tirx.transform.ConvertSSA()(IRModule({"main": made}))["main"]


def _weight(plan: RowPlan, at: int) -> int:
    return 16 if plan.cost(at) >= DEAR else 1


def _row_indices(row: Any, extents: Sequence[int]) -> list[Any]:
    """The index along each of the rows' axes, of a row's number."""
    indices: list[Any] = []
    for at in range(len(extents)):
        inner = prod(extents[at + 1 :])
        index_here = row if inner == 1 else tirx.floordiv(row, index(inner))
        indices.append(index_here if at == 0 else tirx.floormod(index_here, index(extents[at])))
    return indices
