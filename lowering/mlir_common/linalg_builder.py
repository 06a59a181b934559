"""Build linalg on tensors: `generic`, `empty`, `filled`, `reshape`, generics of named operations; query definitions.

Static sizes are ints; dynamic ones are `index` values, taken from the tensors by `size_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.sizes import DYNAMIC, UNKNOWN, Size, is_dynamic, shape_of
from mlirtri.dialect.base.tensor_type import TensorType, same_shape
from mlirtri.dialect.bindings.mlir import arith, ir, linalg, linalg_fill, tensor
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.errors import KernelValueError
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import (
    Sizes,
    index_constant,
    index_value,
    offsets_in,
    size_of,
    split_sizes,
    unnamed,
)
from mlirtri.lowering.mlir_common.reading import defined_by, used_dimensions


def element_type(dtype: DType) -> ir.Type:
    """Return MLIR's signless type of a dtype."""
    return ir.Type.parse(dtype.signless)


def tensor_type(kind: TensorType) -> ir.RankedTensorType:
    """Return MLIR's type of a tensor; sizes known at run time only are dynamic."""
    return ir.RankedTensorType.get(
        [DYNAMIC if is_dynamic(size) else size for size in kind.shape], element_type(kind.dtype)
    )


def is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def is_zeros(array: ir.Value) -> bool:
    """Return whether a tensor is a `linalg.fill` of a constant zero."""
    fill = defined_by(array, "linalg.fill")
    constant = None if fill is None else defined_by(fill.operands[0], "arith.constant")
    return constant is not None and constant.attributes["value"].value == 0


def empty(kind: TensorType, sizes: Sizes = ()) -> ir.Value:
    """Return a `tensor.empty`; `sizes` has the dynamic sizes of the type."""
    shape = [index_value(sizes[axis]) if is_dynamic(size) else size for axis, size in enumerate(kind.shape)]
    return tensor.empty(shape, element_type(kind.dtype), loc=unnamed())


def filled(kind: TensorType, number: complex | float | int, sizes: Sizes = ()) -> ir.Value:
    """Return a `linalg.fill` of a literal into a fresh tensor, the initial value of reductions and matmuls."""
    value = scalar.constant(number, kind.dtype).value
    return linalg_fill(value, empty(kind, sizes))


def zero(element: ir.Type) -> ir.Value:
    is_float = isinstance(element, ir.FloatType)
    return arith.constant(element, ir.FloatAttr.get(element, 0.0) if is_float else ir.IntegerAttr.get(element, 0))


def padded(
    value: ir.Value, type_: ir.RankedTensorType, low: Sequence[int], high: Sequence[int], padding: ir.Value
) -> ir.Value:
    """Return a `tensor.pad` of `value` to the type `type_`."""
    pad = tensor.PadOp(type_, value, [], [], list(low), list(high))
    block = pad.regions[0].blocks.append(*[ir.IndexType.get()] * type_.rank, arg_locs=[unnamed()] * type_.rank)
    with ir.InsertionPoint(block), unnamed():
        tensor.YieldOp(padding)
    return pad.result


def insert_slice(
    update: ir.Value, target: ir.Value, offsets: Sizes, sizes: Sizes, strides: Sequence[int] | None = None
) -> ir.Value:
    """Return a `tensor.insert_slice`; offsets and sizes are ints or `index` values."""
    moving_offsets, static_offsets = split_sizes(offsets_in(target, offsets))
    moving_sizes, static_sizes = split_sizes(sizes)
    return tensor.insert_slice(
        update, target, moving_offsets, moving_sizes, [], static_offsets, static_sizes,
        list(strides or [1] * len(static_sizes)),
    )  # fmt: skip


def static_slice(
    value: ir.Value, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None,
    kind: ir.RankedTensorType | None = None,
) -> ir.Value:  # fmt: skip
    """Return a `tensor.extract_slice` of numbers alone; `kind` is its type where axes of size 1 go."""
    kind = kind or ir.RankedTensorType.get(sizes, value.type.element_type, value.type.encoding)
    return tensor.extract_slice(kind, value, [], [], [], offsets, sizes, strides or [1] * len(sizes))


def cast_to(value: ir.Value, type_: ir.Type) -> ir.Value:
    return value if value.type == type_ else tensor.cast(type_, value, loc=unnamed())


def splat(kind: TensorType, number: complex | float | int | bool) -> ir.Value:
    """Return an `arith.constant` splat; complex numbers are filled in."""
    element_kind = element_type(kind.dtype)
    if kind.dtype.is_complex or isinstance(number, complex):
        # The bindings lack attributes of complex elements.
        return filled(kind, number)
    if kind.dtype.is_float:
        element = ir.FloatAttr.get(element_kind, float(number))
    else:
        element = ir.IntegerAttr.get(element_kind, scalar.wrapped(int(number), kind.dtype))
    return arith.constant(tensor_type(kind), ir.DenseElementsAttr.get_splat(tensor_type(kind), element))


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
    """Return the results of a `linalg.generic`, on tensors or memrefs.

    `body` maps one element of each input and init to the elements to yield; iterators are "parallel" or "reduction".
    """
    operation = empty_generic(inputs, inits, maps, iterators)
    elements = [value.type.element_type for value in (*inputs, *inits)]
    location = unnamed()
    block = operation.regions[0].blocks.append(*elements, arg_locs=[location] * len(elements))
    with ir.InsertionPoint(block), location:
        linalg.YieldOp(list(body(*block.arguments)))
    return list(operation.results)


