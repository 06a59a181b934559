"""Schedule rules for CUDA: TVM's Dlight rules one at a time, and a last rule that binds whatever is left.

Each rule takes a PrimFunc and our target, with TVM's target in scope. Gives a `Schedule`, or None where it does not
apply. It raises `CodegenError` for a schedule that leaves a block outside the threads, asks for more than any launch
may have, or for which TVM makes no source: the next rule is tried then. `OneThread` is right for everything.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from mlirtri.errors import CodegenError
from mlirtri.lowering.cuda_source import device_module, source_of
from mlirtri.lowering.schedule_blocks import leaf_blocks
from mlirtri.lowering.target import Target
from mlirtri.lowering.tvm_names import PrimFunc, SBlock, Schedule, WalkResult, dlight, structural_walk, tirx, tvm

MOST_THREADS = 1024
MOST_BLOCKS = {"blockIdx.x": 2**31 - 1, "blockIdx.y": 65535, "blockIdx.z": 65535, "threadIdx.z": 64}
SHARED_BYTES = 48 * 1024
"""What a block may have without a launch attribute that asks for more."""
TENSOR_CORE_POINTS = 2**24
"""Products smaller than 256³ stay off the tensor cores: TVM takes 20 seconds to load the intrinsics of the first."""
NO_TENSOR_CORES = "dlight.do_not_tensorize"


def _checked(rule) -> Callable[[PrimFunc, Target], Schedule | None]:
    """A Dlight rule in our form, whose schedules are given only if they launch."""

    def apply(function: PrimFunc, _target: Target) -> Schedule | None:
        schedule = rule.apply(function, tvm.target.Target.current(), False)
        if schedule is not None:
            check_launch(schedule.mod["main"])
        return schedule

    return apply


def matmul(function: PrimFunc, target: Target) -> Schedule | None:
    """Tiles in shared memory; tensor cores for large half-precision products."""
    if not _fits_tensor_cores(function):
        function = function.with_attr(NO_TENSOR_CORES, True)
    return _checked(dlight.gpu.Matmul())(function, target)


def _fits_tensor_cores(function: PrimFunc) -> bool:
    for block in leaf_blocks(Schedule(function)):
        operands = {str(read.buffer.dtype) for read in block.reads if not read.buffer.same_as(block.target)}
        if not block.is_spatial and block.points >= TENSOR_CORE_POINTS and operands == {"float16"}:
            return True
    return False


def matmul_without_tensor_cores(function: PrimFunc, target: Target) -> Schedule | None:
    """The same where TVM's tensor core schedule cannot be made into source."""
    return _checked(dlight.gpu.Matmul())(function.with_attr(NO_TENSOR_CORES, True), target)


def one_thread(function: PrimFunc, _target: Target) -> Schedule:
    """Every block in a kernel of one thread."""
    schedule = Schedule(function)
    for block in leaf_blocks(schedule):
        loops = schedule.get_loops(block.handle)
        grid = schedule.add_unit_loop(loops[0] if loops else block.handle)
        thread = schedule.add_unit_loop(schedule.get_loops(block.handle)[1] if loops else block.handle)
        schedule.bind(grid, "blockIdx.x")
        schedule.bind(thread, "threadIdx.x")
    return schedule


def check_launch(function: PrimFunc) -> None:
    """Raise `CodegenError` unless every block runs on threads within the limits of a launch."""
    _check_bound(function)
    target = tvm.target.Target.current()
    device = device_module([("kernel", function)], target)
    for _, kernel in device.functions_items():
        _check_limits(kernel)
    source_of(device, target)


def _check_bound(function: PrimFunc) -> None:
    """Refuse a block that no thread loop surrounds."""

    def skip_threads(loop):
        return WalkResult.SKIP if loop.kind == tirx.ForKind.THREAD_BINDING else WalkResult.ADVANCE

    def refuse(block):
        if block.name_hint != "root":
            raise CodegenError(f"block {block.name_hint} is on no thread")

    structural_walk(function.body, [(tirx.For, skip_threads), (SBlock, refuse)], order="pre")


def _check_limits(kernel: PrimFunc) -> None:
    extents: dict[str, int] = {}
    shared = []

    def note(attribute):
        if attribute.attr_key == "thread_extent":
            extents[str(attribute.node.thread_tag)] = int(attribute.value)

    def allocate(statement):
        if statement.buffer.scope().startswith("shared"):
            size = prod(int(extent) for extent in statement.buffer.shape)
            shared.append(size * int(statement.buffer.dtype.bits) // 8)

    structural_walk(kernel.body, [(tirx.AttrStmt, note), (tirx.AllocBuffer, allocate)], order="pre")
    threads = prod(extent for tag, extent in extents.items() if tag.startswith("threadIdx"))
    if threads > MOST_THREADS or any(extent > MOST_BLOCKS.get(tag, threads) for tag, extent in extents.items()):
        raise CodegenError(f"a launch of {extents} is too large")
    if sum(shared) > SHARED_BYTES:
        raise CodegenError(f"{sum(shared)} bytes of shared memory are too many")


CUDA_RULES = (
    ("Matmul", matmul),
    ("MatmulWithoutTensorCores", matmul_without_tensor_cores),
    ("GEMV", _checked(dlight.gpu.GEMV())),
    ("Reduction", _checked(dlight.gpu.Reduction())),
    ("GeneralReduction", _checked(dlight.gpu.GeneralReduction())),
    ("Transpose", _checked(dlight.gpu.Transpose())),
    ("Fallback", _checked(dlight.gpu.Fallback())),
    ("OneThread", one_thread),
)
