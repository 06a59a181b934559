"""Small words for building linalg on tensors: `generic`, `empty`, `filled`, `reshape`. Knows no op of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from mlirtri.dialect import scalar
from mlirtri.dialect.dtypes import DType
from mlirtri.dialect.mlir import arith, ir, linalg, tensor
from mlirtri.dialect.scalar import Scalar
from mlirtri.dialect.types import TensorType


def element_type(dtype: DType) -> ir.Type:
    """The signless element type of linalg."""
    return ir.Type.parse(dtype.signless)


def tensor_type(of: TensorType) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(list(of.shape), element_type(of.dtype))


def unnamed() -> ir.Location:
    """The current location without the user's variable name, which belongs to the result alone."""
    here = ir.Location.current
    return here.child_loc if isinstance(here, ir.NameLoc) else here


def empty(of: TensorType) -> ir.Value:
    return tensor.empty(list(of.shape), element_type(of.dtype), loc=unnamed())


def filled(of: TensorType, number: float | int) -> ir.Value:
    """`linalg.fill` of a literal into a fresh tensor: what reductions and matmuls start from."""
    value = scalar.constant(number, of.dtype).value
    return linalg.fill(value, outs=[empty(of)])


def splat(of: TensorType, number: float | int | bool) -> ir.Value:
    """An `arith.constant` that holds the same number everywhere."""
    kind = element_type(of.dtype)
    if of.dtype.is_float:
        element = ir.FloatAttr.get(kind, float(number))
    else:
        element = ir.IntegerAttr.get(kind, scalar.wrapped(int(number), of.dtype))
    return arith.constant(tensor_type(of), ir.DenseElementsAttr.get_splat(tensor_type(of), element))


def dimensions(*positions: int, rank: int) -> ir.AffineMap:
    """The map ``(d0, …) -> (d<position>, …)``."""
    return ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(position) for position in positions])


def generic(
    inputs: Sequence[ir.Value],
    inits: Sequence[ir.Value],
    maps: Sequence[ir.AffineMap],
    iterators: Sequence[str],
    body: Callable[..., Sequence[ir.Value]],
) -> list[ir.Value]:
    """A `linalg.generic`; `body` takes one element of each input and init and gives the elements to yield."""
    kinds = ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in iterators])
    operation = linalg.GenericOp(
        [init.type for init in inits],
        list(inputs),
        list(inits),
        ir.ArrayAttr.get([ir.AffineMapAttr.get(map_) for map_ in maps]),
        kinds,
    )
    elements = [value.type.element_type for value in (*inputs, *inits)]
    here = unnamed()
    block = operation.regions[0].blocks.append(*elements, arg_locs=[here] * len(elements))
    with ir.InsertionPoint(block), here:
        linalg.YieldOp(list(body(*block.arguments)))
    return list(operation.results)


def map_elements(result: TensorType, inputs, maps, body: Callable[..., Scalar]) -> ir.Value:
    """A fully parallel generic over the result's shape; `body` takes MLIR scalars and gives a `Scalar`."""
    rank = result.rank
    [value] = generic(
        inputs,
        [empty(result)],
        [*maps, ir.AffineMap.get_identity(rank)],
        ["parallel"] * rank,
        # The last block argument is the init, which is undefined.
        lambda *elements: [body(*elements[:-1]).value],
    )
    return value


def reshape(value: ir.Value, shape: Sequence[int], dtype: DType) -> ir.Value:
    """`tensor.expand_shape`, `tensor.collapse_shape`, or the one after the other through rank 1."""
    old, new = list(value.type.shape), list(shape)
    target = TensorType(tuple(new), dtype)
    if old == new:
        return value
    if prod(new) == 0:
        return empty(target)
    if (groups := reassociation(old, new)) is not None:
        return tensor.collapse_shape(tensor_type(target), value, groups)
    if (groups := reassociation(new, old)) is not None:
        return tensor.expand_shape(tensor_type(target), value, groups, [], new)
    flat = TensorType((prod(new),), dtype)
    return reshape(reshape(value, flat.shape, dtype), new, dtype)


def reassociation(long: Sequence[int], short: Sequence[int]) -> list[list[int]] | None:
    """How runs of `long`'s axes multiply up to `short`'s sizes; None when they do not, or when `long` is not longer."""
    if len(long) <= len(short):
        return None
    if not short:
        return [] if all(size == 1 for size in long) else None
    groups: list[list[int]] = []
    axis = 0
    for position, size in enumerate(short):
        group, product = [], 1
        while axis < len(long) and (not group or product < size):
            product *= long[axis]
            group.append(axis)
            axis += 1
        if product != size:
            return None
        if position == len(short) - 1:
            group += range(axis, len(long))
            if any(size != 1 for size in long[axis:]):
                return None
        groups.append(group)
    return groups if all(groups) else None
