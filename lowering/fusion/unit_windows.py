"""Slice off elements that a window never reads, along axes with a single window position.

Otherwise upstream's folding of unit extents fails: without the loop over positions, the window's loop has to be as long
as the operand's axis.

    pool of 2 with one result, of tensor<3xf32>   ──►   the same of tensor.extract_slice %x[0] [2] [1]
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, linalg, operations_named, tensor
from mlirtri.lowering.mlir.linalg_builder import loop_extents


def rewrite(module: ir.Module) -> None:
    """Rewrite all structured operations of `module`, in place."""
    for operation in operations_named(module, "linalg.*"):
        maps = linalg.get_indexing_maps(operation)
        if maps is None:
            continue
        maps = [
            ir.AffineMapAttr(attribute).value if isinstance(attribute, ir.Attribute) else attribute
            for attribute in maps
        ]
        extents = loop_extents(operation, maps)
        for position, mapping in enumerate(maps):
            _slice_operand(operation, position, mapping, extents)


def _slice_operand(operation: ir.Operation, position: int, access: ir.AffineMap, extents: dict[int, int]) -> None:
    operand = operation.operands[position]
    if not isinstance(operand.type, ir.RankedTensorType) or not operand.type.has_static_shape:
        return
    sizes = list(operand.type.shape)
    for axis, expression in enumerate(access.results):
        last = None if isinstance(expression, ir.AffineDimExpr) else _largest_index(expression, extents)
        if last is not None and last[1] and last[0] + 1 < sizes[axis]:
            sizes[axis] = last[0] + 1
    if sizes == list(operand.type.shape):
        return
    kind = ir.RankedTensorType.get(sizes, operand.type.element_type, operand.type.encoding)
    rank = len(sizes)
    with operation.location, ir.InsertionPoint(operation):
        operation.operands[position] = tensor.ExtractSliceOp(
            kind, operand, [], [], [], [0] * rank, sizes, [1] * rank
        ).result


def _largest_index(expression: ir.AffineExpr, extents: dict[int, int]) -> tuple[int, bool] | None:
    """Return the largest value of an expression, and whether it has a loop of extent 1; None where it is not known."""
    if isinstance(expression, ir.AffineConstantExpr):
        return (expression.value, False) if expression.value >= 0 else None
    if isinstance(expression, ir.AffineDimExpr):
        extent = extents.get(expression.position, 0)
        return (extent - 1, extent == 1) if extent > 0 else None
    if not isinstance(expression, (ir.AffineAddExpr, ir.AffineMulExpr)):
        return None
    left, right = _largest_index(expression.lhs, extents), _largest_index(expression.rhs, extents)
    if left is None or right is None:
        return None
    value = left[0] + right[0] if isinstance(expression, ir.AffineAddExpr) else left[0] * right[0]
    return value, left[1] or right[1]
