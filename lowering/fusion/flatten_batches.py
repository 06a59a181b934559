"""Compute products of a batch of matrices with one matrix as one product with all their rows.

ONNX's MatMul of a tensor with a weight is such a batch: torch-mlir broadcasts the weight. As one matrix it is packed
when it is bound, and products of several weights can be merged.

    %w = broadcast %weight                       %rows = collapse_shape %x [[0, 1], [2]]
    %y = batch_matmul %x, %w                ──►  %y = expand_shape (matmul %rows, %weight) [[0, 1], [2]]
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, linalg, linalg_fill, operations_named, tensor
from mlirtri.lowering.mlir_common.linalg_builder import is_zeros, iterators_of, plain_accesses, zero
from mlirtri.lowering.mlir_common.reading import defined_by

ROWS = [[0, 1], [2]]
"""The reassociation of a batch of matrices, of static sizes, to one matrix."""


def rewrite(module: ir.Module) -> None:
    """Rewrite all products of a batch with one matrix, in place; products of one batch share its collapsed rows."""
    rows: dict[tuple[ir.Value, ir.Block], ir.Value] = {}
    for product in operations_named(module, "linalg.batch_matmul"):
        left, right, start = product.operands
        weight = _broadcast_matrix(right)
        is_static = left.type.has_static_shape and right.type.has_static_shape and is_zeros(start)
        if weight is not None and is_static and "cast" not in product.attributes and _is_plain(product):
            with ir.InsertionPoint(product), product.location:
                place = left, product.block
                rows[place] = rows.get(place) or _collapsed(left)
                _flatten(product, rows[place], weight)


def _flatten(product: ir.Operation, rows: ir.Value, weight: ir.Value) -> None:
    result = product.results[0].type
    start = tensor.empty([rows.type.shape[0], result.shape[2]], result.element_type)
    value = linalg.matmul(rows, weight, outs=[linalg_fill(zero(result.element_type), start)])
    batched = tensor.expand_shape(result, value, ROWS, [], result.shape)
    product.results[0].replace_all_uses_with(batched)
    product.erase()


def _collapsed(batch: ir.Value) -> ir.Value:
    count, rows, columns = batch.type.shape
    kind = ir.RankedTensorType.get([count * rows, columns], batch.type.element_type)
    return tensor.collapse_shape(kind, batch, ROWS)


def _is_plain(product: ir.Operation) -> bool:
    """Return whether neither operand is read transposed, as its indexing maps may say."""
    batch, row, column, inner = range(4)
    return plain_accesses(product) == [[batch, row, inner], [batch, inner, column], [batch, row, column]]


def _broadcast_matrix(value: ir.Value) -> ir.Value | None:
    """Return the matrix that a generic or `linalg.broadcast` repeats along a new first axis; None for other values."""
    if (broadcast := defined_by(value, "linalg.broadcast")) is not None:
        return broadcast.operands[0] if list(broadcast.attributes["dimensions"]) == [0] else None
    generic = defined_by(value, "linalg.generic")
    if generic is None or len(generic.operands) != 2 or "reduction" in iterators_of(generic):
        return None
    [block] = generic.regions[0].blocks
    *others, last = block.operations
    is_copy = not others and last.operands[0] == block.arguments[0]
    return generic.operands[0] if is_copy and plain_accesses(generic) == [[1, 2], [0, 1, 2]] else None
