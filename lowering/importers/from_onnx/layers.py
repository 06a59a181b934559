"""Rewrite layers that torch-mlir lowers in few variants: pools by norms, convolutions, and what undoes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import ceil, prod
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Rewrite, Values, attribute_of, operand


def static_shape(node: NodeProto, name: str, values: Values) -> list[int]:
    """Return the shape of a value; raises `UnsupportedOperationError` for one of run time."""
    shape = values.static_shape(name)
    if shape is None:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a {node.op_type} of a tensor of run-time sizes",
            help="export the model with numbers for its sizes",
        )
    return shape


def known(node: NodeProto, position: int, values: Values, what: str) -> np.ndarray:
    """Return the elements of an operand; raises `UnsupportedOperationError` unless they are known."""
    elements = values.constants.get(operand(node, position))
    if elements is None:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a {node.op_type} whose {what} is computed at run time", help="make it a constant"
        )
    return elements


def _norm_pool(node: NodeProto, values: Values) -> list[NodeProto]:
    """Sum the powers in each window by a convolution with ones, and take the root."""
    shape = static_shape(node, node.input[0], values)
    result = static_shape(node, node.output[0], values)
    add, order = Nodes(node), attribute_of(node, "p", 2)
    dtype = values.dtype(node.input[0])
    kernel = attribute_of(node, "kernel_shape", [])
    rank = len(kernel)
    single = add("Reshape", node.input[0], add.constant(np.array([-1, 1, *shape[2:]])))
    powers = add("Pow", add("Abs", single), add.constant(np.array(order, dtype)))
    attributes: dict[str, Any] = {"strides": attribute_of(node, "strides", [1] * rank)}
    attributes["dilations"] = attribute_of(node, "dilations", [1] * rank)
    attributes["pads"] = _pads(node, shape[2:], result[2:], kernel, attributes["strides"], attributes["dilations"])
    ones = add.constant(np.ones([1, 1, *kernel], dtype))
    sums = add("Conv", powers, ones, kernel_shape=kernel, **attributes)
    root = add("Pow", sums, add.constant(np.array(1 / order, dtype)))
    add("Reshape", root, add.constant(np.array(result)), result=0)
    return add.nodes


def _pads(
    node: NodeProto, sizes: list[int], results: list[int], kernel: list[int], strides: list[int], dilations: list[int]
) -> list[int]:
    """Return the padding by which windows give `results`: that of the attributes, more at the end for `ceil_mode`."""
    rank = len(sizes)
    pads, mode = attribute_of(node, "pads", None) or [0] * 2 * rank, attribute_of(node, "auto_pad", b"NOTSET")
    low = list(pads[:rank])
    reach = [(results[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(rank)]
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        both = [max(reach[i] - sizes[i], 0) for i in range(rank)]
        low = [total // 2 if mode == b"SAME_UPPER" else ceil(total / 2) for total in both]
    return [*low, *(max(reach[i] - sizes[i] - low[i], 0) for i in range(rank))]


def _columns_to_image(node: NodeProto, values: Values) -> list[NodeProto]:
    """Sum up the columns that cover each pixel: one gather by a constant table of pixels and kernel positions."""
    add = Nodes(node)
    image, block = (known(node, position, values, "shape").tolist() for position in (1, 2))
    batch, channels, _ = static_shape(node, node.input[0], values)
    table, inside = _covering(node, image, block)
    kernel = prod(block)
    flat = add("Reshape", node.input[0], add.constant(np.array([batch, channels // kernel, -1])))
    gathered = add("Gather", flat, add.constant(table.reshape(-1)), axis=2)
    split = add("Reshape", gathered, add.constant(np.array([batch, channels // kernel, *table.shape])))
    masked = add("Mul", split, add.constant(inside.astype(values.dtype(node.input[0]))))
    total = add("ReduceSum", masked, add.constant(np.array([3])), keepdims=0)
    add("Reshape", total, add.constant(np.array([batch, channels // kernel, *image])), result=0)
    return add.nodes


def _covering(node: NodeProto, image: list[int], block: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return for each pixel and kernel position the index of its column's element, and whether there is one."""
    rank = len(image)
    strides, dilations = (attribute_of(node, name, None) or [1] * rank for name in ("strides", "dilations"))
    pads = attribute_of(node, "pads", None) or [0] * 2 * rank
    counts = [
        (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    ]  # fmt: skip
    pixels = np.stack(np.meshgrid(*map(np.arange, image), indexing="ij"), -1).reshape(-1, rank)
    tables, masks = [], []
    for number, position in enumerate(product(*map(range, block))):
        offset = pixels + np.array(pads[:rank]) - np.array(position) * np.array(dilations)
        column = offset // np.array(strides)
        mask = ((offset % np.array(strides) == 0) & (column >= 0) & (column < np.array(counts))).all(1)
        flat = np.ravel_multi_index(tuple(np.clip(column, 0, np.array(counts) - 1).T), counts)
        tables.append(number * prod(counts) + flat)
        masks.append(mask)
    return np.stack(tables, 1), np.stack(masks, 1)


def _unpooled(node: NodeProto, values: Values) -> list[NodeProto]:
    """Scatter the maxima into zeros."""
    add, shape = Nodes(node), static_shape(node, node.input[0], values)
    kernel = attribute_of(node, "kernel_shape", [])
    rank = len(kernel)
    strides = attribute_of(node, "strides", None) or [1] * rank
    pads = attribute_of(node, "pads", None) or [0] * 2 * rank
    sizes = [(shape[2 + i] - 1) * strides[i] - pads[i] - pads[rank + i] + kernel[i] for i in range(rank)]
    pooled = [*shape[:2], *sizes]
    target = known(node, 2, values, "shape").tolist() if operand(node, 2) else pooled
    zeros = add.constant(np.zeros(prod(pooled), values.dtype(node.input[0])), "zeros")
    line = add.constant(np.array([-1]))
    scattered = add("ScatterElements", zeros, add("Reshape", node.input[1], line), add("Reshape", node.input[0], line))
    image = add("Reshape", scattered, add.constant(np.array(pooled)))
    behind = [0] * len(pooled) + [size - other for size, other in zip(target, pooled, strict=True)]
    add("Pad", image, add.constant(np.array(behind)), result=0)
    return add.nodes


_SAME = {b"SAME_UPPER": 0, b"SAME_LOWER": 1}
"""By padding: where the larger half of an odd number is cut off."""


def _transposed(node: NodeProto, values: Values) -> list[NodeProto]:
    """Convolve without padding and slice, or group by group: torch-mlir has no lowering of the others."""
    padding = attribute_of(node, "auto_pad", b"NOTSET")
    if padding in _SAME:
        return _cut_transposed(node, values, _SAME[padding])
    return [node] if attribute_of(node, "group", 1) == 1 else _grouped_transposed(node, values)


def _cut_transposed(node: NodeProto, values: Values, is_lower: int) -> list[NodeProto]:
    """Slice what `auto_pad` keeps of a convolution without padding: sizes that are the strides times the input's."""
    sizes, kernel = (static_shape(node, node.input[position], values)[2:] for position in (0, 1))
    if attribute_of(node, "group", 1) != 1 or attribute_of(node, "output_shape", None):
        raise UnsupportedOperationError(
            f"node {node.name!r} is a ConvTranspose with auto_pad in groups, or of a given shape",
            help="export it with pads",
        )
    rank = len(sizes)
    steps, gaps = (attribute_of(node, name, None) or [1] * rank for name in ("strides", "dilations"))
    extra = attribute_of(node, "output_padding", None) or [0] * rank
    add = Nodes(node)
    kept = {a.name: attribute_of(node, a.name, None) for a in node.attribute if a.name != "auto_pad"}
    whole, starts, ends = add("ConvTranspose", *node.input, **kept), [], []
    for size, width, step, gap, more in zip(sizes, kernel, steps, gaps, extra, strict=True):
        cut = step * (size - 1) + more + (width - 1) * gap + 1 - size * step
        if cut < 0:
            raise UnsupportedOperationError(
                f"node {node.name!r} is a ConvTranspose whose auto_pad would add elements", help="export it with pads"
            )
        starts.append((cut + is_lower) // 2)
        ends.append(starts[-1] + size * step)
    bounds = [add.constant(np.array(numbers)) for numbers in (starts, ends, range(2, rank + 2))]
    add("Slice", whole, *bounds, result=0)
    return add.nodes


def _grouped_transposed(node: NodeProto, values: Values) -> list[NodeProto]:
    """Convolve group by group."""
    groups = attribute_of(node, "group", 1)
    add, channels = Nodes(node), static_shape(node, node.input[1], values)
    attributes = {a.name: attribute_of(node, a.name, None) for a in node.attribute if a.name != "group"}
    parts = [
        add.several("Split", name, count=groups, axis=axis, num_outputs=groups) if values.version >= 18
        else add.several("Split", name, count=groups, axis=axis)
        for name, axis in ((node.input[0], 1), (node.input[1], 0))
    ]  # fmt: skip
    results = [add("ConvTranspose", x, w, **attributes) for x, w in zip(*parts, strict=True)]
    has_bias = bool(operand(node, 2))
    if not has_bias:
        add("Concat", *results, axis=1, result=0)
    else:
        joined = add("Concat", *results, axis=1)
        column = [1, -1, *[1] * (len(channels) - 2)]
        add("Add", joined, add("Reshape", node.input[2], add.constant(np.array(column))), result=0)
    return add.nodes


def _deformed(node: NodeProto, values: Values) -> list[NodeProto]:
    """Sample the image between its pixels at the kernel's shifted positions, and multiply by the weights.

    Source: the ONNX operator specification, DeformConv-22.
    """
    add = Nodes(node)
    batch, channels, *image = static_shape(node, node.input[0], values)
    outputs, _, *kernel = static_shape(node, node.input[1], values)
    result = static_shape(node, node.output[0], values)[2:]
    groups, shifted = attribute_of(node, "group", 1), attribute_of(node, "offset_group", 1)
    positions, queries, rank = prod(kernel), prod(result), len(image)
    dtype = values.dtype(node.input[0])
    parts = [batch, shifted, 1, positions, rank, queries]
    offsets = add("Reshape", node.input[2], add.constant(np.array(parts)))
    base = add.constant(_kernel_positions(node, kernel, result).astype(dtype))
    located = add("Add", offsets, base)
    flat = add("Reshape", node.input[0], add.constant(np.array([batch, shifted, channels // shifted, prod(image)])))
    sampled = _between(add, flat, located, image, [batch, shifted, channels // shifted, positions * queries], dtype)
    if operand(node, 4):
        mask = add("Reshape", node.input[4], add.constant(np.array([batch, shifted, 1, positions * queries])))
        sampled = add("Mul", sampled, mask)
    depth = channels // groups * positions
    columns = add("Reshape", sampled, add.constant(np.array([batch, groups, depth, queries])))
    weight = add("Reshape", node.input[1], add.constant(np.array([1, groups, outputs // groups, depth])))
    total = add("Reshape", add("MatMul", weight, columns), add.constant(np.array([batch, outputs, *result])))
    bias = operand(node, 3) or add.constant(np.zeros(outputs, dtype))
    add("Add", total, add("Reshape", bias, add.constant(np.array([1, outputs, *[1] * rank]))), result=0)
    return add.nodes


def _kernel_positions(node: NodeProto, kernel: list[int], result: list[int]) -> np.ndarray:
    """Return where the kernel lies for each result, of shape (positions, axes, results)."""
    rank = len(kernel)
    strides, dilations = (attribute_of(node, name, None) or [1] * rank for name in ("strides", "dilations"))
    pads = attribute_of(node, "pads", None) or [0] * 2 * rank
    starts = np.stack(np.meshgrid(*map(np.arange, result), indexing="ij")).reshape(rank, -1)
    inner = np.stack(np.meshgrid(*map(np.arange, kernel), indexing="ij"), -1).reshape(-1, rank)
    column = np.array([strides, pads[:rank], dilations])[..., None]
    return inner[..., None] * column[2] + starts * column[0] - column[1]


def _between(add: Nodes, flat: str, located: str, image: list[int], shape: Sequence[int], dtype: np.dtype) -> str:
    """Interpolate linearly between the pixels around each position; outside of the image there are zeros."""
    zero, terms = add.constant(np.array(0, dtype)), []
    line = add.constant(np.array([shape[0], shape[1], 1, shape[3]]))
    axes = [add("Gather", located, add.constant(np.array(axis)), axis=4) for axis in range(len(image))]
    floors = [add("Floor", axis) for axis in axes]
    for corner in product((0, 1), repeat=len(image)):
        index, weight = add.constant(np.array(0)), add.constant(np.array(1, dtype))
        for axis, first, step, length in zip(axes, floors, corner, image, strict=True):
            pixel = add("Add", first, add.constant(np.array(step, dtype)))
            last = add.constant(np.array(length - 1, dtype))
            factor = add("Sub", add.constant(np.array(1, dtype)), add("Abs", add("Sub", axis, pixel)))
            inside = add("And", add("GreaterOrEqual", pixel, zero), add("LessOrEqual", pixel, last))
            weight = add("Mul", weight, add("Where", inside, factor, zero))
            bounded = add("Cast", add("Clip", pixel, zero, last), to=TensorProto.INT64)
            index = add("Add", add("Mul", index, add.constant(np.array(length))), bounded)
        every = add("Expand", add("Reshape", index, line), add.constant(np.array(shape)))
        terms.append(add("Mul", add("GatherElements", flat, every, axis=3), add("Reshape", weight, line)))
    total = terms[0]
    for term in terms[1:]:
        total = add("Add", total, term)
    return total


LAYERS: dict[str, Rewrite] = {
    "LpPool": _norm_pool, "Col2Im": _columns_to_image, "MaxUnpool": _unpooled, "ConvTranspose": _transposed,
    "DeformConv": _deformed,
}  # fmt: skip
