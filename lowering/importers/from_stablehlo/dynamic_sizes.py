"""Lower StableHLO's `get_dimension_size` to `tensor.dim`, and JAX's assertions on sizes to `cf.assert`.

Takes a module of `stablehlo`, before upstream's lowering, which leaves both. Gives it, in place; lists of sizes become
`tensor.from_elements`, which canonicalisation folds. Refuses nothing.
"""

from __future__ import annotations

import re

from mlirtri.dialect.bindings.mlir import all_operations, arith, ir, operations_named, tensor
from mlirtri.lowering.mlir.index_values import index_constant

ASSERTION = "shape_assertion"
"""The target of the custom call that JAX asserts sizes by."""


def rewrite(module: ir.Module) -> None:
    """Lower both in `module`, in place; a module of static shapes stays as it is."""
    if not _has_sizes_of_run_time(module):
        return
    _list_elements(module)
    for operation in operations_named(module, "stablehlo.get_dimension_size"):
        with operation.location, ir.InsertionPoint(operation):
            axis = index_constant(ir.IntegerAttr(operation.attributes["dimension"]).value)
            kind = ir.RankedTensorType(operation.results[0].type)
            size = arith.index_cast(kind.element_type, tensor.dim(operation.operands[0], axis))
            elements = tensor.from_elements(kind, [size])
        operation.results[0].replace_all_uses_with(elements)
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
        not kind.has_static_shape for kind in kinds
    )


def _list_elements(module: ir.Module) -> None:
    """Replace integer lists concatenated from single elements by `tensor.from_elements`."""
    for operation in operations_named(module, "stablehlo.*"):
        if operation.name not in ("stablehlo.concatenate", "stablehlo.reshape") or not _is_list(operation):
            continue
        kind = ir.RankedTensorType(operation.results[0].type)
        with operation.location, ir.InsertionPoint(operation):
            zero = index_constant(0)
            elements = [tensor.extract(operand, [zero] * operand.type.rank) for operand in operation.operands]
            sizes = tensor.from_elements(kind, elements)
        operation.results[0].replace_all_uses_with(sizes)
        operation.erase()


def _is_list(operation: ir.Operation) -> bool:
    """Return whether every operand is one integer and the result a list of them."""
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
