"""Lower bufferized functions to loops, loads and stores, for the imperative bridge and the `mlir` pipeline.

Takes the bufferized module of an imperative function. Gives the same functions, in place, with `scf` loops and
branches, loads and stores on whole buffers, scalar `arith` and `math`, `complex.create`, `re` and `im`.
`scf.parallel` says that its iterations are independent; sums of `linalg` reductions may be reassociated.
Refuses nothing of its own.

    linalg.generic on subviews   ──►   scf.parallel { memref.load %whole[%i + %offset] … memref.store }
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, linalg, operations_named
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_backend.loops import (
    copies as forwarded_copies,
)
from mlirtri.lowering.mlir_backend.loops import (
    order as loop_order,
)
from mlirtri.lowering.mlir_backend.loops import (
    selects as buffer_selects,
)
from mlirtri.lowering.mlir_backend.loops import (
    structured as structured_to_loops,
)
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite

TO_GENERIC = (Pass("func.func(linalg-generalize-named-ops)", "named operations become generic ones"),)

TO_WHOLE_BUFFERS = (
    Pass("fold-memref-alias-ops", "loads and stores through views become those of the whole buffer"),
    Pass("affine-expand-index-ops", "indices into reshaped buffers become quotients and remainders"),
    Pass("lower-affine", "index arithmetic becomes arith"),
    Pass("canonicalize", "constants once, no dead view"),
    Pass("cse", "equal indices are computed once"),
    Pass("loop-invariant-code-motion", "what does not change in a loop is computed before it"),
)

TIDY = (Pass("cse", "indices that both the copies and their readers computed"),)


def lower_to_loops(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower `module` in place; raises `PassFailedError`."""
    with module.context, ir.Location.unknown():
        run_rewrite("selects-to-branches", buffer_selects.rewrite, module, context)
        run_rewrite("copies-to-linalg", _copies_to_linalg, module, context)
        run_passes(module, TO_GENERIC, context)
        run_rewrite("order-loops", loop_order.rewrite, module, context)
        run_rewrite("structured-to-loops", structured_to_loops.rewrite, module, context)
        run_passes(module, TO_WHOLE_BUFFERS, context)
        run_rewrite("forward-copies", forwarded_copies.rewrite, module, context)
        run_passes(module, TIDY, context)
    return module


def _copies_to_linalg(module: ir.Module) -> None:
    for copy in operations_named(module, "memref.copy"):
        source, target = copy.operands
        with ir.InsertionPoint(copy), copy.location:
            linalg.copy(source, outs=[target])
        copy.erase()
