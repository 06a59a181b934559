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
from mlirtri.lowering.mlir_common.linalg_builder import (
    generic,
    is_zeros,
    iterators_of,
    plain_accesses,
    static_slice,
    zero,
)
from mlirtri.lowering.mlir_common.reading import defined_by, only_user, reassociation_of


@dataclass(frozen=True)
class _Projection:
    """A product with a weight, perhaps with a bias and a factor, whose columns are then split into heads."""

    product: ir.Operation
    weight: ir.Value
    is_transposed: bool
    """Whether the weight is read transposed: its rows belong to the columns of the result."""
    bias: ir.Value | None
    factor: float | None
    """What the product and its bias are multiplied by, as queries are."""
    rounded: ir.Type | None
    """The 16-bit floats that the product is rounded to, where it has neither bias nor factor."""
    split: ir.Operation
    """The `tensor.expand_shape` that splits the columns: ``(…, heads, size)``."""

    @property
    def shape(self) -> list[int]:
        return list(self.split.results[0].type.shape)

    @property
    def heads(self) -> int:
        return self.shape[-2]

    @property
    def columns(self) -> int:
        return self.heads * self.shape[-1]

    @property
    def form(self) -> tuple[object, ...]:
        """Return what has to be the same for products to be merged."""
        *outer, _, size = self.shape
        kinds = self.weight.type.element_type, self.rounded
        return self.product.operands[0], self.is_transposed, tuple(outer), size, *kinds


def rewrite(module: ir.Module) -> None:
    """Merge products of one matrix with several weights, in place."""
    for function in operations_named(module, "func.func"):
        groups: dict[tuple[object, ...], list[_Projection]] = {}
        weights = fixed_weights(function.opview)
        for product in operations_named(module, "linalg.matmul"):
            if product.parent == function and (projection := _projection(product, weights)) is not None:
                groups.setdefault(projection.form, []).append(projection)
        for group in groups.values():
            if len(group) > 1:
                _merge(group)


def fixed_weights(function: func.FuncOp) -> set[ir.Value]:
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
    bias, factor, rounded, value = None, None, None, product.results[0]
    while (user := only_user(value)) is not None:
        if user.name == "tensor.expand_shape" and _splits_columns(user):
            return _Projection(product, weight, moved is not None, bias, factor, rounded, user)
        if bias is factor is rounded is None and _rounds(user):
            rounded = user.results[0].type.element_type
        elif user.name == "linalg.generic" and factor is rounded is None:
            added = _added_vector(user, value, weights) if bias is None else None
            factor = _factor(user) if added is None else None
            bias = bias if added is None else added
            if added is None and factor is None:
                return None
        elif user.name != "tensor.expand_shape" or not _keeps_columns(user):
            return None
        value = user.results[0]
    return None


def _rounds(operation: ir.Operation) -> bool:
    """Return whether a generic rounds each element of a tensor to another type, and does nothing else."""
    if operation.name != "linalg.generic" or _body(operation) != ["arith.truncf", "linalg.yield"]:
        return False
    return plain_accesses(operation) == [list(range(operation.results[0].type.rank))] * 2


def _added_vector(add: ir.Operation, summand: ir.Value, weights: set[ir.Value]) -> ir.Value | None:
    """Return the weight that a generic adds to each row of a tensor; None where it does anything else."""
    accesses, last = plain_accesses(add), summand.type.rank - 1
    if accesses is None or len(accesses) != 3 or _body(add) != ["arith.addf", "linalg.yield"]:
        return None
    [block] = add.regions[0].blocks
    summed = next(iter(block.operations))
    if set(summed.operands) != set(list(block.arguments)[:2]) or "reduction" in iterators_of(add):
        return None
    read = {tuple(access): operand for access, operand in zip(accesses[:2], add.operands, strict=False)}
    bias, everything = read.get((last,)), tuple(range(last + 1))
    is_plain = tuple(accesses[2]) == everything and read.get(everything) == summand
    return bias if is_plain and bias is not None and bias in weights else None


