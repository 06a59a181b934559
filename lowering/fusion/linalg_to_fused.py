"""Fuse operations on tensors into fewer, larger ones, by upstream MLIR passes: the stage `fused`.

%0 = a + b; %1 = %0 + a    (two linalg.generic)   ──►   one linalg.generic whose body adds twice
"""

from __future__ import annotations

from dataclasses import replace

from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.fusion import bias, channels_last, cost_guard, transposed_convolutions, unit_windows
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite

PREPARE = (
    Pass("canonicalize", "folds what is known now, drops dead operations"),
    Pass("cse", "the same value is computed once"),
    Pass("func.func(convert-elementwise-to-linalg)", "arith and math on whole tensors fuse like any other operation"),
    Pass("func.func(linalg-fold-unit-extent-dims)", "axes kept at size 1 meet their broadcast without a reshape"),
    Pass("canonicalize", "the reshapes of the pass before cancel out"),
)

FUSE = (
    Pass("func.func(linalg-fuse-elementwise-ops)", "elementwise producers move into the body of their only consumer"),
    Pass("canonicalize", "merges operands that became equal, drops unused ones: this opens new fusions"),
    Pass("cse", "bodies that became equal after fusion are computed once"),
    Pass("func.func(linalg-fuse-elementwise-ops)", "takes the fusions that merging operands opened"),
    Pass("canonicalize", "leaves no unused operand, empty or dead operation behind"),
)

TIDY = (
    Pass("func.func(linalg-fold-unit-extent-dims)", "fusion moves reshapes through operations as axes of size 1"),
    Pass("canonicalize", "the reshapes of the pass before cancel out"),
)


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Fuse `module` in place; raises `PassFailedError`."""
    with module.context, ir.Location.unknown():
        if transposed_convolutions.has_dilated_images(module):
            run_passes(module, PREPARE[:1], context)
            # A bias has to be an addition first.
            run_rewrite("start-transposed-from-zero", bias.rewrite, module, context)
            run_rewrite("split-transposed-convolutions", transposed_convolutions.rewrite, module, context)
        run_rewrite("slice-unit-windows", unit_windows.rewrite, module, context)
        run_rewrite("start-products-from-zero", bias.rewrite, module, context)
        if context.target.kind == "cpu":
            run_rewrite("convolutions-to-channels-last", channels_last.rewrite, module, context)
        run_passes(module, PREPARE, context)
        run_rewrite("guard-producers", cost_guard.guard, module, context)
        run_passes(module, FUSE, context)
        run_rewrite("release-producers", cost_guard.release, module, context)
        if _reshapes_after_tidying(module, context) < _reshapes(module):
            run_passes(module, TIDY, context)
    return module


def _reshapes(module: ir.Module) -> int:
    return sum(len(operations_named(module, name)) for name in cost_guard.RESHAPES)


def _reshapes_after_tidying(module: ir.Module, context: CompileContext) -> int:
    """Return how many reshapes TIDY would leave: it can be more, where the signature itself has axes of size 1."""
    trial = module.operation.clone()
    run_passes(trial, TIDY, replace(context, keep_passes=False))
    return _reshapes(trial)
