"""Compute products of one matrix with several weights as one product: the queries, keys and values of attention.

The weights are concatenated, which runs once, when they are bound (`relax.packed_weights`), and so are biases. What
splits the columns into heads splits those of the one product, of which each reader takes its slice of heads.

    %q = matmul %x, transpose %wq; … expand (%q + %bq)        %w = concat dim(0) %wq, %wk
    %k = matmul %x, transpose %wk; … expand (%k + %bk)  ──►   %e = expand (matmul %x, transpose %w + concat %bq, %bk)
                                                              … extract_slice %e[0, 0, 0], extract_slice %e[0, 8, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import arith, func, ir, linalg, linalg_fill, operations_named, tensor
from mlirtri.lowering.mlir_common.attributes import BOUND, STATE, argument_attributes, result_attributes
from mlirtri.lowering.mlir_common.linalg_builder import generic, is_zeros, iterators_of, plain_accesses, zero
from mlirtri.lowering.mlir_common.reading import defined_by, only_user


@dataclass(frozen=True)
class _Projection:
    """A product with a weight, perhaps with a bias, whose columns are then split into heads."""

    product: ir.Operation
    weight: ir.Value
    is_transposed: bool
    """Whether a row of the weight makes a column of the result."""
    bias: ir.Value | None
    split: ir.Operation
    """The `tensor.expand_shape` that splits the columns: ``(…, heads, size)``."""

    @property
    def shape(self) -> list[int]:
        return list(self.split.results[0].type.shape)

    @property
    def heads(self) -> int:
        return self.shape[-2]

    @property
    def form(self) -> tuple[object, ...]:
        """Return what has to be the same for products to be merged."""
        *outer, _, size = self.shape
        element = self.weight.type.element_type
        return self.product.operands[0], self.is_transposed, self.bias is None, tuple(outer), size, element


def rewrite(module: ir.Module) -> None:
    """Merge all such products of `module`, in place."""
    for function in operations_named(module, "func.func"):
        groups: dict[tuple[object, ...], list[_Projection]] = {}
        weights = _fixed_weights(function.opview)
        for product in operations_named(module, "linalg.matmul"):
            if product.parent == function and (projection := _projection(product, weights)) is not None:
                groups.setdefault(projection.form, []).append(projection)
        for group in groups.values():
            if len(group) > 1:
                _merge(group)


def _fixed_weights(function: func.FuncOp) -> set[ir.Value]:
    """Return the arguments that hold the same tensors at every call."""
    if not function.regions[0].blocks:
        return set()
    states = {attributes[STATE].value for attributes in result_attributes(function) if STATE in attributes}
    arguments = zip(function.regions[0].blocks[0].arguments, argument_attributes(function), strict=True)
    return {value for value, known in arguments if BOUND in known and known[BOUND].value not in states}


def _projection(product: ir.Operation, weights: set[ir.Value]) -> _Projection | None:
    right, start = product.operands[1], product.operands[2]
    moved = defined_by(right, "linalg.transpose")
    weight = right if moved is None else moved.operands[0]
    if weight not in weights or not is_zeros(start) or "cast" in product.attributes:
        return None
    bias, user = None, only_user(product.results[0])
    if user is not None and user.name == "linalg.generic":
        bias = _added_vector(user, product.results[0], weights)
        user = None if bias is None else only_user(user.results[0])
    if user is None or user.name != "tensor.expand_shape" or not _splits_columns(user):
        return None
    return _Projection(product, weight, moved is not None, bias, user)


def _added_vector(add: ir.Operation, product: ir.Value, weights: set[ir.Value]) -> ir.Value | None:
    """Return the weight that a generic adds to each row of a product; None where it does anything else."""
    [block] = add.regions[0].blocks
    accesses = plain_accesses(add)
    names = [operation.operation.name for operation in block.operations]
    if accesses is None or len(accesses) != 3 or names != ["arith.addf", "linalg.yield"]:
        return None
    summed = next(iter(block.operations))
    if set(summed.operands) != set(list(block.arguments)[:2]) or "reduction" in iterators_of(add):
        return None
    read = {tuple(access): operand for access, operand in zip(accesses[:2], add.operands, strict=False)}
    bias = read.get((1,))
    is_plain = accesses[2] == [0, 1] and read.get((0, 1)) == product
    return bias if is_plain and bias is not None and bias in weights else None


def _splits_columns(reshape: ir.Operation) -> bool:
    """Return whether a reshape of a matrix splits its columns in two axes, and nothing computes with them before that.

    An axis of size 1 before both may be one of the columns, where there is a single row.
    What scales or rotates a whole product is computed with it; columns that are split are moved, or read by heads.
    """
    kind = reshape.results[0].type
    parts = [[int(axis) for axis in ir.ArrayAttr(part)] for part in ir.ArrayAttr(reshape.attributes["reassociation"])]
    if len(parts) != 2 or len(parts[1]) < 2 or not kind.has_static_shape:
        return False
    *outer, _, _ = parts[1]
    return all(kind.shape[axis] == 1 for axis in outer)


def _merge(group: Sequence[_Projection]) -> None:
    first = group[0]
    kind = first.product.results[0].type
    rows, element = kind.shape[0], kind.element_type
    heads = sum(projection.heads for projection in group)
    *outer, _, size = first.shape
    with first.product.location, ir.InsertionPoint(first.product):
        product = _product(group, rows, heads * size, element)
        split = ir.RankedTensorType.get([*outer, heads, size], element)
        whole = tensor.expand_shape(split, product, first.split.attributes["reassociation"], [], list(split.shape))
    position = 0
    for projection in group:
        offsets = [*[0] * len(outer), position, 0]
        position += projection.heads
        with projection.split.location, ir.InsertionPoint(projection.split):
            part = tensor.ExtractSliceOp(
                projection.split.results[0].type, whole, [], [], [], offsets, projection.shape, [1] * len(offsets)
            )
        projection.split.results[0].replace_all_uses_with(part.result)


def _product(group: Sequence[_Projection], rows: int, columns: int, element: ir.Type) -> ir.Value:
    """Return the product of the common left operand with all weights, with all biases."""
    first = group[0]
    left, axis = first.product.operands[0], 0 if first.is_transposed else 1
    weight = _concatenated([projection.weight for projection in group], axis)
    if first.is_transposed:
        inner = left.type.shape[1]
        weight = linalg.transpose(
            weight, outs=[tensor.empty([inner, columns], weight.type.element_type)], permutation=[1, 0]
        )
        weight = weight if isinstance(weight, ir.Value) else weight.result
    empty = tensor.empty([rows, columns], element)
    result = linalg.matmul(left, weight, outs=[linalg_fill(zero(element), empty)])
    biases = [projection.bias for projection in group if projection.bias is not None]
    if not biases:
        return result
    identity, column = ir.AffineMap.get_identity(2), ir.AffineMap.get(2, 0, [ir.AffineDimExpr.get(1)])
    [added] = generic(
        [result, _concatenated(biases, 0)], [empty], [identity, column, identity], ["parallel"] * 2,
        lambda product, bias, _: [arith.addf(product, bias)],
    )  # fmt: skip
    return added


def _concatenated(values: Sequence[ir.Value], axis: int) -> ir.Value:
    shape = list(values[0].type.shape)
    shape[axis] = sum(value.type.shape[axis] for value in values)
    return tensor.concat(ir.RankedTensorType.get(shape, values[0].type.element_type), axis, values)