def map_elements(
    result: TensorType,
    inputs: Sequence[ir.Value],
    maps: Sequence[ir.AffineMap],
    body: Callable[..., Scalar],
    sizes: Sizes | None = None,
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
    return [loop_size(axis, inputs, maps) if is_dynamic(size) else size for axis, size in enumerate(result.shape)]


def loop_size(loop: int, operands: Sequence[ir.Value], maps: Sequence[ir.AffineMap]) -> int | ir.Value:
    """Return the extent of a loop, which is the size of an axis that it alone indexes; raises `ValueError`."""
    for value, mapping in zip(operands, maps, strict=True):
        for axis, index in enumerate(mapping.results):
            if isinstance(index, ir.AffineDimExpr) and index.position == loop:
                return size_of(value, axis)
    raise ValueError(f"no axis has the size of loop d{loop}")


def reshape(value: ir.Value, shape: Sequence[int | Size], dtype: DType, sizes: Sizes | None = None) -> ir.Value:
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


def _regrouped(value: ir.Value, target: TensorType, sizes: Sizes | None) -> ir.Value | None:
    old, new = shape_of(value.type.shape), target.shape
    if len(old) == len(new) and same_shape(old, new):
        return cast_to(value, tensor_type(target))
    if (groups := reassociation(old, new)) is not None:
        return tensor.collapse_shape(tensor_type(target), value, groups)
    if (groups := reassociation(new, old)) is not None:
        return _expanded(value, target, groups, sizes)
    return None


def _expanded_flat(value: ir.Value, target: TensorType, sizes: Sizes | None) -> ir.Value:
    flat = cast_to(value, tensor_type(target.with_shape([_product(target.shape)])))
    if not target.rank:
        return tensor.collapse_shape(tensor_type(target), flat, [])
    if target.rank == 1:
        return cast_to(flat, tensor_type(target))
    return _expanded(flat, target, [list(range(target.rank))], sizes)


def _expanded(value: ir.Value, target: TensorType, groups: list[list[int]], sizes: Sizes | None) -> ir.Value:
    shape: list[int | ir.Value] = list(target.shape)
    for axis, group in enumerate(groups):
        dynamic = [position for position in group if is_dynamic(target.shape[position])]
        if sizes is None and len(dynamic) > 1:
            raise KernelValueError(f"how a size of run time is shared out to {target} is not known")
        for position in dynamic:
            factor = prod(target.shape[other] for other in group if other != position) if sizes is None else 1
            shape[position] = index_value(sizes[position] if sizes is not None else size_of(value, axis))
            if factor > 1:
                shape[position] = arith.divui(shape[position], index_constant(factor))
    return tensor.expand_shape(tensor_type(target), value, groups, *split_sizes(shape))


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
    if not short:
        return [] if start == len(long) else None
    for end in range(start + 1, len(long) + 1):
        product = _product(long[start:end])
        fits = (is_dynamic(product) and is_dynamic(short[0])) or product == short[0]
        if fits and (remaining := _runs(long, short[1:], end)) is not None:
            return [list(range(start, end)), *remaining]
    return None


def generalize(operation: ir.Operation) -> ir.Operation:
    """Replace a structured operation by the `linalg.generic` of the same maps and body."""
    maps = [attribute.value for attribute in linalg.get_indexing_maps(operation)]
    count = len(maps) - len(operation.results)
    operands = list(operation.operands)[: len(maps)]
    block = operation.regions[0].blocks[0]
    with ir.InsertionPoint(operation), operation.location:
        generic = empty_generic(operands[:count], operands[count:], maps, _iterators(operation, maps))
    body = generic.regions[0].blocks.append(*[argument.type for argument in block.arguments])
    for old, new in zip(block.arguments, body.arguments, strict=True):
        old.replace_all_uses_with(new)
    for inner in list(block.operations):
        body.append(inner.operation)
    replace(operation, generic.results)
    return generic


def elements(
    type_: ir.RankedTensorType,
    inputs: Sequence[tuple[ir.Value, ir.AffineMap]],
    make: Callable[[Sequence[ir.Value], Sequence[ir.Value]], ir.Value],
) -> ir.Value:
    """Return a new tensor of static shape with elements ``make(indices, elements of the inputs)``."""
    identity = ir.AffineMap.get_identity(type_.rank)
    values, maps = [value for value, _ in inputs], [*(mapping for _, mapping in inputs), identity]
    out = tensor.empty(type_.shape, type_.element_type)
    generic = empty_generic(values, [out], maps, ["parallel"] * type_.rank)
    kinds = [value.type.element_type if isinstance(value.type, ir.ShapedType) else value.type for value in values]
    body = generic.regions[0].blocks.append(*kinds, type_.element_type)
    with ir.InsertionPoint(body):
        indices = [linalg.IndexOp(axis).result for axis in range(type_.rank)]
        linalg.YieldOp([make(indices, list(body.arguments)[:-1])])
    _erase_unused(indices)
    return generic.results[0]


def generic_of_region(
    block: ir.Block,
    out: ir.Value,
    finish: Callable[[Sequence[ir.Value], ir.Value], ir.Value] = lambda indices, element: element,
) -> ir.Value:
    """Fill `out` by a `tensor` region, which maps indices to an element; `finish` may transform the element.

    The operations of `block` are moved out of it.
    """
    kind = out.type
    generic = empty_generic([], [out], [ir.AffineMap.get_identity(kind.rank)], ["parallel"] * kind.rank)
    body = generic.regions[0].blocks.append(kind.element_type)
    *operations, end = [view.operation for view in block.operations]
    with ir.InsertionPoint(body):
        indices = [linalg.IndexOp(axis).result for axis in range(kind.rank)]
    for argument, index in zip(block.arguments, indices, strict=True):
        argument.replace_all_uses_with(index)
    for operation in operations:
        body.append(operation)
    with ir.InsertionPoint(body):
        linalg.YieldOp([finish(indices, end.operands[0])])
    _erase_unused(indices)
    return generic.results[0]


def _erase_unused(indices: Sequence[ir.Value]) -> None:
    for index in indices:
        if not any(True for _ in index.uses):
            index.owner.operation.erase()


def empty_generic(
    inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], maps: Sequence[ir.AffineMap], iterators: Sequence[str]
) -> ir.Operation:
    """Create a `linalg.generic` on tensors or memrefs with an empty body."""
    kinds = ir.ArrayAttr.get([iterator_type(kind) for kind in iterators])
    results = [output.type for output in outputs if isinstance(output.type, ir.RankedTensorType)]
    return linalg.GenericOp(results, list(inputs), list(outputs), _map_attributes(maps), kinds).operation


