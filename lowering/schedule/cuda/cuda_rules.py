"""Schedule rules for CUDA: TVM's Dlight rules one at a time, and a last rule that binds whatever is left.

Each rule takes a PrimFunc and our target, with TVM's target in scope. Gives a `Schedule`, or None where it does not
apply. Raises `NotApplicableError` where Dlight fails, and for a schedule that asks for more than any launch may have;
any other error is a mistake of the rule. `OneThread` takes everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from mlirtri.errors import CodegenError
from mlirtri.lowering.codegen.lowered_functions import device_module, source_of
from mlirtri.lowering.codegen.targets import MAX_THREADS, SHARED_BYTES, SHARED_LIMITS, shared_limits
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.argmax import argmax
from mlirtri.lowering.schedule.cuda.element_loops import element_loops
from mlirtri.lowering.schedule.cuda.elementwise import elementwise
from mlirtri.lowering.schedule.cuda.rows import rows
from mlirtri.lowering.schedule.cuda.scans import scans
from mlirtri.lowering.schedule.cuda.tensor_cores.matmul import tensor_cores
from mlirtri.lowering.schedule.cuda.tensor_cores.register_tiles import register_tiles
from mlirtri.lowering.schedule.cuda.tiles.tile_programs import tile_programs
from mlirtri.lowering.tir.blocks import NotApplicableError, inlined, leaf_blocks
from mlirtri.lowering.tir.statements import loads_in, nodes_in, with_body
from mlirtri.lowering.toolchain.tvm_names import (
    PrimFunc,
    SBlock,
    Schedule,
    Stmt,
    WalkResult,
    dlight,
    structural_map,
    structural_walk,
    tirx,
    tvm,
)
from mlirtri.lowering.toolchain.tvm_passes import short_message

MAX_GRID = {"blockIdx.x": 2**31 - 1, "blockIdx.y": 65535, "blockIdx.z": 65535, "threadIdx.z": 64}
MAX_LOADS = 500
"""Loads per value above which the values that it reads are stored to memory."""
STEP_THREADS = 256
UNROLL_AS_TEXT = "pragma_unroll_explicit"
"""The annotation of a loop in which TVM repeats the bodies of unrolled loops, in place of ``#pragma unroll``."""
OLD_DEVICE = {
    "kind": "cuda", "arch": "sm_60",
    "max_threads_per_block": MAX_THREADS, "max_shared_memory_per_block": SHARED_BYTES,
}  # fmt: skip
"""A device without tensor cores: the only way to keep Dlight from loading their intrinsics."""


Rule = Callable[[PrimFunc, Target], "Schedule | None"]


class LaunchLimitError(CodegenError, NotApplicableError):
    """A schedule asks for more threads, blocks or shared memory than any launch may have."""


def _checked(rule, without_tensor_cores: bool = False) -> Rule:
    """Return a Dlight rule in our form, which gives only schedules that launch.

    A Dlight rule does not say in advance what it takes: whatever it raises, or does wrong, is `NotApplicableError`.
    """

    def apply(function: PrimFunc, _target: Target) -> Schedule | None:
        target = tvm.target.Target(OLD_DEVICE) if without_tensor_cores else tvm.target.Target.current()
        try:
            schedule = rule.apply(function, target, False)
            if schedule is None:
                return None
            schedule = _for_nvcc(schedule)
            check_launch(schedule.mod["main"])
        except Exception as error:
            raise NotApplicableError(short_message(error)) from error
        return schedule

    return apply


def _for_nvcc(schedule: Schedule) -> Schedule:
    """Return the schedule without vectors of bools, and with loops that nvcc unrolls, which keeps the source short."""
    body = schedule.mod["main"].body
    changed = structural_map(body, (tirx.For, lambda loop: _unrolled_by_nvcc(_without_bools(loop))), order="post")
    return schedule if changed.same_as(body) else Schedule(schedule.mod["main"].with_body(changed))


def _unrolled_by_nvcc(loop: Stmt) -> Any:
    if not loop.annotations.get(UNROLL_AS_TEXT):
        return loop
    annotations = {**loop.annotations, UNROLL_AS_TEXT: False}
    parts = (loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, loop.thread_binding)
    return tirx.For(*parts, annotations, loop.step)


def _without_bools(loop: Stmt) -> Any:
    """Return a plain loop for a vector of bools, for which TVM writes types that nvcc refuses."""
    if loop.kind != tirx.ForKind.VECTORIZED:
        return loop
    loads, stores = loads_in(loop.body), nodes_in(loop.body, tirx.BufferStore)
    dtypes = {str(buffer.dtype) for buffer in (*(load.source for load in loads), *(store.buffer for store in stores))}
    return with_body(loop, loop.body, kind=tirx.ForKind.UNROLLED) if "bool" in dtypes else loop


def _launchable(rule: Rule) -> Rule:

    def apply(function: PrimFunc, target: Target) -> Schedule | None:
        schedule = rule(function, target)
        if schedule is not None:
            check_launch(schedule.mod["main"], target)
        return schedule

    return apply


