"""Make GPU kernels of the structured operations of a function, mostly by upstream passes.

Takes a bufferized module. Gives it with a `gpu.module` for each kernel, and a host function that launches them. Each
parallel loop nest is one kernel: threads go along the innermost axis, blocks along it and the two axes around it.
Element kernels are the loops that `parallel_loops` finds, reductions are chunks of iterations with a thread each. What
is between kernels runs on one thread; loops and branches around kernels stay with the host.
"""

from __future__ import annotations

from functools import partial

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir, operations_named, public_functions
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.untranslatable import refuse
from mlirtri.lowering.mlir_backend.loops import reduction_chunks
from mlirtri.lowering.mlir_backend.loops.bufferized_to_loops import TIDY_CHUNKS, TO_WHOLE_BUFFERS, to_loops
from mlirtri.lowering.mlir_common.attributes import noted_strides
from mlirtri.lowering.mlir_common.imperative import is_imperative
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of, permute_loops
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, VIEWS_OF_MEMORY
from mlirtri.lowering.spirv import bfloat16_bits, flat_buffers, host_statements, parallel_loops
from mlirtri.lowering.spirv.parallel_loops import HOST_FLOW
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite

# What the kernels may use of SPIR-V: Vulkan 1.1 with integers and floats of all widths in buffers.
VERSION = "v1.3"
"""The SPIR-V of Vulkan 1.1."""
CAPABILITIES = (
    "Shader", "Float16", "Float64", "Int8", "Int16", "Int64", "Int64Atomics", "StorageBuffer8BitAccess",
    "StorageBuffer16BitAccess",
)  # fmt: skip
EXTENSIONS = ("SPV_KHR_storage_buffer_storage_class", "SPV_KHR_8bit_storage", "SPV_KHR_16bit_storage")
ATTACH = (
    f"spirv-attach-target{{ver={VERSION} caps={','.join(CAPABILITIES)} exts={','.join(EXTENSIONS)} client_api=Vulkan}}"
)
"""The pass that says so to each `gpu.module`. A kernel's own module lists what it uses of it."""
THREADS = 64
"""Threads of a block. Vulkan promises 128; 64 are a wavefront of AMD's and two warps of NVIDIA's."""
TO_GENERIC = (Pass("func.func(linalg-generalize-named-ops)", "every operation says its iterators"),)
TO_LOOPS = (Pass("func.func(convert-linalg-to-parallel-loops)", "structured operations become parallel loop nests"),)
TO_KERNELS = (
    Pass(
        f"func.func(scf-parallel-loop-tiling{{parallel-loop-tile-sizes={THREADS} no-min-max-bounds=true}})",
        "the first loop becomes blocks of threads, the last of which looks whether it is inside",
    ),
    Pass("func.func(gpu-map-parallel-loops)", "loops are assigned to the axes of blocks and threads"),
    Pass("func.func(convert-parallel-loops-to-gpu)", "each nest becomes a launch"),
    Pass("lower-affine", "index arithmetic becomes arith"),
    Pass("func.func(arith-expand)", "operations that SPIR-V lacks: floordivsi, ceildivsi"),
    Pass("canonicalize", "loops of one iteration vanish"),
    Pass("cse", "equal index arithmetic is computed once"),
    Pass("func.func(gpu-launch-sink-index-computations)", "constants need not be passed to a kernel"),
    Pass("gpu-kernel-outlining", "the body of each launch becomes a kernel"),
    Pass("canonicalize", "leaves nothing dead"),
)
HELP = 'use target="cpu"'
_KINDS = {"i1", "bf16", "f16", "f32", "f64", "i8", "i16", "i32", "i64"}


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower `module` in place; raises `UnsupportedOperationError`."""
    with module.context, ir.Location.unknown():
        if noted_strides(module):
            what = "an argument that is not row-major"
            refuse([(function.operation, what) for function in public_functions(module)], "SPIR-V", HELP)
        _refuse_types(module)
        is_loops = is_imperative(module)
        if is_loops:
            to_loops(module, context)
        else:
            run_passes(module, TO_GENERIC, context)
            run_rewrite("innermost-axis-first", _put_innermost_first, module, context)
            run_passes(module, TO_LOOPS, context)
            run_passes(module, TO_WHOLE_BUFFERS, context)
        run_rewrite("loops-in-chunks", partial(reduction_chunks.rewrite, on_device=True), module, context)
        run_passes(module, TIDY_CHUNKS, context)
        nests = partial(parallel_loops.rewrite, is_reversed=not is_loops)
        run_rewrite("loops-to-parallel-nests", nests, module, context)
        run_rewrite("flat-buffers", flat_buffers.rewrite, module, context)
        run_rewrite("host-statements", host_statements.rewrite, module, context)
        run_rewrite("nests-alone", parallel_loops.finish, module, context)
        run_rewrite("bfloat16-as-bits", bfloat16_bits.rewrite, module, context)
        run_passes(module, TO_KERNELS, context)
        _refuse_host_code(module)
        run_rewrite("entry-points", _mark_entry_points, module, context)
    return module


def _refuse_types(module: ir.Module) -> None:
    wrong = [
        (function.operation, f"an array of {kind.element_type}")
        for function in public_functions(module)
        for kind in function.type.inputs
        if str(kind.element_type) not in _KINDS
    ]
    refuse(wrong, "SPIR-V", HELP)


def _put_innermost_first(module: ir.Module) -> None:
    """Reverse the parallel iterators of each operation, before the others: threads go along the first one."""
    for operation in operations_named(module, "linalg.generic"):
        kinds = iterators_of(operation)
        parallel = [number for number, kind in enumerate(kinds) if kind == "parallel"]
        others = [number for number in range(len(kinds)) if number not in parallel]
        order = [*reversed(parallel), *others]
        position = {old: new for new, old in enumerate(order)}
        permute_loops(operation, order)
        for index in operations_named(operation, "linalg.index"):
            old = ir.IntegerAttr(index.attributes["dim"]).value
            index.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), position[old])


_HOST = (*ALLOCATIONS, "func.return", "gpu.launch_func", "memref.dealloc", "memref.load", "memref.get_global",
         "scf.yield", "scf.condition")  # fmt: skip


def _refuse_host_code(module: ir.Module) -> None:
    """Refuse what neither a kernel nor the host computes: views of buffers, arrays that loops carry."""
    left = []
    for function in public_functions(module):
        left += [(step, _reason(step)) for step in _host_operations(function.operation) if not _is_allowed(step)]
    for kernel in operations_named(module, "gpu.func"):
        inside = operations_named(kernel, "memref.alloc")
        left += [(_located(each), "an array of an iteration's own whose size is known at run time") for each in inside]
        left += [(view, "a view of a buffer") for view in operations_named(kernel, *VIEWS_OF_MEMORY)]
    refuse(left, "SPIR-V", HELP)


def _host_operations(root: ir.Operation) -> list[ir.Operation]:
    found = []
    for operation in [view.operation for region in root.regions for block in region for view in block.operations]:
        found.append(operation)
        if operation.name in HOST_FLOW:
            found += _host_operations(operation)
    return found


def _is_allowed(operation: ir.Operation) -> bool:
    if operation.name in HOST_FLOW:
        return not any(isinstance(value.type, ir.MemRefType) for value in operation.results)
    return operation.name in _HOST or host_statements.is_on_host(operation)


def _located(allocation: ir.OpView) -> ir.OpView:
    """Return an allocation, or its first use that has a source location."""
    users = [use.owner for use in allocation.results[0].uses]
    return next((each for each in (allocation, *reversed(users)) if span_of(each.operation.location)), allocation)


def _reason(operation: ir.Operation) -> str:
    if operation.name in VIEWS_OF_MEMORY:
        return "a view of a buffer"
    if operation.name in HOST_FLOW:
        return "an array that a loop or a branch around kernels chooses"
    return "a copy" if operation.name == "memref.copy" else f"{operation.name} between kernels"


def _mark_entry_points(module: ir.Module) -> None:
    module.operation.attributes["spirv.target_env"] = target_environment()
    for kernel in operations_named(module, "gpu.func"):
        threads = list(ir.DenseI32ArrayAttr(kernel.attributes["known_block_size"]))
        kernel.attributes["spirv.entry_point_abi"] = entry_point(threads)


def target_environment() -> ir.Attribute:
    """Return the attribute `spirv.target_env` of all of this."""
    vce = f"#spirv.vce<{VERSION}, [{', '.join(CAPABILITIES)}], [{', '.join(EXTENSIONS)}]>"
    return ir.Attribute.parse(f"#spirv.target_env<{vce}, api=Vulkan, #spirv.resource_limits<>>")


def entry_point(threads: list[int]) -> ir.Attribute:
    """Return the attribute `spirv.entry_point_abi` of a kernel with so many threads per block."""
    return ir.Attribute.parse(f"#spirv.entry_point_abi<workgroup_size = [{', '.join(map(str, threads))}]>")
