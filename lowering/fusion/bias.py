"""Let matrix products and convolutions accumulate from zero: a bias becomes an addition after them, which fuses.

A bias that was broadcast only to accumulate into it is read as it was. Inside of loops the sum keeps accumulating.

    %b = broadcast %bias; %y = linalg.conv_2d … outs(%b)   ──►   %c = linalg.conv_2d … outs(zeros); %y = %c + %bias
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import arith, ir, linalg, operations_named, tensor
from mlirtri.lowering.mlir.linalg_builder import generic, zero

PRODUCTS = ("linalg.conv_", "linalg.depthwise_conv_", "linalg.matmul", "linalg.batch_matmul", "linalg.matvec")
STARTS = ("linalg.fill", "tensor.empty")
"""Operations that make initial values at no cost."""


def rewrite(module: ir.Module) -> None:
    """Rewrite all products of `module`, in place."""
    for operation in operations_named(module, "linalg.*"):
        if operation.name.startswith(PRODUCTS) and _starts_from_an_array(operation):
            _split(operation)


def _starts_from_an_array(operation: ir.Operation) -> bool:
    if len(operation.results) != 1 or operation.parent.name != "func.func":
        return False
    start = operation.operands[len(operation.operands) - 1]
    if not isinstance(start.type, ir.RankedTensorType) or not start.type.has_static_shape:
        return False
    if not isinstance(start.type.element_type, ir.FloatType | ir.IntegerType):
        return False
    return not isinstance(start.owner, ir.Operation | ir.OpView) or start.owner.name not in STARTS


def _split(operation: ir.Operation) -> None:
    last = len(operation.operands) - 1
    start, kind, [result] = operation.operands[last], operation.operands[last].type, operation.results
    is_float, rank = isinstance(kind.element_type, ir.FloatType), len(kind.shape)
    with operation.location:
        with ir.InsertionPoint(operation):
            empty = tensor.empty(list(kind.shape), kind.element_type)
            operation.operands[last] = linalg.fill(zero(kind.element_type), outs=[empty])
        with ir.InsertionPoint.after(operation):
            value, access = _read(start, rank)
            identity = ir.AffineMap.get_identity(rank)
            add = arith.addf if is_float else arith.addi
            [added] = generic(
                [result, value], [empty], [identity, access, identity], ["parallel"] * rank,
                lambda product, other, _: [add(product, other)],
            )  # fmt: skip
    result.replace_all_uses_except(added, added.owner.operation)


def _read(start: ir.Value, rank: int) -> tuple[ir.Value, ir.AffineMap]:
    """Return the tensor that the addition reads, and its indexing map: a broadcast tensor is read as it was before."""
    owner = start.owner
    if isinstance(owner, ir.Operation | ir.OpView) and owner.name == "linalg.broadcast":
        added = list(ir.DenseI64ArrayAttr(owner.attributes["dimensions"]))
        axes = [ir.AffineDimExpr.get(axis) for axis in range(rank) if axis not in added]
        return owner.operands[0], ir.AffineMap.get(rank, 0, axes)
    return start, ir.AffineMap.get_identity(rank)
