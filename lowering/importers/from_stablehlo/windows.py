"""Lower windows of sizes known at run time only, which upstream leaves, to a pad and a reduction over windows.

    out[i] = region(… region(init, x[i * stride]) …, x[i * stride + (window - 1) * dilation])

is `reduce_window`, whose region is one of linalg on rank-0 tensors, as upstream's lowering leaves it. A convolution
adds products with the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import arith, dimension_numbers, ir, linalg_fill, operations_named, tensor
from mlirtri.lowering.importers.from_stablehlo.dynamic_operations import padded
from mlirtri.lowering.importers.from_stablehlo.sort_and_scatter import inline_scalars, numbers_of
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import index_constant, size_of
from mlirtri.lowering.mlir_common.linalg_builder import generic


def rewrite(module: ir.Module) -> None:
    """Lower all windows that are left in `module`, in place."""
    for name, lower in (("reduce_window", _reduced), ("convolution", _convolved)):
        for operation in operations_named(module, f"stablehlo.{name}"):
            with operation.location, ir.InsertionPoint(operation):
                values = lower(operation)
                kinds = [result.type for result in operation.results][: len(values)]
                values = [v if v.type == kind else tensor.cast(kind, v) for v, kind in zip(values, kinds, strict=True)]
            if values:
                replace(operation, values)


def multiply_without_signs(module: ir.Module) -> None:
    """Give convolutions of unsigned integers signless operands of the result's width, in place: the bits are the same.

    Upstream's lowering of groups of features builds `arith` operations on unsigned types, which do not verify.
    """
    for operation in operations_named(module, "stablehlo.convolution"):
        kind = operation.results[0].type
        if not isinstance(kind.element_type, ir.IntegerType) or not kind.element_type.is_unsigned:
            continue
        element = ir.IntegerType.get_signless(kind.element_type.width)
        with operation.location, ir.InsertionPoint(operation):
            for position, operand in enumerate(operation.operands):
                wide = ir.RankedTensorType.get(operand.type.shape, kind.element_type)
                converted = ir.Operation.create("stablehlo.convert", [wide], [operand]).result
                operation.operands[position] = _reinterpreted(converted, element)
            signless = ir.RankedTensorType.get(kind.shape, element)
            attributes = {name: operation.attributes[name] for name in operation.attributes}
            product = ir.Operation.create(operation.name, [signless], list(operation.operands), attributes)
            value = _reinterpreted(product.result, kind.element_type)
        replace(operation, [value])


def _reinterpreted(value: ir.Value, element: ir.Type) -> ir.Value:
    kind = ir.RankedTensorType.get(value.type.shape, element)
    return ir.Operation.create("builtin.unrealized_conversion_cast", [kind], [value]).result


def _reduced(operation: ir.Operation) -> list[ir.Value]:
    count = len(operation.results)
    rank = operation.results[0].type.rank
    ones, zeros = [1] * rank, [0] * 2 * rank
    window = numbers_of(operation, "window_dimensions", ones)
    dilations = numbers_of(operation, "window_dilations", ones)
    strides = numbers_of(operation, "window_strides", ones)
    padding = numbers_of(operation, "padding", zeros)
    interior = [dilation - 1 for dilation in numbers_of(operation, "base_dilations", ones)]
    initial = list(operation.operands[count:])
    images = [
        padded(image, value, padding[::2], padding[1::2], interior)
        for image, value in zip(operation.operands[:count], initial, strict=True)
    ]
    spans = [(length - 1) * dilation + 1 for length, dilation in zip(window, dilations, strict=True)]
    sizes = [_windows(size_of(images[0], axis), span, strides[axis]) for axis, span in enumerate(spans)]
    outs = [linalg_fill(tensor.extract(value, []), tensor.empty(sizes, value.type.element_type)) for value in initial]
    axes = [axis for axis, length in enumerate(window) if length > 1]
    shape = tensor.empty([window[axis] for axis in axes], outs[0].type.element_type)
    maps = [*[_image_map(axes, strides, dilations)] * count, _window_map(axes, rank), *[_out_map(axes, rank)] * count]
    block = operation.regions[0].blocks[0]

    def combine(*elements: ir.Value) -> list[ir.Value]:
        return inline_scalars(block, [*elements[count + 1 :], *elements[:count]])

    iterators = ["parallel"] * rank + ["reduction"] * len(axes)
    return generic([*images, shape], outs, maps, iterators, combine)


def _windows(size: int | ir.Value, span: int, stride: int) -> int | ir.Value:
    """Return how many windows fit: `(size - span) // stride + 1`, or 0."""
    if isinstance(size, int):
        return max((size - span) // stride + 1, 0)
    further = arith.floordivsi(arith.subi(size, index_constant(span)), index_constant(stride))
    return arith.maxsi(arith.addi(further, index_constant(1)), index_constant(0))


def _image_map(axes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> ir.AffineMap:
    rank, indices = len(strides), []
    for axis, stride in enumerate(strides):
        index = ir.AffineDimExpr.get(axis) * stride
        if axis in axes:
            index = index + ir.AffineDimExpr.get(rank + axes.index(axis)) * dilations[axis]
        indices.append(index)
    return ir.AffineMap.get(rank + len(axes), 0, indices)


def _window_map(axes: Sequence[int], rank: int) -> ir.AffineMap:
    return ir.AffineMap.get(rank + len(axes), 0, [ir.AffineDimExpr.get(rank + loop) for loop in range(len(axes))])


def _out_map(axes: Sequence[int], rank: int) -> ir.AffineMap:
    return ir.AffineMap.get(rank + len(axes), 0, [ir.AffineDimExpr.get(axis) for axis in range(rank)])


def _convolved(operation: ir.Operation) -> list[ir.Value]:
    """Return the convolution, or nothing for one of batch groups or of a reversed kernel."""
    image, kernel = operation.operands
    of = dimension_numbers("Conv", operation.attributes["dimension_numbers"])
    axes, ones = list(of.input_spatial_dimensions), [1] * len(of.input_spatial_dimensions)
    groups = ir.IntegerAttr(operation.attributes["feature_group_count"]).value
    batch_groups = ir.IntegerAttr(operation.attributes["batch_group_count"]).value
    if batch_groups != 1 or any(numbers_of(operation, "window_reversal", [])) or _is_mixed(operation):
        return []
    strides = numbers_of(operation, "window_strides", ones)
    dilations = numbers_of(operation, "rhs_dilation", ones)
    image = _padded_image(operation, axes)
    rank, features = operation.results[0].type.rank, kernel.type.shape[of.kernel_output_feature_dimension]
    out = [ir.AffineDimExpr.get(axis) for axis in range(rank)]
    feature, *taps = [ir.AffineDimExpr.get(rank + number) for number in range(1 + len(axes))]
    image_map, kernel_map, sizes = [feature] * rank, [feature] * rank, [features] * rank
    image_map[of.input_batch_dimension] = out[of.output_batch_dimension]
    sizes[of.output_batch_dimension] = size_of(image, of.input_batch_dimension)
    if groups > 1:
        group = ir.AffineExpr.get_floor_div(out[of.output_feature_dimension], features // groups)
        shared = kernel.type.shape[of.kernel_input_feature_dimension]
        image_map[of.input_feature_dimension] = group * shared + feature
    kernel_map[of.kernel_output_feature_dimension] = out[of.output_feature_dimension]
    for number, axis in enumerate(axes):
        of_kernel, of_out = of.kernel_spatial_dimensions[number], of.output_spatial_dimensions[number]
        span = (kernel.type.shape[of_kernel] - 1) * dilations[number] + 1
        sizes[of_out] = _windows(size_of(image, axis), span, strides[number])
        image_map[axis] = out[of_out] * strides[number] + taps[number] * dilations[number]
        kernel_map[of_kernel] = taps[number]
    element = operation.results[0].type.element_type
    zero = arith.constant(element, 0 if isinstance(element, ir.IntegerType) else 0.0)
    filled = linalg_fill(zero, tensor.empty(sizes, element))
    loops = rank + 1 + len(axes)
    maps = [ir.AffineMap.get(loops, 0, results) for results in (image_map, kernel_map, out)]
    multiply, add = (arith.muli, arith.addi) if isinstance(element, ir.IntegerType) else (arith.mulf, arith.addf)
    iterators = ["parallel"] * rank + ["reduction"] * (loops - rank)
    return generic([image, kernel], [filled], maps, iterators, lambda a, b, total: [add(total, multiply(a, b))])


def _is_mixed(operation: ir.Operation) -> bool:
    """Return whether element types differ or are complex, or a size of the kernel is known at run time only."""
    kinds = [value.type for value in (*operation.operands, *operation.results)]
    elements = {str(kind.element_type) for kind in kinds}
    return len(elements) > 1 or "complex" in elements.pop() or not kinds[1].has_static_shape


def _padded_image(operation: ir.Operation, axes: Sequence[int]) -> ir.Value:
    image = operation.operands[0]
    padding = numbers_of(operation, "padding", [0] * 2 * len(axes))
    dilations = numbers_of(operation, "lhs_dilation", [1] * len(axes))
    if not any(padding) and not any(dilation > 1 for dilation in dilations):
        return image
    low, high, interior = ([0] * image.type.rank for _ in range(3))
    for number, axis in enumerate(axes):
        low[axis], high[axis], interior[axis] = *padding[2 * number : 2 * number + 2], dilations[number] - 1
    element = image.type.element_type
    zero = arith.constant(element, 0 if isinstance(element, ir.IntegerType) else 0.0)
    value = tensor.from_elements(ir.RankedTensorType.get([], element), [zero])
    return padded(image, value, low, high, interior)
