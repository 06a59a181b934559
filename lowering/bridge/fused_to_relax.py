"""Lower `fused` to `relax`; `mlir_to_relax` says what is taken and refused.

Functions with loops and updates become one imperative PrimFunc (`imperative_to_relax`). Imported functions that also
have matmuls or convolutions keep those as bindings and call their loops as outlined functions (`outlining`).
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.bridge import unread_results
from mlirtri.lowering.bridge.imperative_to_relax import loops_of, lower_imperative
from mlirtri.lowering.bridge.mlir_to_relax import translate
from mlirtri.lowering.bridge.outlining import outline
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir.imperative import is_imperative
from mlirtri.lowering.toolchain.mlir_passes import run_rewrite
from mlirtri.lowering.toolchain.tvm_names import IRModule


def lower(module: ir.Module, context: CompileContext) -> IRModule:
    """Return the Relax module of `module`; raises `UnsupportedOperationError`, `PassFailedError`."""
    if not is_imperative(module):
        with module.context:
            run_rewrite("drop-unread-results", unread_results.rewrite, module, context)
        return translate(module)
    if context.target.is_cuda:
        return lower_imperative(module, context)
    with module.context:
        islands = outline(module)
    if not islands:
        return lower_imperative(module, context)
    return translate(module, {symbol: loops_of(island, context) for symbol, island in islands.items()})
