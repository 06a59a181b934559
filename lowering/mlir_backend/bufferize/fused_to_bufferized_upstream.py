"""Bufferize by upstream's passes alone: the stage `bufferized` of pipeline `upstream`.

Ours is the calling convention only: results are arguments, and what the runtime needs to know of them is noted. Copies
of strided memory become structured operations, since upstream's are calls of a library that wheels do not have.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir, public_functions
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.external.calls import refuse_without_tvm
from mlirtri.lowering.mlir_backend.bufferize import destinations
from mlirtri.lowering.mlir_backend.bufferize.fused_to_bufferized import (
    FROM_LOOPS,
    FROM_TENSORS,
    TO_MEMREF,
    note_signature,
    results_to_arguments,
    strided_copies_to_linalg,
)
from mlirtri.lowering.mlir_backend.bufferize.kernels import note_counts
from mlirtri.lowering.mlir_common.attributes import strides_of
from mlirtri.lowering.mlir_common.imperative import is_imperative
from mlirtri.lowering.toolchain.mlir_passes import run_passes, run_rewrite


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Bufferize `module` in place; raises `PassFailedError` and `UnsupportedOperationError`."""
    refuse_without_tvm(module)
    _refuse_strides(module)
    imperative = is_imperative(module)
    with module.context, ir.Location.unknown():
        note_signature(module)
        run_rewrite("separate-shared-memory", destinations.separate_shared, module, context)
        run_rewrite("results-to-arguments", results_to_arguments, module, context)
        run_passes(module, FROM_LOOPS if imperative else FROM_TENSORS, context)
        run_passes(module, TO_MEMREF, context)
        run_rewrite("strided-copies-to-linalg", strided_copies_to_linalg, module, context)
        note_counts(module)
    return module


def _refuse_strides(module: ir.Module) -> None:
    for function in public_functions(module):
        if strides_of(function):
            raise UnsupportedOperationError(
                "upstream's passes read row-major arguments only, not a StridedTensor",
                span_of(function.location),
                help="use another pipeline, or annotate it with mt.Tensor: it is copied then",
            )
