"""Build linalg on tensors: `generic`, `empty`, `filled`, `reshape`; and query defining operations.

Static sizes are ints; dynamic ones are `index` values, taken from the tensors by `size_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.sizes import DYNAMIC, UNKNOWN, Size, is_dynamic, shape_of
from mlirtri.dialect.base.tensor_type import TensorType, same_shape
from mlirtri.dialect.bindings.mlir import arith, ir, linalg, tensor
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.errors import KernelValueError
from mlirtri.lowering.mlir.index_values import index_constant, index_value, size_of, split_sizes, unnamed


def element_type(dtype: DType) -> ir.Type:
    """Return the signless element type that linalg uses."""
    return ir.Type.parse(dtype.signless)


def tensor_type(of: TensorType) -> ir.RankedTensorType:
    return ir.RankedTensorType.get([DYNAMIC if is_dynamic(size) else size for size in of.shape], element_type(of.dtype))


def is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def made_by(value: ir.Value, name: str) -> ir.Operation | None:
    """Return the defining operation of a value if it has that name, else None."""
    owner = value.owner
    is_made = not isinstance(owner, ir.Block) and owner.operation.name == name
    return owner.operation if is_made else None


def is_zeros(array: ir.Value) -> bool:
    fill = made_by(array, "linalg.fill")
    constant = None if fill is None else made_by(fill.operands[0], "arith.constant")
    return constant is not None and constant.attributes["value"].value == 0


def empty(of: TensorType, sizes: Sequence[int | ir.Value] = ()) -> ir.Value:
    """Return a `tensor.empty`; `sizes` has the dynamic sizes of the type."""
    wanted = [index_value(sizes[axis]) if is_dynamic(size) else size for axis, size in enumerate(of.shape)]
    return tensor.empty(wanted, element_type(of.dtype), loc=unnamed())


def filled(of: TensorType, number: complex | float | int, sizes: Sequence[int | ir.Value] = ()) -> ir.Value:
    """Return a `linalg.fill` of a literal into a fresh tensor, the initial value of reductions and matmuls."""
    value = scalar.constant(number, of.dtype).value
    return linalg.fill(value, outs=[empty(of, sizes)])


def cast_to(value: ir.Value, of: ir.Type) -> ir.Value:
    """Cast the tensor to a type with more or fewer static sizes."""
    return value if value.type == of else tensor.cast(of, value, loc=unnamed())


def splat(of: TensorType, number: complex | float | int | bool) -> ir.Value:
    """Return an `arith.constant` splat; complex numbers are filled in."""
    kind = element_type(of.dtype)
    if of.dtype.is_complex:
        # The bindings lack attributes of complex elements.
        return filled(of, number)
    if of.dtype.is_float:
        element = ir.FloatAttr.get(kind, float(number))
    else:
        element = ir.IntegerAttr.get(kind, scalar.wrapped(int(number), of.dtype))
    return arith.constant(tensor_type(of), ir.DenseElementsAttr.get_splat(tensor_type(of), element))


def dimensions(*positions: int, rank: int) -> ir.AffineMap:
    """Return the map ``(d0, …) -> (d<position>, …)``."""
    return ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(position) for position in positions])


def generic(
    inputs: Sequence[ir.Value],
    inits: Sequence[ir.Value],
    maps: Sequence[ir.AffineMap],
    iterators: Sequence[str],
    body: Callable[..., Sequence[ir.Value]],
) -> list[ir.Value]:
    """Return a `linalg.generic`; `body` maps one element of each input and init to the elements to yield."""
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


def map_elements(
    result: TensorType, inputs, maps, body: Callable[..., Scalar], sizes: Sequence[int | ir.Value] | None = None
) -> ir.Value:
    """Return a fully parallel generic over the result's shape; `body` takes MLIR scalars and gives a `Scalar`.

    `sizes` are needed for dynamic axes that no input indexes.
    """
    rank = result.rank
    [value] = generic(
        inputs,
        [empty(result, loop_sizes(result, inputs, maps) if sizes is None else sizes)],
        [*maps, ir.AffineMap.get_identity(rank)],
        ["parallel"] * rank,
        # The last block argument is the init, which is undefined.
        lambda *elements: [body(*elements[:-1]).value],
    )
    return value


def loop_sizes(result: TensorType, inputs: Sequence[ir.Value], maps: Sequence[ir.AffineMap]) -> list[int | ir.Value]:
    """Return the sizes of a result with one loop per axis, from the inputs that these loops index."""
    return [_loop_size(axis, inputs, maps) if is_dynamic(size) else size for axis, size in enumerate(result.shape)]


def _loop_size(loop: int, inputs: Sequence[ir.Value], maps: Sequence[ir.AffineMap]) -> int | ir.Value:
    walked = [
        (value, axis)
        for value, map_ in zip(inputs, maps, strict=True)
        for axis, index in enumerate(map_.results)
        if isinstance(index, ir.AffineDimExpr) and index.position == loop
    ]
    return size_of(*walked[0])


def reshape(
    value: ir.Value, shape: Sequence[int | Size], dtype: DType, sizes: Sequence[int | ir.Value] | None = None
) -> ir.Value:
    """Reshape by `tensor.expand_shape`, `tensor.collapse_shape`, or both through rank 1.

    Without `sizes` each dynamic size has to follow from the value's own.
    """
    old, new = shape_of(value.type.shape), tuple(shape)
    target = TensorType(new, dtype)
    # Two unknown sizes in one group are ambiguous; rank 1 in between needs no groups.
    is_ambiguous = sizes is not None and max(old.count(UNKNOWN), sum(map(is_dynamic, new))) > 1
    if old == new and not is_ambiguous:
        return value
    if 0 in new:
        return empty(target, sizes or [0] * len(new))
    if not is_ambiguous and (moved := _regrouped(value, target, sizes)) is not None:
        return moved
    flat = value if len(old) == 1 else _regrouped(value, TensorType((_product(old),), dtype), None)
    return _expanded_flat(flat, target, sizes)


def _regrouped(value: ir.Value, target: TensorType, sizes) -> ir.Value | None:
    """Return the value with runs of its axes merged or split, if that gives the target."""
    old, new = shape_of(value.type.shape), target.shape
    if len(old) == len(new) and same_shape(old, new):
        return cast_to(value, tensor_type(target))
    if (groups := reassociation(old, new)) is not None:
        return tensor.collapse_shape(tensor_type(target), value, groups)
    if (groups := reassociation(new, old)) is not None:
        return _expanded(value, target, groups, sizes)
    return None


def _expanded_flat(value: ir.Value, target: TensorType, sizes) -> ir.Value:
    """Expand a rank-1 value to a shape of as many elements."""
    flat = cast_to(value, tensor_type(target.with_shape([_product(target.shape)])))
    if not target.rank:
        return tensor.collapse_shape(tensor_type(target), flat, [])
    if target.rank == 1:
        return cast_to(flat, tensor_type(target))
    return _expanded(flat, target, [list(range(target.rank))], sizes)


def _expanded(value: ir.Value, target: TensorType, groups: list[list[int]], sizes) -> ir.Value:
    wanted: list[int | ir.Value] = list(target.shape)
    for axis, group in enumerate(groups):
        dynamic = [at for at in group if is_dynamic(target.shape[at])]
        if sizes is None and len(dynamic) > 1:
            raise KernelValueError(f"how a size of run time is shared out to {target} is not known")
        for at in dynamic:
            known = prod(target.shape[other] for other in group if other != at) if sizes is None else 1
            wanted[at] = index_value(sizes[at] if sizes is not None else size_of(value, axis))
            if known > 1:
                wanted[at] = arith.divui(wanted[at], index_constant(known))
    return tensor.expand_shape(tensor_type(target), value, groups, *split_sizes(wanted))


def _product(shape: Sequence[int | Size]) -> int | Size:
    return UNKNOWN if any(map(is_dynamic, shape)) else prod(shape)


def reassociation(long: Sequence[int | Size], short: Sequence[int | Size]) -> list[list[int]] | None:
    """Return how runs of `long`'s axes multiply to `short`'s sizes; None if they do not, or `long` is not longer.

    A run with a dynamic size makes a dynamic one.
    """
    if len(long) <= len(short):
        return None
    if not short:
        return [] if all(size == 1 for size in long) else None
    return _runs(tuple(long), tuple(short), 0)


def _runs(long: tuple, short: tuple, start: int) -> list[list[int]] | None:
    """Return the shortest runs from `start` on that make all of `short`."""
    if not short:
        return [] if start == len(long) else None
    for end in range(start + 1, len(long) + 1):
        product = _product(long[start:end])
        fits = (is_dynamic(product) and is_dynamic(short[0])) or product == short[0]
        if fits and (rest := _runs(long, short[1:], end)) is not None:
            return [list(range(start, end)), *rest]
    return None
