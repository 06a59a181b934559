"""`torch` → `linalg`: torch-mlir's own lowering to linalg on tensors, then the steps of all imported MLIR."""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import PassFailedError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.from_torch import checks, repairs, unsigned_integers
from mlirtri.lowering.importers.from_torch.refused import refuse_operators
from mlirtri.lowering.importers.normalize import mlir_to_linalg
from mlirtri.lowering.toolchain.isolated_passes import run_isolated
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_rewrite

TO_BACKEND = (
    Pass("func.func(torch-match-quantized-custom-ops)", "quantised operators of torch get their torch-mlir names"),
    Pass("torchdynamo-export-to-torch-backend-pipeline{extra-library=}", "composite operators become simpler ones"),
)
TO_LINALG = (
    Pass("torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true}", "operators become loops"),
)
ASSUMPTION = "torch.assume_strict_symbolic_shapes"
"""What the importer says to torch-mlir's passes; of no meaning after them."""


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower a module of the torch dialect to linalg in the normal form; raises `UnsupportedOperationError`."""
    lowered = to_linalg(module, context)
    with lowered.context, ir.Location.unknown():
        for operation in lowered.body.operations:
            if ASSUMPTION in operation.attributes:
                del operation.attributes[ASSUMPTION]
        run_rewrite("run-time checks", checks.rewrite, lowered, context)
    return mlir_to_linalg.lower(lowered, context)


def to_linalg(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower `module` to linalg with torch's assertions, before the normal form; raises as `lower`."""
    try:
        return _lowered(module, context)
    except PassFailedError as error:
        refuse_operators(module, error, _lowered, context)


def _lowered(module: ir.Module, context: CompileContext) -> ir.Module:
    with module.context, ir.Location.unknown():
        # A copy: `refuse_operators` looks at the module as it was.
        lowered = module.operation.clone()
        run_rewrite("complex-functions", repairs.rewrite_complex_functions, lowered, context)
    lowered = run_isolated(lowered, TO_BACKEND, context)
    with lowered.context, ir.Location.unknown():
        run_rewrite("loops", repairs.rewrite_loops, lowered, context)
        run_rewrite("repairs", repairs.rewrite_operators, lowered, context)
        run_rewrite("unsigned-in-signed", unsigned_integers.rewrite, lowered, context)
    return run_isolated(lowered, TO_LINALG, context)
