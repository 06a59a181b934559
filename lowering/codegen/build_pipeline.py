"""TVM's own lowering of TIR with our passes before, within and after it, registered as two pipelines of TVM's."""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.codegen.passes import descending_indices
from mlirtri.lowering.codegen.passes.arithmetic import (
    cast_index_bits,
    expand_wrapping,
    fence_products,
    mark_wrapping,
    select_predicates,
)
from mlirtri.lowering.core.stage import TILE_KERNEL
from mlirtri.lowering.elementary import tir_pass as vector_math
from mlirtri.lowering.tir.statements import nodes_in, rewritten, substituted
from mlirtri.lowering.toolchain import tvm_names
from mlirtri.lowering.toolchain.tvm_names import EXACT_BUFFERS, IMPERATIVE

BUILD_PIPELINE = "mlirtri"
LOWERED_PIPELINE = "mlirtri.lowered"
"""The remaining passes for modules lowered by `BUILD_PIPELINE`."""


_NOT_FOR_STATEMENTS = ("s_tir.CompactBufferAllocation", "tirx.RemoveNoOp", "s_tir.HoistIfThenElse")
"""TVM passes that imperative functions and those with exact buffers skip.

Their buffers need no compaction, LLVM does the rest, and these passes take most of the time of run-time sized tiles.
"""
_NOT_FOR_EXACT_BUFFERS = _NOT_FOR_STATEMENTS[:1]
"""What functions with exact buffers skip on a device. Under a condition on ``task % chunks`` TVM's compaction leaves
the loop's variable in the shape of a buffer that is allocated outside of the loop."""
_NOT_ON_A_CPU = (
    "s_tir.LowerCrossThreadReduction", "s_tir.LiftThreadBinding", "s_tir.UnifyThreadBinding", "s_tir.LowerAutoCopy",
    "s_tir.ManifestSharedMemoryLocalStage", "s_tir.InjectPermutedLayout", "s_tir.InjectSoftwarePipeline",
    "s_tir.TransformMmaBufferLayout", "s_tir.InjectVirtualThread", "s_tir.InjectDoubleBuffer", "s_tir.VerifyVTCMLimit",
    "s_tir.LowerVtcmAlloc", "s_tir.ThreadSync", "s_tir.InferFragment", "s_tir.LowerThreadAllreduce",
    "s_tir.MergeSharedMemoryAllocations", "tirx.AnnotateEntryFunc",
)  # fmt: skip
"""TVM passes for the threads and memories of a device: on a CPU's loops they take a tenth of the lowering's time.

The last one gives a module's only function a second name, "main": one more function for LLVM.
"""


def _build_pipeline():
    """Return TVM's own lowering with `let` variables made unique: unrolling and the bf16 pass repeat them."""
    lowering, host, device = tvm_names.tvm.tirx.get_tir_pipeline("s_tir")
    lowering = _pass("Lowering", _with_statements_in_place(lowering))
    # Also before, because fusion and inlining repeat `let` variables, and TVM's simplifier refuses that.
    unique = tvm_names.tirx.transform.ConvertSSA()
    before = [unique, _pass("IndexBits", cast_index_bits), _pass("Predicates", select_predicates)]
    before.append(_pass("AscendIndices", descending_indices.ascend))
    before += [_pass("MarkFunctions", vector_math.mark), _pass("MarkIntegers", mark_wrapping)]
    # Late: our operators are neither to be simplified nor fenced.
    after = [_pass("FenceProducts", fence_products), _pass("ExpandFunctions", vector_math.expand), unique]
    after.append(_pass("ExpandIntegers", expand_wrapping))
    finish_device = tvm_names.Sequential([device(), _pass("UnitLoops", _without_unit_loops)])
    return tvm_names.Sequential([*before, lowering, *after]), host, lambda: finish_device


def _with_statements_in_place(lowering):
    """Return TVM's lowering without hoisting of allocations above the computation of their sizes.

    Its CSE, too, would place an expression after the statement that needs it, if that is inside of a `let`.
    """

    def run(mod):
        functions = [function for _, function in mod.functions_items()]
        is_imperative = any(IMPERATIVE in (function.attrs or {}) for function in functions)
        has_lets = any(nodes_in(function.body, tvm_names.tirx.Let) for function in functions)
        is_cuda = any(not vector_math.is_for_cpu(function) for function in functions)
        # On a device TVM simplifies once more: it puts integers back, and leaves variables that nothing reads.
        has_no_cse = has_lets or is_imperative or is_cuda
        config: dict[str, Any] = {"tirx.disable_storage_rewrite": is_imperative, "tirx.disable_cse_tir": has_no_cse}
        if is_cuda:
            config["tirx.UnrollLoop"] = {"explicit_unroll": False}
        has_exact_buffers = all(EXACT_BUFFERS in (function.attrs or {}) for function in functions)
        disabled = _NOT_FOR_EXACT_BUFFERS if has_exact_buffers else ()
        disabled = _NOT_FOR_STATEMENTS if is_imperative or (has_exact_buffers and not is_cuda) else disabled
        if not is_cuda:
            disabled = (*disabled, *_NOT_ON_A_CPU)
        if any(TILE_KERNEL in (function.attrs or {}) for function in functions):
            # Their barriers are written, those that one thread needs left out.
            disabled = (*disabled, "s_tir.ThreadSync")
        with tvm_names.tvm.transform.PassContext(config=config, disabled_pass=list(disabled)):
            return lowering(mod)

    return run


def _pass(name: str, rewrite):
    return tvm_names.tvm.transform.module_pass(lambda mod, _: rewrite(mod), opt_level=0, name=name)


def _without_unit_loops(mod: tvm_names.IRModule) -> tvm_names.IRModule:
    """Replace loops of one iteration by their bodies: TVM leaves one where a thread's loop had annotations."""
    return rewritten(mod, (tvm_names.tirx.For, _body_of_unit))


def _body_of_unit(loop: tvm_names.tirx.For) -> Any:
    is_unit = isinstance(loop.extent, tvm_names.tirx.IntImm) and loop.extent.value == 1
    return substituted(loop.body, loop.loop_var, loop.min) if is_unit and loop.thread_binding is None else loop


tvm_names.tvm.tirx.register_tir_pipeline(BUILD_PIPELINE, _build_pipeline)
tvm_names.tvm.tirx.register_tir_pipeline(LOWERED_PIPELINE, lambda: (tvm_names.Sequential([]), *_build_pipeline()[1:]))
