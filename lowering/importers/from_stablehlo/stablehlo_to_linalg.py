"""`stablehlo` → `linalg`: upstream's lowering, ours of what upstream leaves, then the steps of all imported MLIR."""

from __future__ import annotations

from collections.abc import Iterator

from mlirtri.dialect.bindings.mlir import all_operations, ir, operations_named
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.untranslatable import refuse
from mlirtri.lowering.importers.from_stablehlo import (
    accumulators,
    control_flow,
    dynamic_operations,
    fft,
    lapack_calls,
    linear_algebra,
    shape_operands,
    sort_and_scatter,
    windows,
)
from mlirtri.lowering.importers.normalize import mlir_to_linalg
from mlirtri.lowering.importers.normalize.constants import new_resource
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.constants import resource_key
from mlirtri.lowering.toolchain.isolated_passes import run_isolated
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_rewrite

TO_LINALG = (
    Pass("stablehlo-legalize-to-linalg", "operations on tensors become structured ones"),
    Pass("convert-shape-to-std", "the shape of a tensor is its sizes"),
    Pass("stablehlo-convert-to-signless", "linalg has no signs"),
    Pass("reconcile-unrealized-casts", "casts between signed and signless types"),
    Pass("canonicalize", "dead operations of the lowering"),
)
DIALECTS = ("stablehlo", "chlo", "vhlo", "shape")


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower `module`, in place; raises `UnsupportedOperationError`."""
    with module.context, ir.Location.unknown():
        run_rewrite("shape-operands", shape_operands.rewrite, module, context)
        run_rewrite("dynamic-operations", dynamic_operations.rewrite, module, context)
        run_rewrite("fourier-transforms", fft.rewrite, module, context)
        run_rewrite("halves-of-matrices", linear_algebra.widen_halves, module, context)
        run_rewrite("control-flow", control_flow.rewrite, module, context)
        run_rewrite("windows-apart", sort_and_scatter.pad_windows_apart, module, context)
        run_rewrite("signless-convolutions", windows.multiply_without_signs, module, context)
        run_rewrite("signless-resources", lambda module: _without_signs(module, context), module, context)
    module = run_isolated(module, TO_LINALG, context)
    with module.context, ir.Location.unknown():
        run_rewrite("lapack-calls", lambda module: lapack_calls.rewrite(module, context), module, context)
        run_rewrite("windows", windows.rewrite, module, context)
        run_rewrite("matrices", linear_algebra.rewrite, module, context)
        run_rewrite("widen-accumulators", accumulators.rewrite, module, context)
        for name, rewrite in sort_and_scatter.REWRITES.items():
            run_rewrite(name, rewrite, module, context)
        refuse(_not_lowered(module), "linalg", "compute it outside of the program, or write it with other operations")
    return mlir_to_linalg.lower(module, context)


def _without_signs(module: ir.Module, context: CompileContext) -> None:
    """Give large unsigned constants signless types: upstream converts those of literals only."""
    for operation in operations_named(module, "stablehlo.constant"):
        kind = operation.results[0].type
        key = resource_key(operation.attributes["value"]) if _is_unsigned(kind) else None
        if key is None:
            continue
        width = ir.IntegerType(kind.element_type).width
        signless = ir.RankedTensorType.get(kind.shape, ir.IntegerType.get_signless(width))
        array = context.params[key].view(f"i{width // 8}")
        with ir.InsertionPoint(operation), operation.location:
            value = new_resource(key, signless, array, context.params)
            constant = ir.Operation.create("stablehlo.constant", [signless], attributes={"value": value})
            cast = ir.Operation.create("builtin.unrealized_conversion_cast", [kind], [constant.result])
        replace(operation, [cast.result])


def _is_unsigned(type_: ir.Type) -> bool:
    if not isinstance(type_, ir.RankedTensorType) or not isinstance(type_.element_type, ir.IntegerType):
        return False
    return ir.IntegerType(type_.element_type).is_unsigned


def _not_lowered(module: ir.Module) -> Iterator[tuple[ir.Operation, str]]:
    for operation in all_operations(module):
        if operation.name == "stablehlo.custom_call":
            yield operation, f"custom_call @{ir.StringAttr(operation.attributes['call_target_name']).value}"
        elif operation.name.partition(".")[0] in DIALECTS and not operation.name.endswith(".return"):
            yield operation, operation.name
