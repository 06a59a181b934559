"""Rewrite average pools whose last windows reach beyond the padding, and the indices of maxima."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from onnx import NodeProto, helper

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.layers import static_shape
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Rewrite, Values, attribute_of, constant


def _padded_before(node: NodeProto, values: Values) -> list[NodeProto]:
    """Pad before the pool: torch-mlir also counts elements of a window beyond the padding."""
    overhangs = any(window.overhang > 0 and not window.is_outside for window in _windows(node, values))
    if not attribute_of(node, "count_include_pad", 0) or not overhangs:
        return [node]
    pads = attribute_of(node, "pads", None)
    attributes = [attribute for attribute in node.attribute if attribute.name not in ("count_include_pad", "pads")]
    del node.attribute[:]
    node.attribute.extend(attributes)
    if not pads or not any(pads):
        return [node]
    source, name = node.input[0], node.output[0]
    rank = len(pads) // 2
    both = np.array([0, 0, *pads[:rank], 0, 0, *pads[rank:]])
    node.input[0] = f"{name}.padded"
    pad = helper.make_node("Pad", [source, f"{name}.pads"], [f"{name}.padded"], name=f"{node.name}.pad")
    return [constant(f"{name}.pads", both), pad, node]


@dataclass(frozen=True)
class _Windows:
    count: int
    overhang: int
    """How far the last one reaches beyond the padding."""
    is_outside: bool
    """Whether the last one begins past the tensor's elements."""
    is_open: bool = False
    """Whether the size is known at run time only."""


def _windows(node: NodeProto, values: Values) -> list[_Windows]:
    if not attribute_of(node, "ceil_mode", 0) or attribute_of(node, "auto_pad", b"NOTSET") != b"NOTSET":
        return []
    kernel = attribute_of(node, "kernel_shape", [])
    rank = len(kernel)
    steps, gaps = (attribute_of(node, name, None) or [1] * rank for name in ("strides", "dilations"))
    pads = attribute_of(node, "pads", None) or [0] * 2 * rank
    sizes = _sizes(values, node.input[0]) or [0] * rank
    result = []
    for size, width, step, gap, low, high in zip(sizes, kernel, steps, gaps, pads[:rank], pads[rank:], strict=True):
        length, reach = low + size + high, (width - 1) * gap + 1
        last = -((reach - length) // step) * step
        is_outside = size > 0 and last >= low + size
        result.append(_Windows(last // step + 1, last + reach - length, is_outside, is_open=not size))
    return result


def _sizes(values: Values, name: str) -> list[int]:
    return [size or 0 for size in values.shape(name) or []][2:]


def _average_pool(node: NodeProto, values: Values) -> list[NodeProto]:
    windows = _windows(node, values)
    counts = attribute_of(node, "count_include_pad", 0)
    if counts and any(window.is_open for window in windows):
        raise UnsupportedOperationError(
            f"node {node.name!r} is an AveragePool with ceil_mode that counts the padding of a size of run time",
            help="export the model with numbers for its sizes, or the pool without ceil_mode",
        )
    # Since version 22 of the operators ONNX leaves those windows out.
    is_shorter = _sizes(values, node.output[0]) == [window.count - window.is_outside for window in windows]
    overhangs = any(window.overhang > 0 for window in windows if not window.is_outside)
    if any(window.is_outside for window in windows) and (not is_shorter or (counts and overhangs)):
        raise UnsupportedOperationError(
            f"node {node.name!r} is an AveragePool with ceil_mode whose last window begins past the tensor",
            help="export it without ceil_mode",
        )
    return _padded_before(node, values)


def _max_pool(node: NodeProto, values: Values) -> list[NodeProto]:
    """Number the elements of the whole tensor, where torch-mlir numbers those of an image, and by columns if asked."""
    if len(node.output) < 2 or not node.output[1]:
        return [node]
    batch, channels, *image = static_shape(node, node.input[0], values)
    by_columns = attribute_of(node, "storage_order", 0) and len(image) > 1
    if by_columns and len(image) > 2:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a MaxPool of {len(image)} axes that numbers elements by columns",
            help="export it with storage_order=0",
        )
    add = Nodes(node)
    kept = {a.name: attribute_of(node, a.name, None) for a in node.attribute if a.name != "storage_order"}
    maxima, index = add.several("MaxPool", node.input[0], count=2, **kept)
    add("Identity", maxima, result=0)
    if by_columns:
        height, width = (add.constant(np.array(size)) for size in image)
        index = add("Add", add("Mul", add("Mod", index, width), height), add("Div", index, width))
    first = np.arange(batch * channels).reshape([batch, channels, *[1] * len(image)]) * prod(image)
    add("Add", index, add.constant(first), result=1)
    return add.nodes


POOLS: dict[str, Rewrite] = {"AveragePool": _average_pool, "MaxPool": _max_pool}
