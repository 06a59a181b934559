"""Our targets as TVM's. The host's CPU is named, because code for a generic x86 is nine times slower."""

from __future__ import annotations

from functools import lru_cache

from mlirtri.lowering.codegen.passes.arithmetic import (
    cast_index_bits,
    expand_wrapping,
    fence_products,
    mark_wrapping,
    select_predicates,
)
from mlirtri.lowering.codegen.passes.device_text import without_unit_loops
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.elementary import tir_pass as vector_math
from mlirtri.lowering.toolchain import tvm_names
from mlirtri.lowering.toolchain.tvm_names import EXACT_BUFFERS, IMPERATIVE

MAX_THREADS = 1024
SHARED_BYTES = 48 * 1024
"""Shared memory per block on every CUDA device since sm_75, without opting in to more."""


@lru_cache(maxsize=8)
def tvm_target(target: Target) -> tvm_names.Target:
    """Return TVM's target for `target`; a CUDA target's host is this CPU."""
    # LLVM's level 3 takes twice as long, and undoes product tiles that level 2 keeps.
    host = tvm_names.Target({"kind": "llvm", "opt-level": 2, "mcpu": host_cpu(), "num-cores": max(1, target.threads)})
    if not target.is_cuda:
        return host
    return tvm_names.Target(_cuda(target.architecture), host=host)


@lru_cache(maxsize=1)
def host_cpu() -> str:
    """Return LLVM's name of this CPU."""
    return str(tvm_names.tvm.target.codegen.llvm_get_system_cpu())


@lru_cache(maxsize=1)
def cpu_features() -> frozenset[str]:
    """Return LLVM's names of this CPU's instruction sets."""
    with tvm_names.Target({"kind": "llvm", "mcpu": host_cpu()}):
        return frozenset(str(feature) for feature in tvm_names.tvm.target.codegen.llvm_get_cpu_features())


def vector_bits() -> int:
    return next((bits for feature, bits in (("avx512f", 512), ("avx", 256)) if feature in cpu_features()), 128)


def vector_registers() -> int:
    """Return the number of vector registers: 32 with AVX-512 and on 64-bit ARM, else 16."""
    return 32 if vector_bits() == 512 or cpu_features() & {"neon", "sve"} else 16


def _cuda(architecture: str) -> dict:
    return {
        "kind": "cuda",
        "arch": architecture,
        "max_threads_per_block": MAX_THREADS,
        "max_num_threads": MAX_THREADS,
        "max_shared_memory_per_block": SHARED_BYTES,
        "thread_warp_size": 32,
    }


BUILD_PIPELINE = "mlirtri"
LOWERED_PIPELINE = "mlirtri.lowered"
"""The remaining passes for modules lowered by `BUILD_PIPELINE`."""


_NOT_FOR_STATEMENTS = ("s_tir.CompactBufferAllocation", "tirx.RemoveNoOp", "s_tir.HoistIfThenElse")
"""TVM passes that imperative functions and those with exact buffers skip.

Their buffers need no compaction, LLVM does the rest, and these passes take most of the time of run-time sized tiles.
"""


def _build_pipeline():
    """Return TVM's own lowering with `let` variables made unique: unrolling and the bf16 pass repeat them."""
    lowering, host, device = tvm_names.tvm.tirx.get_tir_pipeline("s_tir")
    lowering = _pass("Lowering", _with_statements_in_place(lowering))
    # Also before, because fusion and inlining repeat `let` variables, and TVM's simplifier refuses that.
    unique = tvm_names.tirx.transform.ConvertSSA()
    before = [unique, _pass("IndexBits", cast_index_bits), _pass("Predicates", select_predicates)]
    before += [_pass("MarkFunctions", vector_math.mark), _pass("MarkIntegers", mark_wrapping)]
    # Late: our operators are neither to be simplified nor fenced.
    after = [_pass("FenceProducts", fence_products), _pass("ExpandFunctions", vector_math.expand), unique]
    after.append(_pass("ExpandIntegers", expand_wrapping))
    finish_device = tvm_names.Sequential([device(), _pass("UnitLoops", without_unit_loops)])
    return tvm_names.Sequential([*before, lowering, *after]), host, lambda: finish_device


def _with_statements_in_place(lowering):
    """Return TVM's lowering without hoisting of allocations above the computation of their sizes.

    Its CSE, too, would place an expression behind the statement that needs it, if that is inside of a `let`.
    """

    def run(mod):
        functions = [function for _, function in mod.functions_items()]
        is_imperative = any(IMPERATIVE in (function.attrs or {}) for function in functions)
        has_lets = any(_has_lets(function) for function in functions)
        is_cuda = any(not vector_math.is_for_cpu(function) for function in functions)
        # On a device TVM simplifies once more: it puts integers back, and leaves variables that nothing reads.
        has_no_cse = has_lets or is_imperative or is_cuda
        config = {"tirx.disable_storage_rewrite": is_imperative, "tirx.disable_cse_tir": has_no_cse}
        if is_cuda:
            config["tirx.UnrollLoop"] = {"explicit_unroll": False}
        has_exact_buffers = all(EXACT_BUFFERS in (function.attrs or {}) for function in functions)
        disabled = _NOT_FOR_STATEMENTS if is_imperative or has_exact_buffers else ()
        with tvm_names.tvm.transform.PassContext(config=config, disabled_pass=list(disabled)):
            return lowering(mod)

    return run


def _has_lets(function: tvm_names.PrimFunc) -> bool:
    lets = []
    tvm_names.structural_walk(function.body, (tvm_names.tirx.Let, lets.append))
    return bool(lets)


def _pass(name: str, rewrite):
    return tvm_names.tvm.transform.module_pass(lambda mod, _: rewrite(mod), opt_level=0, name=name)


tvm_names.tvm.tirx.register_tir_pipeline(BUILD_PIPELINE, _build_pipeline)
tvm_names.tvm.tirx.register_tir_pipeline(LOWERED_PIPELINE, lambda: (tvm_names.Sequential([]), *_build_pipeline()[1:]))
