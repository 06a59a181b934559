"""Lower bufferized functions to loops, loads and stores, for the imperative bridge and the `mlir` pipeline.

Gives `scf` loops and branches, loads and stores on whole buffers, scalar `arith` and `math`, `complex.create`, `re` and
`im`. `scf.parallel` says that its iterations are independent; sums of `linalg` reductions may be reassociated.

    linalg.generic on subviews   ──►   scf.parallel { memref.load %whole[%i + %offset] … memref.store }
"""

from __future__ import annotations

from functools import partial

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_backend.loops import (
    argmax,
    copies,
    joined_reductions,
    order,
    private_arrays,
    reduction_chunks,
    selected_buffers,
    structured,
)
from mlirtri.lowering.mlir_common import memory_spaces
from mlirtri.lowering.mlir_common.cloning import copies_to_linalg
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite

TO_GENERIC = (Pass("func.func(linalg-generalize-named-ops)", "named operations become generic ones"),)

TO_WHOLE_BUFFERS = (
    Pass("fold-memref-alias-ops", "loads and stores through views become those of the whole buffer"),
    Pass("canonicalize", "axes of one element have no quotients and remainders"),
    Pass("lower-affine", "index arithmetic becomes arith; indices into reshaped buffers, quotients and remainders"),
    Pass("canonicalize", "constants once, no dead view"),
    Pass("cse", "equal indices are computed once"),
    Pass("loop-invariant-code-motion", "what does not change in a loop is computed before it"),
)

TIDY = (Pass("cse", "indices that both the copies and their readers computed"),)
TIDY_CHUNKS = (
    Pass("canonicalize", "bounds of chunks that are constants"),
    Pass("cse", "bounds that several chunks have"),
    Pass("loop-invariant-code-motion", "what does not change in a chunk is computed before it"),
)


def lower_to_loops(module: ir.Module, context: CompileContext, threads: int = 1) -> ir.Module:
    """Lower `module` in place, with chunks for that many threads; raises `PassFailedError`."""
    to_loops(module, context, joins_reductions=not context.target.is_cuda)
    with module.context, ir.Location.unknown():
        chunks = partial(reduction_chunks.rewrite, threads=threads, on_device=context.target.is_cuda)
        run_rewrite("loops-in-chunks", chunks, module, context)
        run_passes(module, TIDY_CHUNKS, context)
    return module


def to_loops(module: ir.Module, context: CompileContext, joins_reductions: bool = False) -> ir.Module:
    """Lower `module` in place, with each loop as it is; raises `PassFailedError`."""
    with module.context, ir.Location.unknown():
        if memory_spaces.has_tiles(module):
            run_rewrite("hide-memory-spaces", memory_spaces.hide, module, context)
        run_rewrite("selects-to-branches", selected_buffers.rewrite, module, context)
        run_rewrite("copies-to-linalg", copies_to_linalg, module, context)
        run_rewrite("argmax-in-two-passes", partial(argmax.rewrite, only_dynamic=True), module, context)
        run_passes(module, TO_GENERIC, context)
        run_rewrite("order-loops", order.rewrite, module, context)
        if joins_reductions:
            run_rewrite("join-reductions", joined_reductions.rewrite, module, context)
        run_rewrite("structured-to-loops", structured.rewrite, module, context)
        run_passes(module, TO_WHOLE_BUFFERS, context)
        run_rewrite("forward-copies", copies.rewrite, module, context)
        run_passes(module, TIDY, context)
        run_rewrite("private-arrays", private_arrays.rewrite, module, context)
    return module
