"""The CUDA rule for reductions and what goes along with them: sums, extrema, softmax, layernorm.

Takes a PrimFunc of plain nests that share the axes of their rows (`row_nests.py`).
Gives a function that we write ourselves: a row, or a few, per block, whose threads go along the row side by side; what
the passes over a row hand on is in shared memory. Where rows are few and long, several blocks share one, and a
second kernel combines what they have. None where nothing is reduced, or a row does not fit shared memory.
"""

from __future__ import annotations

from math import prod
from typing import Any

from mlirtri.lowering.cpu_rows import runs_along_memory
from mlirtri.lowering.cuda_phases import ELEMENTS, Shape, shape_for
from mlirtri.lowering.cuda_row_writer import CudaRowWriter
from mlirtri.lowering.row_nests import Nest, NotRows, find_rows, nests_of
from mlirtri.lowering.row_plan import RowPlan, make_plan
from mlirtri.lowering.target import Target
from mlirtri.lowering.tvm_names import PrimFunc, SBlock, SBlockRealize, Schedule, tirx

ROW_BYTES = 40 * 1024
"""Shared memory that rows may take; what is left of the smallest device's is for partial results."""
MOST = 8
"""Blocks that would share a row; where it is more, its passes are kernels of their own."""
BLOCKS = 256
"""Blocks that keep every device busy."""


def rows(function: PrimFunc, _target: Target) -> Schedule | None:
    """Rows in blocks of threads; None where the function is no such kernel."""
    try:
        plan = plan_of(function)
    except NotRows:
        return None
    return Schedule(_written(function, plan))


def why_not(function: PrimFunc) -> str | None:
    """Why a function is no row kernel, in words; None where it is one."""
    try:
        plan_of(function)
    except NotRows as reason:
        return str(reason)
    return None


def plan_of(function: PrimFunc) -> RowPlan:
    """The plan of a row kernel for CUDA; raises `NotRows` with the reason where the function is none."""
    nests = nests_of(function)
    plan = make_plan(nests, find_rows(nests), function.params)
    if not plan.reducers:
        raise NotRows("nothing is reduced")
    for nest in nests:
        if nest.is_reduction and any(_is_window(nest, load) for load in nest.loads):
            raise NotRows(f"{nest.name} reads windows, not rows")
        kept = {at for at, axis in enumerate(nest.axes) if not axis.is_reduction and axis.extent > 1}
        sets = [kept & set(nest.plain(load.indices)) for load in nest.loads]
        if nest.is_reduction and any(one - other and other - one for one in sets for other in sets):
            raise NotRows(f"{nest.name} is a matrix product, which has rules of its own")
    shape = shape_of(plan)
    if (
        len(nests) > 1
        and not _can_share(plan)
        and _blocks_per_row(shape, prod(plan.rows.extents), _length(plan)) > MOST
    ):
        raise NotRows("rows are few and long, so that several blocks have to share each")
    if (size := CudaRowWriter(plan, shape, function.params).row_bytes()) > ROW_BYTES:
        raise NotRows(f"a row takes {size} bytes of shared memory, and a block has {ROW_BYTES} for it")
    return plan


def _is_window(nest: Nest, load: Any) -> bool:
    pairs = zip(nest.plain(load.indices), load.indices, strict=True)
    return any(axis is None and not isinstance(one, tirx.IntImm) for axis, one in pairs)


def shape_of(plan: RowPlan) -> Shape:
    """How many threads go along a row, how many rows a block has, and how many blocks share a row."""
    count, length = prod(plan.rows.extents), _length(plan)
    along = all(runs_along_memory(plan, at) for at in plan.reducers)
    shape = shape_for(along, count, length)
    return shape.shared_by(_blocks_per_row(shape, count, length)) if _can_share(plan) else shape


def _length(plan: RowPlan) -> int:
    return max([1, *(prod(step.extents) for step in plan.steps)])


def _can_share(plan: RowPlan) -> bool:
    """Whether all that a row needs of its elements are reductions in one pass."""
    first, *others = plan.steps
    is_reduced = all(plan.nests[at].is_reduction for at in first.nests)
    return bool(first.extents) and is_reduced and not any(step.extents for step in others)


def _blocks_per_row(shape: Shape, count: int, length: int) -> int:
    """How many blocks share a row that one would take long for, while the device had nothing else to do."""
    blocks = -(-count // shape.together)
    return max(1, min(BLOCKS // blocks, length // (shape.lanes * 4 * ELEMENTS)))


def _written(function: PrimFunc, plan: RowPlan) -> PrimFunc:
    body = CudaRowWriter(plan, shape_of(plan), function.params).written()
    root = SBlockRealize([], True, SBlock([], [], [], "root", body))
    return PrimFunc(list(function.params), root, function.ret_type, function.attrs)
