"""Sizes of run time in StableHLO: asking for one, and JAX's assertions of how they hang together.

Takes a module of `stablehlo`, before upstream's lowering, which leaves both alone. Gives `tensor.dim` and `cf.assert`;
lists of sizes become `tensor.from_elements`, which canonicalisation sees through.
"""

from __future__ import annotations

import re

from mlirtri.dialect.bindings.mlir import all_operations, arith, ir, operations_named, tensor

ASSERTION = "shape_assertion"
"""The target of JAX's custom calls."""


def rewrite(module: ir.Module) -> None:
    """Rewrite all of both in `module`."""
    if not _has_sizes_of_run_time(module):
        return
    _list_elements(module)
    for operation in operations_named(module, "stablehlo.get_dimension_size"):
        with operation.location, ir.InsertionPoint(operation):
            axis = arith.constant(ir.IndexType.get(), ir.IntegerAttr(operation.attributes["dimension"]).value)
            kind = ir.RankedTensorType(operation.results[0].type)
            size = arith.index_cast(kind.element_type, tensor.dim(operation.operands[0], axis))
            made = tensor.from_elements(kind, [size])
        operation.results[0].replace_all_uses_with(made)
        operation.erase()
    for operation in operations_named(module, "stablehlo.custom_call"):
        if ir.StringAttr(operation.attributes["call_target_name"]).value == ASSERTION:
            with operation.location, ir.InsertionPoint(operation):
                _assert(operation)
            operation.erase()


def _has_sizes_of_run_time(module: ir.Module) -> bool:
    values = (value for operation in all_operations(module) for value in operation.results)
    kinds = (value.type for value in values if isinstance(value.type, ir.RankedTensorType))
    return bool(operations_named(module, "stablehlo.get_dimension_size")) or any(
        not each.has_static_shape for each in kinds
    )


def _list_elements(module: ir.Module) -> None:
    """Make lists of integers that are put together from single ones say so."""
    for operation in operations_named(module, "stablehlo.*"):
        if operation.name not in ("stablehlo.concatenate", "stablehlo.reshape") or not _is_list(operation):
            continue
        kind = ir.RankedTensorType(operation.results[0].type)
        with operation.location, ir.InsertionPoint(operation):
            zero = arith.constant(ir.IndexType.get(), 0)
            elements = [tensor.extract(each, [zero] * each.type.rank) for each in operation.operands]
            made = tensor.from_elements(kind, elements)
        operation.results[0].replace_all_uses_with(made)
        operation.erase()


def _is_list(operation: ir.Operation) -> bool:
    """Whether every operand is one integer, and the result a list of them."""
    kinds = [each.type for each in (*operation.operands, operation.results[0])]
    if not all(isinstance(each, ir.RankedTensorType) and each.has_static_shape for each in kinds):
        return False
    single = all(list(each.shape) in ([], [1]) for each in kinds[:-1])
    return single and kinds[-1].rank == 1 and isinstance(kinds[-1].element_type, ir.IntegerType)


def _assert(operation: ir.Operation) -> None:
    message = "the sizes of the arguments do not fit"
    if "error_message" in operation.attributes:
        # The message refers to its numbers, which nobody fills in, by number.
        said = ir.StringAttr(operation.attributes["error_message"]).value
        message = re.sub(r"\s*[^.;]*\{\d+\}[^.;]*[.;]?", "", said).strip() or message
    holds = tensor.extract(operation.operands[0], [])
    ir.Operation.create("cf.assert", operands=[holds], attributes={"msg": ir.StringAttr.get(message)})
