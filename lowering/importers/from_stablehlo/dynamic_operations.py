"""Lower operations of StableHLO whose operands or results have sizes known at run time only, where upstream does not.

Pads, slices and concatenations become those of `tensor`, a gather reads elements at clamped indices. A dimension of a
broadcast that is not statically 1 keeps its size; a call whose sizes do not fit is refused before it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.bindings.mlir import (
    arith,
    dimension_numbers,
    ir,
    linalg,
    linalg_fill,
    operations_named,
    tensor,
)
from mlirtri.lowering.importers.from_stablehlo.shape_operands import shape_elements
from mlirtri.lowering.importers.from_stablehlo.sort_and_scatter import start_index
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import (
    index_constant,
    index_value,
    offsets_in,
    size_of,
    sizes_of,
    split_sizes,
)
from mlirtri.lowering.mlir_common.linalg_builder import generic

Size = int | ir.Value
_Fold = Callable[[int, int], int]


def _folding(build: Callable[[ir.Value, ir.Value], ir.Value], fold: _Fold) -> Callable[[Size, Size], Size]:
    def compute(left: Size, right: Size) -> Size:
        if isinstance(left, int) and isinstance(right, int):
            return fold(left, right)
        return build(index_value(left), index_value(right))

    return compute


_add = _folding(arith.addi, lambda x, y: x + y)
_subtract = _folding(arith.subi, lambda x, y: x - y)
_multiply = _folding(arith.muli, lambda x, y: x * y)
_larger = _folding(arith.maxsi, max)
_smaller = _folding(arith.minsi, min)
_quotient_up = _folding(arith.ceildivsi, lambda x, y: -(-x // y))


def rewrite(module: ir.Module) -> None:
    """Lower these operations of `module`, in place."""
    for name, lower in _RULES.items():
        for operation in operations_named(module, f"stablehlo.{name}"):
            with operation.location, ir.InsertionPoint(operation):
                value = lower(operation)
            if value is not None:
                replace(operation, [_of_type(value, operation)])
    for operation in operations_named(module, "stablehlo.scatter"):
        with operation.location, ir.InsertionPoint(operation):
            _widen_indices(operation)


def _of_type(value: ir.Value, operation: ir.Operation) -> ir.Value:
    kind = operation.results[0].type
    with operation.location, ir.InsertionPoint(operation):
        return value if value.type == kind else tensor.cast(kind, value)


def _is_dynamic(operation: ir.Operation) -> bool:
    values = (*operation.operands, *operation.results)
    return any(isinstance(value.type, ir.RankedTensorType) and not value.type.has_static_shape for value in values)


def _broadcast(operation: ir.Operation) -> None:
    """Tell upstream's lowering which dimensions of the operand are repeated."""
    sizes = list(operation.operands[0].type.shape)
    repeated = [axis for axis, size in enumerate(sizes) if size == 1]
    kept = [axis for axis, size in enumerate(sizes) if size != 1]
    operation.attributes["known_expanding_dimensions"] = ir.DenseI64ArrayAttr.get(repeated)
    operation.attributes["known_nonexpanding_dimensions"] = ir.DenseI64ArrayAttr.get(kept)


def _reshape(operation: ir.Operation) -> ir.Value:
    source, shape = operation.operands
    return tensor.reshape(operation.results[0].type, source, shape)


def _concatenate(operation: ir.Operation) -> ir.Value | None:
    if not _is_dynamic(operation):
        return None
    axis = ir.IntegerAttr(operation.attributes["dimension"]).value
    operands = list(operation.operands)
    shape = [max(value.type.shape[position] for value in operands) for position in range(operands[0].type.rank)]
    element = operands[0].type.element_type
    kinds = []
    for value in operands:
        own = [value.type.shape[axis] if position == axis else size for position, size in enumerate(shape)]
        kinds.append(ir.RankedTensorType.get(own, element))
    parts = [v if v.type == kind else tensor.cast(kind, v) for v, kind in zip(operands, kinds, strict=True)]
    joined = [value.type.shape[axis] for value in operands]
    shape[axis] = sum(joined) if all(size >= 0 for size in joined) else ir.ShapedType.get_dynamic_size()
    return tensor.concat(ir.RankedTensorType.get(shape, element), axis, parts)