def _factor(multiply: ir.Operation) -> float | None:
    """Return the number that a generic multiplies all elements by; None where it does anything else."""
    accesses = plain_accesses(multiply)
    if accesses is None or len(accesses) != 2 or accesses[0] != accesses[1]:
        return None
    if _body(multiply) != ["arith.mulf", "linalg.yield"] or "reduction" in iterators_of(multiply):
        return None
    [block] = multiply.regions[0].blocks
    operands = list(next(iter(block.operations)).operands)
    others = [operand for operand in operands if operand != block.arguments[0]]
    constant = defined_by(others[0], "arith.constant") if len(others) == 1 else None
    return None if constant is None else ir.FloatAttr(constant.attributes["value"]).value


def _body(operation: ir.Operation) -> list[str]:
    [block] = operation.regions[0].blocks
    return [inner.operation.name for inner in block.operations]


def _splits_columns(reshape: ir.Operation) -> bool:
    """Return whether a reshape splits the columns of a matrix in two axes.

    An axis of size 1 before both may be one of the columns, where there is a single row.
    """
    kind = reshape.results[0].type
    *_, columns = reassociation_of(reshape)
    return kind.has_static_shape and len(columns) > 1 and all(kind.shape[axis] == 1 for axis in columns[:-2])


def _keeps_columns(reshape: ir.Operation) -> bool:
    """Return whether a reshape splits rows only."""
    *_, columns = reassociation_of(reshape)
    return reshape.results[0].type.has_static_shape and len(columns) == 1


def _merge(group: Sequence[_Projection]) -> None:
    first = group[0]
    kind = first.product.results[0].type
    rows, element = kind.shape[0], kind.element_type
    heads = sum(projection.heads for projection in group)
    *outer, _, size = first.shape
    with first.product.location, ir.InsertionPoint(first.product):
        product = _product(group, rows, heads * size, element)
        if first.rounded is not None:
            product, element = _rounded_to(first.rounded, product), first.rounded
        split = ir.RankedTensorType.get([*outer, heads, size], element)
        groups = [[*range(len(outer))], [len(outer), len(outer) + 1]]
        whole = tensor.expand_shape(split, product, groups, [], list(split.shape))
    position = 0
    for projection in group:
        offsets = [*[0] * len(outer), position, 0]
        position += projection.heads
        with projection.split.location, ir.InsertionPoint(projection.split):
            part = static_slice(whole, offsets, projection.shape)
        projection.split.results[0].replace_all_uses_with(part)


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
    operands = [result, *_vectors(group, element)]
    if len(operands) == 1:
        return result
    has_bias = any(projection.bias is not None for projection in group)

    def epilogue(product: ir.Value, *others: ir.Value) -> list[ir.Value]:
        *vectors, _ = others
        if has_bias:
            product = arith.addf(product, vectors.pop(0))
        return [arith.mulf(product, vectors[0]) if vectors else product]

    identity, column = ir.AffineMap.get_identity(2), ir.AffineMap.get(2, 0, [ir.AffineDimExpr.get(1)])
    maps = [identity, *[column] * (len(operands) - 1), identity]
    [computed] = generic(operands, [empty], maps, ["parallel"] * 2, epilogue)
    return computed


def _rounded_to(element: ir.Type, value: ir.Value) -> ir.Value:
    identity, empty = ir.AffineMap.get_identity(value.type.rank), tensor.empty(list(value.type.shape), element)
    [rounded] = generic(
        [value], [empty], [identity] * 2, ["parallel"] * value.type.rank, lambda x, _: [arith.truncf(element, x)]
    )
    return rounded


def _vectors(group: Sequence[_Projection], element: ir.Type) -> list[ir.Value]:
    """Return the biases and the factors of all columns, where there are any.

    Columns without a bias add -0, and those without a factor are multiplied by 1: neither changes a number.
    """

    def constant(projection: _Projection, value: float) -> ir.Value:
        kind = ir.RankedTensorType.get([projection.columns], element)
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get(element, value)))

    vectors = []
    if any(projection.bias is not None for projection in group):
        biases = [constant(each, -0.0) if each.bias is None else each.bias for each in group]
        vectors.append(_concatenated(biases, 0))
    if any(projection.factor is not None for projection in group):
        factors = [constant(each, 1.0 if each.factor is None else each.factor) for each in group]
        vectors.append(_concatenated(factors, 0))
    return vectors


def _concatenated(values: Sequence[ir.Value], axis: int) -> ir.Value:
    shape = list(values[0].type.shape)
    shape[axis] = sum(value.type.shape[axis] for value in values)
    return tensor.concat(ir.RankedTensorType.get(shape, values[0].type.element_type), axis, values)
