"""fused → relax: the bridge from MLIR to TVM; `mlir_to_relax` says what it takes and refuses.

Functions with loops and updates go over as one imperative TIR function (`imperative_to_relax`).
"""

from __future__ import annotations

from mlirtri.dialect.mlir import ir
from mlirtri.lowering.imperative import is_imperative
from mlirtri.lowering.imperative_to_relax import lower_imperative
from mlirtri.lowering.mlir_to_relax import translate
from mlirtri.lowering.stage import CompileContext
from mlirtri.lowering.tvm_names import IRModule


def lower(module: ir.Module, context: CompileContext) -> IRModule:
    """The Relax module of `module`; raises `UnsupportedOperationError`."""
    return lower_imperative(module, context) if is_imperative(module) else translate(module)
