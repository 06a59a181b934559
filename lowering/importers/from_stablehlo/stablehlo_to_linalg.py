"""`stablehlo` → `linalg`: upstream's lowering, ours of what upstream leaves, then the steps of all imported MLIR."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlirtri.dialect.bindings.mlir import all_operations, arith, ir, operations_named, tensor
from mlirtri.lowering.core.refusals import refuse
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.from_stablehlo import accumulators, control_flow, fft, sort_and_scatter
from mlirtri.lowering.importers.normalize import mlir_to_linalg
from mlirtri.lowering.mlir.cloning import replace
from mlirtri.lowering.mlir.index_values import index_constant
from mlirtri.lowering.toolchain.isolated_passes import run_isolated
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_rewrite

TO_LINALG = (
    Pass("stablehlo-legalize-to-linalg", "operations on tensors become structured ones"),
    Pass("stablehlo-convert-to-signless", "linalg has no signs"),
    Pass("reconcile-unrealized-casts", "casts between signed and signless types"),
    Pass("canonicalize", "dead operations of the lowering"),
)
ASSERTION = "shape_assertion"
"""The target of the custom call that JAX asserts sizes by."""
DIALECTS = ("stablehlo", "chlo", "vhlo", "shape")


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower `module`, in place; raises `UnsupportedOperationError`."""
    with module.context, ir.Location.unknown():
        run_rewrite("dynamic-sizes", _lower_sizes, module, context)
        run_rewrite("fourier-transforms", fft.rewrite, module, context)
        run_rewrite("control-flow", control_flow.rewrite, module, context)
    module = run_isolated(module, TO_LINALG, context)
    with module.context, ir.Location.unknown():
        run_rewrite("widen-accumulators", accumulators.rewrite, module, context)
        for name, rewrite in sort_and_scatter.REWRITES.items():
            run_rewrite(name, rewrite, module, context)
        refuse(_not_lowered(module), "linalg", "compute it outside of the program, or write it with other operations")
    return mlir_to_linalg.lower(module, context)


def _not_lowered(module: ir.Module) -> Iterator[tuple[ir.Operation, str]]:
    for operation in all_operations(module):
        if operation.name == "stablehlo.custom_call":
            yield operation, f"custom_call @{ir.StringAttr(operation.attributes['call_target_name']).value}"
        elif operation.name.partition(".")[0] in DIALECTS and not operation.name.endswith(".return"):
            yield operation, operation.name


def _lower_sizes(module: ir.Module) -> None:
    """Lower `get_dimension_size` to `tensor.dim`, and JAX's assertions on sizes to `cf.assert`."""
    if not _has_sizes_of_run_time(module):
        return
    _list_elements(module)
    for operation in operations_named(module, "stablehlo.get_dimension_size"):
        with operation.location, ir.InsertionPoint(operation):
            axis = index_constant(ir.IntegerAttr(operation.attributes["dimension"]).value)
            kind = ir.RankedTensorType(operation.results[0].type)
            size = arith.index_cast(kind.element_type, tensor.dim(operation.operands[0], axis))
            elements = tensor.from_elements(kind, [size])
        replace(operation, [elements])
    for operation in operations_named(module, "stablehlo.custom_call"):
        if ir.StringAttr(operation.attributes["call_target_name"]).value == ASSERTION:
            with operation.location, ir.InsertionPoint(operation):
                _assert(operation)
            operation.erase()


def _has_sizes_of_run_time(module: ir.Module) -> bool:
    values = (value for operation in all_operations(module) for value in operation.results)
    kinds = (value.type for value in values if isinstance(value.type, ir.RankedTensorType))
    return bool(operations_named(module, "stablehlo.get_dimension_size")) or any(
        not kind.has_static_shape for kind in kinds
    )


def _list_elements(module: ir.Module) -> None:
    for operation in operations_named(module, "stablehlo.*"):
        if operation.name not in ("stablehlo.concatenate", "stablehlo.reshape") or not _is_list(operation):
            continue
        kind = ir.RankedTensorType(operation.results[0].type)
        with operation.location, ir.InsertionPoint(operation):
            zero = index_constant(0)
            elements = [tensor.extract(operand, [zero] * operand.type.rank) for operand in operation.operands]
            sizes = tensor.from_elements(kind, elements)
        replace(operation, [sizes])


def _is_list(operation: ir.Operation) -> bool:
    kinds = [value.type for value in (*operation.operands, operation.results[0])]
    if not all(isinstance(kind, ir.RankedTensorType) and kind.has_static_shape for kind in kinds):
        return False
    single = all(list(kind.shape) in ([], [1]) for kind in kinds[:-1])
    return single and kinds[-1].rank == 1 and isinstance(kinds[-1].element_type, ir.IntegerType)


def _assert(operation: ir.Operation) -> None:
    message = "the sizes of the arguments do not match"
    if "error_message" in operation.attributes:
        # The message refers by number to values that nobody fills in.
        error_message = ir.StringAttr(operation.attributes["error_message"]).value
        message = re.sub(r"\s*[^.;]*\{\d+\}[^.;]*[.;]?", "", error_message).strip() or message
    holds = tensor.extract(operation.operands[0], [])
    ir.Operation.create("cf.assert", operands=[holds], attributes={"msg": ir.StringAttr.get(message)})