def _pad(operation: ir.Operation) -> ir.Value | None:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, high, interior = (list(operation.attributes[name]) for name in names)
    if not _is_dynamic(operation) or not (any(interior) or min((*low, *high), default=0) < 0):
        return None
    source, value = operation.operands
    return padded(source, value, low, high, interior)


def _dynamic_pad(operation: ir.Operation) -> ir.Value:
    source, value, *widths = operation.operands
    return padded(source, value, *(shape_elements(width) for width in widths))


def padded(
    source: ir.Value, value: ir.Value, low: Sequence[Size], high: Sequence[Size], interior: Sequence[Size]
) -> ir.Value:
    """Return `source` with copies of the rank-0 `value` around and between its elements; negative widths cut off."""
    rank = source.type.rank
    if rank == 0:
        return source
    sizes, starts, counts, offsets, steps = [], [], [], [], []
    for axis, (before, after, between) in enumerate(zip(low, high, interior, strict=True)):
        length, step = size_of(source, axis), _add(between, 1)
        spread = _add(length, _multiply(_larger(_subtract(length, 1), 0), between))
        size = _larger(_add(_add(before, after), spread), 0)
        if all(isinstance(width, int) and width >= 0 for width in (before, after)):
            start, count = 0, length
        else:
            start = _quotient_up(_larger(_subtract(0, before), 0), step)
            stop = _smaller(length, _quotient_up(_larger(_subtract(size, before), 0), step))
            count = _larger(_subtract(stop, start), 0)
        for sequence, number in (
            (sizes, size), (starts, start), (counts, count), (offsets, _add(before, _multiply(start, step))),
            (steps, step),
        ):  # fmt: skip
            sequence.append(number)
    out = tensor.empty([index_value(size) if not isinstance(size, int) else size for size in sizes], _element(source))
    filled = linalg_fill(tensor.extract(value, []), out)
    return _inserted(_cut(source, starts, counts), filled, offsets, counts, steps)


def _element(value: ir.Value) -> ir.Type:
    return value.type.element_type


def _cut(
    source: ir.Value, starts: Sequence[Size], counts: Sequence[Size], steps: Sequence[int] | None = None
) -> ir.Value:
    offsets, static_offsets = split_sizes(offsets_in(source, starts))
    sizes, static_sizes = split_sizes(counts)
    kind = ir.RankedTensorType.get(static_sizes, _element(source))
    return tensor.extract_slice(
        kind, source, offsets, sizes, [], static_offsets, static_sizes, steps or [1] * len(counts)
    )


def _inserted(
    source: ir.Value, target: ir.Value, starts: Sequence[Size], counts: Sequence[Size], steps: Sequence[Size]
) -> ir.Value:
    offsets, static_offsets = split_sizes(offsets_in(target, starts))
    sizes, static_sizes = split_sizes(counts)
    strides, static_strides = split_sizes(steps)
    return tensor.insert_slice(source, target, offsets, sizes, strides, static_offsets, static_sizes, static_strides)


def _mapped(operation: ir.Operation) -> ir.Value | None:
    """Return a `map` of the operation on elements: upstream ends the process where it asks for a dynamic result."""
    if not _is_dynamic(operation):
        return None
    [source], kind = operation.operands, operation.results[0].type
    dimensions = {"dimensions": ir.DenseI64ArrayAttr.get(list(range(kind.rank)))}
    mapped = ir.Operation.create("stablehlo.map", [kind], [source], dimensions, regions=1)
    elements = [ir.RankedTensorType.get([], _element(value)) for value in (source, operation.results[0])]
    block = mapped.regions[0].blocks.append(elements[0], arg_locs=[operation.location])
    with ir.InsertionPoint(block):
        attributes = {name: operation.attributes[name] for name in operation.attributes.keys()}
        value = ir.Operation.create(operation.name, [elements[1]], [block.arguments[0]], attributes).result
        ir.Operation.create("stablehlo.return", operands=[value])
    return mapped.result