def iterator_type(kind: str) -> ir.Attribute:
    return ir.Attribute.parse(f"#linalg.iterator_type<{kind}>")


def _iterators(operation: ir.Operation, maps: Sequence[ir.AffineMap]) -> list[str]:
    if "iterator_types" in operation.attributes:
        return iterators_of(operation)
    parallel = set.intersection(*map(used_dimensions, maps[len(maps) - len(operation.results) :]))
    return ["parallel" if position in parallel else "reduction" for position in range(maps[0].n_dims)]


def _map_attributes(maps: Sequence[ir.AffineMap]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(mapping) for mapping in maps])


def maps_of(generic: ir.Operation) -> list[ir.AffineMap]:
    return [attribute.value for attribute in generic.attributes["indexing_maps"]]


def set_maps(generic: ir.Operation, maps: Sequence[ir.AffineMap]) -> None:
    generic.attributes["indexing_maps"] = _map_attributes(maps)


def iterators_of(generic: ir.Operation) -> list[str]:
    """Return "parallel" or "reduction" per loop."""
    return ["reduction" if "reduction" in str(kind) else "parallel" for kind in generic.attributes["iterator_types"]]


def plain_accesses(generic: ir.Operation) -> list[list[int]] | None:
    """Return, per operand, the loops that index its axes; None where an axis is indexed by anything but a loop."""
    maps = maps_of(generic)
    if not all(isinstance(result, ir.AffineDimExpr) for mapping in maps for result in mapping.results):
        return None
    return [[result.position for result in mapping.results] for mapping in maps]


def loop_extents(operation: ir.Operation, maps: Sequence[ir.AffineMap] | None = None) -> dict[int, int]:
    """Return the size, or `DYNAMIC`, of every loop that alone indexes an axis; named operations need their `maps`."""
    return {
        result.position: size
        for operand, mapping in zip(operation.operands, maps or maps_of(operation), strict=True)
        if isinstance(operand.type, ir.ShapedType)
        for result, size in zip(mapping.results, operand.type.shape, strict=True)
        if isinstance(result, ir.AffineDimExpr)
    }


def permute_loops(generic: ir.Operation, order: Sequence[int]) -> None:
    """Permute the loops: loop p is then the former ``order[p]``."""
    count, kinds = len(order), list(generic.attributes["iterator_types"])
    renamed = ir.AffineMap.get(count, 0, [ir.AffineDimExpr.get(order.index(loop)) for loop in range(count)])
    set_maps(generic, [ir.AffineMap.get(count, 0, [result.compose(renamed) for result in mapping.results])
                       for mapping in maps_of(generic)])  # fmt: skip
    generic.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[loop] for loop in order])
