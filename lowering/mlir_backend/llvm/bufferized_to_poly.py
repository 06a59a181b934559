"""Convert loop nests to the affine dialect, and fuse, tile and parallelise them: the stage of pipeline ``poly`` alone.

Adjacent nests are fused, but not where one reads what a later one overwrites; nests are tiled by `TILE` where
dependences allow it, and loops whose iterations are independent are ``affine.parallel``. Loops that are not affine
(`while`, bounds from data) stay `scf`, and a function that has these, or whole-array operations of run-time size,
stays: upstream's analyses see affine accesses alone.
"""

from __future__ import annotations

from dataclasses import replace

from mlirtri.dialect.bindings.mlir import all_operations, ir, operations_named
from mlirtri.errors import PassFailedError, SkippedStep
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_backend.bufferize.kernels import note_counts
from mlirtri.lowering.mlir_backend.llvm import single_assignment
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite

PLAIN = (*ALLOCATIONS, "memref.dealloc", "memref.dim")
"""Operations on memory that access no elements."""
TILE = 32
"""Iterations of a tile along each loop: three tiles of 32 x 32 doubles fit a first-level cache."""

FUSION = "affine-loop-fusion"

PREPARE = (
    Pass("func.func(convert-linalg-to-affine-loops)", "whole-array operations become nests as the user's own"),
    Pass("fold-memref-alias-ops", "indices into views become indices into their buffers"),
    Pass("canonicalize", "drops what that left unused"),
    Pass("raise-scf-to-affine", "loops with affine bounds and steps"),
    Pass("func.func(affine-raise-from-memref)", "loads and stores at affine indices"),
    Pass("canonicalize", "bounds become constants where they are"),
)

OPTIMIZE = (
    Pass("func.func(affine-loop-invariant-code-motion)", "what no iteration changes is computed before the loop"),
    Pass(FUSION, "nests that make and use an array become one"),
    Pass("func.func(affine-scalrep)", "what was just stored is not loaded again"),
    Pass(f"func.func(affine-loop-tile{{tile-size={TILE}}})", "nests work on what fits into a cache"),
    Pass("func.func(affine-parallelize)", "loops that carry nothing become parallel"),
    Pass("canonicalize", "leaves nothing dead"),
)


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Run the affine passes on `module`, in place; raises `PassFailedError`."""
    with module.context, ir.Location.unknown():
        if _becomes_affine(module, context):
            run_rewrite("one-buffer-per-value", single_assignment.one_buffer_per_value, module, context)
            run_passes(module, PREPARE, context)
            if not any(map(_is_hidden, all_operations(module))):
                fuses = single_assignment.may_be_fused(module)
                run_passes(module, [step for step in OPTIMIZE if fuses or step.name != FUSION], context)
                note_counts(module)
    return module


def _becomes_affine(module: ir.Module, context: CompileContext) -> bool:
    """Return whether upstream makes valid affine loops of this module; with dynamic sizes it may not."""
    if not all(map(_is_static, operations_named(module, "linalg.*"))):
        return False
    try:
        run_passes(module.operation.clone(), PREPARE, replace(context, keep_passes=False))
    except PassFailedError as error:
        context.skip(SkippedStep("affine passes", context.kernel, error.message, error.span), error)
        return False
    return True


def _is_hidden(operation: ir.Operation) -> bool:
    """Return whether an operation accesses memory unseen by affine analyses, which would move others past it."""
    name = operation.name
    return name.startswith(("scf.", "linalg.", "func.call")) or (name.startswith("memref.") and name not in PLAIN)


def _is_static(operation: ir.Operation) -> bool:
    """Return whether an operation's sizes are static: upstream makes invalid affine loops of others."""
    kinds = [value.type for value in operation.operands]
    return all(kind.has_static_shape for kind in kinds if isinstance(kind, ir.MemRefType))