def _slice(operation: ir.Operation) -> ir.Value | None:
    if not _is_dynamic(operation):
        return None
    starts, limits, steps = (list(operation.attributes[name]) for name in ("start_indices", "limit_indices", "strides"))
    counts = [max(-(-(last - first) // step), 0) for first, last, step in zip(starts, limits, steps, strict=True)]
    return _cut(operation.operands[0], starts, counts, steps)


def _updated(operation: ir.Operation) -> ir.Value | None:
    """Insert the update at indices that are moved inside."""
    if not _is_dynamic(operation):
        return None
    target, update, *indices = operation.operands
    starts = []
    for axis, index in enumerate(indices):
        start = arith.index_cast(ir.IndexType.get(), tensor.extract(_signed(index), []))
        starts.append(_larger(_smaller(start, _subtract(size_of(target, axis), size_of(update, axis))), 0))
    return _inserted(update, target, starts, sizes_of(update), [1] * len(starts))


def _reversed(operation: ir.Operation) -> ir.Value | None:
    if not _is_dynamic(operation):
        return None
    source, turned = operation.operands[0], list(operation.attributes["dimensions"])
    rank = source.type.rank

    def element(_: ir.Value) -> list[ir.Value]:
        position: list[ir.Value] = [linalg.IndexOp(axis).result for axis in range(rank)]
        for axis in turned:
            position[axis] = arith.subi(index_value(_subtract(size_of(source, axis), 1)), position[axis])
        return [tensor.extract(source, position)]

    out = tensor.empty(sizes_of(source), _element(source))
    [result] = generic([], [out], [ir.AffineMap.get_identity(rank)], ["parallel"] * rank, element)
    return result


def _static_gather(operation: ir.Operation) -> ir.Value | None:
    return _gathered(operation, list(operation.attributes["slice_sizes"])) if _is_dynamic(operation) else None


def _dynamic_gather(operation: ir.Operation) -> ir.Value:
    return _gathered(operation, shape_elements(operation.operands[2]))


def _gathered(operation: ir.Operation, slice_sizes: list[Size]) -> ir.Value:
    operand, indices = list(operation.operands)[:2]
    dimensions = dimension_numbers("Gather", operation.attributes["dimension_numbers"])
    indices = _signed(indices)
    skipped = (*dimensions.collapsed_slice_dims, *dimensions.operand_batching_dims)
    window_axes = [axis for axis in range(operand.type.rank) if axis not in skipped]
    for axis in dimensions.start_index_map:
        _assert_fits(slice_sizes[axis], size_of(operand, axis))
    batch_sizes = [size for axis, size in enumerate(sizes_of(indices)) if axis != dimensions.index_vector_dim]
    batch, window = iter(batch_sizes), iter([slice_sizes[axis] for axis in window_axes])
    rank = operation.results[0].type.rank
    sizes = [next(window if axis in dimensions.offset_dims else batch) for axis in range(rank)]

    def element(_: ir.Value) -> list[ir.Value]:
        loops = [linalg.IndexOp(axis).result for axis in range(rank)]
        batch_loops = [loop for axis, loop in enumerate(loops) if axis not in dimensions.offset_dims]
        window_loops = [loop for axis, loop in enumerate(loops) if axis in dimensions.offset_dims]
        position = [index_constant(0)] * operand.type.rank
        for axis, loop in zip(window_axes, window_loops, strict=True):
            position[axis] = loop
        for column, axis in enumerate(dimensions.start_index_map):
            start = start_index(indices, batch_loops, column, dimensions.index_vector_dim)
            offset = None if axis in skipped else position[axis]
            position[axis] = _clamped(start, offset, slice_sizes[axis], size_of(operand, axis))
        pairs = zip(dimensions.operand_batching_dims, dimensions.start_indices_batching_dims, strict=True)
        for axis, of_indices in pairs:
            position[axis] = batch_loops[of_indices - (of_indices > dimensions.index_vector_dim)]
        return [tensor.extract(operand, position)]

    out = tensor.empty(sizes, _element(operand))
    [result] = generic([], [out], [ir.AffineMap.get_identity(rank)], ["parallel"] * rank, element)
    return result


def _clamped(start: ir.Value, offset: ir.Value | None, slice_size: Size, length: Size) -> ir.Value:
    """Return the index of an element of a slice that is moved inside; a slice that is too long fails its assertion."""
    first = _larger(_smaller(start, _subtract(length, slice_size)), 0)
    if offset is None:
        return index_value(first)
    return index_value(_larger(_smaller(_add(first, offset), _subtract(length, 1)), 0))


def _assert_fits(slice_size: Size, length: Size) -> None:
    if isinstance(slice_size, int) and (slice_size <= 1 or isinstance(length, int)):
        return
    holds = arith.cmpi(arith.CmpIPredicate.sle, index_value(slice_size), index_value(length))
    message = ir.StringAttr.get("a gathered slice is larger than the tensor")
    ir.Operation.create("cf.assert", operands=[holds], attributes={"msg": message})


def _signed(indices: ir.Value) -> ir.Value:
    """Return indices as signed integers, since later stages extend the sign."""
    if not (isinstance(_element(indices), ir.IntegerType) and _element(indices).is_unsigned):
        return indices
    kind = ir.RankedTensorType.get(list(indices.type.shape), ir.IntegerType.get_signless(64))
    return ir.Operation.create("stablehlo.convert", [kind], [indices]).result


def _widen_indices(operation: ir.Operation) -> None:
    position = (len(operation.operands) - 1) // 2
    operation.operands[position] = _signed(operation.operands[position])


def _convolution(operation: ir.Operation) -> ir.Value:
    """Pad the image itself: the widths may be known at run time only."""
    image, kernel, widths = operation.operands
    dimensions = dimension_numbers("Conv", operation.attributes["dimension_numbers"])
    axes, elements = list(dimensions.input_spatial_dimensions), shape_elements(widths)
    dilation = list(operation.attributes["lhs_dilation"]) if "lhs_dilation" in operation.attributes else [1] * len(axes)
    low, high, interior = ([0] * image.type.rank for _ in range(3))
    for position, axis in enumerate(axes):
        low[axis], high[axis] = elements[2 * position : 2 * position + 2]
        interior[axis] = dilation[position] - 1
    kind = ir.RankedTensorType.get([], _element(image))
    zero = ir.Attribute.parse(f"dense<0> : {kind}" if isinstance(_element(image), ir.IntegerType) else _zero(kind))
    value = ir.Operation.create("stablehlo.constant", [kind], [], {"value": zero}).result
    unchanged = {name: operation.attributes[name] for name in operation.attributes.keys() if name not in _PADDINGS}
    operands = [padded(image, value, low, high, interior), kernel]
    return ir.Operation.create("stablehlo.convolution", [operation.results[0].type], operands, unchanged).result


_PADDINGS = ("padding", "lhs_dilation")


def _zero(type_: ir.RankedTensorType) -> str:
    zero = "(0.0, 0.0)" if isinstance(type_.element_type, ir.ComplexType) else "0.0"
    return f"dense<{zero}> : {type_}"


_RULES: dict[str, Callable[[ir.Operation], ir.Value | None]] = {
    "dynamic_broadcast_in_dim": _broadcast,
    "dynamic_reshape": _reshape,
    "concatenate": _concatenate,
    "dynamic_conv": _convolution,
    "dynamic_update_slice": _updated,
    "pad": _pad,
    "dynamic_pad": _dynamic_pad,
    "gather": _static_gather,
    "dynamic_gather": _dynamic_gather,
    "reduce_precision": _mapped,
    "reverse": _reversed,
    "slice": _slice,
}
