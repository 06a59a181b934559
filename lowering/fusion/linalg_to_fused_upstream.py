"""Fuse structured operations by upstream's passes alone, as they come: the stage `fused` of pipeline `upstream`."""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes

PASSES = (
    Pass("canonicalize", "folds what has no effect"),
    Pass("cse", "equal operations once"),
    Pass("func.func(linalg-generalize-named-ops)", "only generic operations fuse"),
    Pass("func.func(linalg-fuse-elementwise-ops)", "elementwise producers move into the body of their only consumer"),
    Pass("func.func(linalg-fold-unit-extent-dims)", "loops of one iteration go"),
    Pass("canonicalize", "leaves no unused operand behind"),
    Pass("cse", "bodies that became equal once"),
)


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Fuse `module` in place; raises `PassFailedError`."""
    with module.context, ir.Location.unknown():
        run_passes(module, PASSES, context)
    return module
