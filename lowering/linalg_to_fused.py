"""The fusion room: linalg on tensors to fewer, larger linalg operations, by upstream MLIR passes alone.

Takes a module of one function in func, linalg, tensor, arith and math. Gives the same dialects back, in place.
Refuses nothing of its own; a pass that fails is reported by `mlir_passes`.

    %0 = a + b; %1 = %0 + a    (two linalg.generic)   ──►   one linalg.generic whose body adds twice
"""

from __future__ import annotations

from mlirtri.dialect.mlir import ir
from mlirtri.lowering.mlir_passes import Pass, run_passes
from mlirtri.lowering.stage import CompileContext

PASSES = (
    Pass("canonicalize", "folds what is known now, drops dead operations"),
    Pass("cse", "the same value is computed once"),
    Pass("func.func(convert-elementwise-to-linalg)", "arith and math on whole tensors fuse like any other operation"),
    Pass("func.func(linalg-inline-scalar-operands)", "a scalar constant becomes part of the body, not an operand"),
    Pass("func.func(linalg-fuse-elementwise-ops)", "elementwise producers move into the body of their only consumer"),
    Pass("canonicalize", "merges operands that became equal, drops unused ones: this opens new fusions"),
    Pass("cse", "bodies that became equal after fusion are computed once"),
    Pass("func.func(linalg-fuse-elementwise-ops)", "takes the fusions that merging operands opened"),
    Pass("canonicalize", "leaves no unused operand, empty or dead operation behind"),
)


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Fuse `module` in place; raises `PassFailedError`."""
    run_passes(module, PASSES, context)
    return module