def steps(function: PrimFunc, _target: Target) -> Schedule | None:
    """Return a schedule with a kernel per block, where inlining one into another would repeat far too many loads.

    Dlight's rules inline all of them, in time exponential in the depth. None where something is reduced.
    """
    schedule = Schedule(function)
    if not all(block.is_spatial for block in leaf_blocks(schedule)) or _written_out(schedule) <= MAX_LOADS:
        return None
    for block in leaf_blocks(schedule):
        # A copy costs nothing where it is read; results are what TVM inlines nowhere.
        if len(_loads_in(schedule, block.handle)) == 1:
            inlined(schedule, block)
    for block in leaf_blocks(schedule):
        loops = schedule.get_loops(block.handle)
        together = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
        grid, thread = schedule.split(together, [None, STEP_THREADS])
        schedule.bind(grid, "blockIdx.x")
        schedule.bind(thread, "threadIdx.x")
    return schedule


def _written_out(schedule: Schedule) -> int:
    """Return how many loads the results have when all blocks are inlined."""
    sizes: dict[Any, int] = {}
    for block in leaf_blocks(schedule):
        loads = _loads_in(schedule, block.handle)
        size = 1 + sum(sizes.get(load, 1) for load in loads)
        sizes.update((load.buffer, size) for load in block.writes)
    return max(sizes.values(), default=0)


def _loads_in(schedule: Schedule, block: Any) -> list[Any]:
    return [load.source for load in loads_in(schedule.get(block).body)]


def one_thread(function: PrimFunc, _target: Target) -> Schedule:
    """Return a schedule with every block in a kernel of one thread."""
    schedule = Schedule(function)
    for block in leaf_blocks(schedule):
        loops = schedule.get_loops(block.handle)
        grid = schedule.add_unit_loop(loops[0] if loops else block.handle)
        thread = schedule.add_unit_loop(schedule.get_loops(block.handle)[1] if loops else block.handle)
        schedule.bind(grid, "blockIdx.x")
        schedule.bind(thread, "threadIdx.x")
    return schedule


def check_launch(function: PrimFunc, target: Target | None = None) -> None:
    """Raise `CodegenError` unless every block runs on threads within the limits of a launch, on any device or one."""
    _check_bound(function)
    limits = SHARED_LIMITS if target is None else shared_limits(target)
    current = tvm.target.Target.current()
    device = device_module([("kernel", function)], current)
    for _, kernel in device.functions_items():
        _check_limits(kernel, limits)
    source_of(device, current)


def _check_bound(function: PrimFunc) -> None:
    """Refuse a block that no thread loop surrounds, and a thread loop inside a plain one."""

    def skip_threads(loop):
        if loop.kind != tirx.ForKind.THREAD_BINDING:
            raise CodegenError(f"the loop {loop.loop_var.name} is around the threads")
        return WalkResult.SKIP

    def refuse(block):
        if block.name_hint != "root":
            raise CodegenError(f"block {block.name_hint} is on no thread")

    structural_walk(function.body, [(tirx.For, skip_threads), (SBlock, refuse)], order="pre")


def _check_limits(kernel: PrimFunc, limits: Mapping[str, int]) -> None:
    extents: dict[str, int] = {}
    shared = dict.fromkeys(limits, 0)

    def note(attribute):
        # Numbers of blocks that are known at run time only are checked by the driver.
        if attribute.attr_key == "thread_extent" and isinstance(attribute.value, tirx.IntImm):
            extents[str(attribute.node.thread_tag)] = int(attribute.value)

    def allocate(statement):
        if (scope := statement.buffer.scope()) in shared:
            size = prod(int(extent) for extent in statement.buffer.shape)
            shared[scope] += size * int(statement.buffer.dtype.bits) // 8

    structural_walk(kernel.body, [(tirx.AttrStmt, note), (tirx.AllocBuffer, allocate)], order="pre")
    threads = prod(extent for tag, extent in extents.items() if tag.startswith("threadIdx"))
    if threads > MAX_THREADS or any(extent > MAX_GRID.get(tag, threads) for tag, extent in extents.items()):
        raise LaunchLimitError(f"a launch of {extents} is too large")
    if any(size > limits[scope] for scope, size in shared.items()):
        raise LaunchLimitError(f"{sum(shared.values())} bytes of shared memory are too many")


CUDA_RULES = (
    ("TileProgram", _launchable(tile_programs)),
    ("Elements", element_loops),
    ("Scan", _launchable(scans)),
    ("Rows", _launchable(rows)),
    ("Argmax", _launchable(argmax)),
    ("Steps", _launchable(steps)),
    ("Elementwise", _launchable(elementwise)),
    ("TensorCores", _launchable(tensor_cores)),
    ("RegisterTiles", _launchable(register_tiles)),
    ("Matmul", _checked(dlight.gpu.Matmul(), without_tensor_cores=True)),
    ("Reduction", _checked(dlight.gpu.Reduction())),
    ("GeneralReduction", _checked(dlight.gpu.GeneralReduction())),
    ("Fallback", _checked(dlight.gpu.Fallback())),
    ("OneThread", one_thread),
)
