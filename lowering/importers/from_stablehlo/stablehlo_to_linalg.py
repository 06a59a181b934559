"""`stablehlo` → `linalg`: upstream's lowering, ours of what upstream leaves, then the steps of all imported MLIR.

Takes one function of `stablehlo`. Gives the normal form of `mlir_to_linalg.py`. Upstream leaves loops, branches,
Fourier transforms, sorts, scatters and gradients of pools, which become `scf`, products and `tm_tensor` here. Refuses,
in one report, what neither lowers: custom calls by their name, communication between devices, tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlirtri.dialect.bindings.mlir import all_operations, ir
from mlirtri.lowering.core.refusals import refuse
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.from_stablehlo import accumulators, control_flow, dynamic_sizes, fft, sort_and_scatter
from mlirtri.lowering.importers.normalize import mlir_to_linalg
from mlirtri.lowering.toolchain.isolated_passes import run_isolated
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_rewrite

TO_LINALG = (
    Pass("stablehlo-legalize-to-linalg", "operations on tensors become structured ones"),
    Pass("stablehlo-convert-to-signless", "linalg has no signs"),
    Pass("reconcile-unrealized-casts", "casts between signed and signless types"),
    Pass("canonicalize", "dead operations of the lowering"),
)
DIALECTS = ("stablehlo", "chlo", "vhlo", "shape")


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower `module`, in place; raises `UnsupportedOperationError`."""
    with module.context, ir.Location.unknown():
        run_rewrite("dynamic-sizes", dynamic_sizes.rewrite, module, context)
        run_rewrite("fourier-transforms", fft.rewrite, module, context)
        run_rewrite("control-flow", control_flow.rewrite, module, context)
    module = run_isolated(module, TO_LINALG, context)
    with module.context, ir.Location.unknown():
        run_rewrite("widen-accumulators", accumulators.rewrite, module, context)
        run_rewrite("sorts", sort_and_scatter.rewrite_sorts, module, context)
        run_rewrite("scatters", sort_and_scatter.rewrite_scatters, module, context)
        run_rewrite("selections", sort_and_scatter.rewrite_selections, module, context)
        refuse(_not_lowered(module), "linalg", "compute it outside of the program, or write it with other operations")
    return mlir_to_linalg.lower(module, context)


def _not_lowered(module: ir.Module) -> Iterator[tuple[ir.Operation, str]]:
    """Return the operations that are not lowered yet, with their names for the report."""
    for operation in all_operations(module):
        if operation.name == "stablehlo.custom_call":
            yield operation, f"custom_call @{ir.StringAttr(operation.attributes['call_target_name']).value}"
        elif operation.name.partition(".")[0] in DIALECTS and not operation.name.endswith(".return"):
            yield operation, operation.name
