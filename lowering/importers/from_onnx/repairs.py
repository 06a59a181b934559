"""Nodes of ONNX that torch-mlir gives another meaning than ONNX does, written as nodes that it gets right.

Takes a graph of ONNX's own operators, types inferred. Gives it, and the graphs inside of its nodes, with the arithmetic
of `onnx_rewrites`, and average pools that count padding padded before, where a last window reaches beyond that padding.

Refuses what has no such spelling: `Resize` by scales that give no whole size, with aligned corners; `LSTM` with
peepholes; quantisation to 8-bit floats; average pools with windows outside of the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import AttributeProto, helper, numpy_helper

from mlirtri.errors import KernelError, UnsupportedOperationError, raise_all
from mlirtri.lowering.importers.from_onnx.rewrites import NARROW, REWRITES, attribute_of, constant, element_of


def repair(graph: Any, types: dict[str, Any]) -> None:
    """Rewrite the nodes of `graph`, whose values have these `TypeProto`s, and of graphs in it; raises `KernelError`."""
    errors: list[KernelError] = []
    _repair(graph, types, errors)
    raise_all(errors)


def types_of(graph: Any) -> dict[str, Any]:
    """The types of the values of a graph, as far as they were inferred; initializers have theirs."""
    held = {each.name: helper.make_tensor_type_proto(each.data_type, list(each.dims)) for each in graph.initializer}
    return held | {each.name: each.type for each in (*graph.value_info, *graph.input, *graph.output)}


def _repair(graph: Any, types: dict[str, Any], errors: list[KernelError]) -> None:
    nodes: list[Any] = []
    for node in graph.node:
        for each in node.attribute:
            for inner in (each.g, *each.graphs) if each.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) else ():
                _repair(inner, types | types_of(inner), errors)
        if node.op_type in REWRITES:
            nodes.extend(REWRITES[node.op_type](node, types))
        elif (problem := _problem(node, graph, types)) is not None:
            errors.append(problem)
        else:
            nodes.extend(_padded_before(node, types) if node.op_type == "AveragePool" else [node])
    del graph.node[:]
    graph.node.extend(nodes)


def _padded_before(node: Any, types: dict[str, Any]) -> list[Any]:
    """torch-mlir also counts what a window has beyond the padding; a tensor with its padding has none to count."""
    overhangs = any(each.overhang > 0 and not each.is_outside for each in _windows(node, types))
    if not attribute_of(node, "count_include_pad", 0) or not overhangs:
        return [node]
    pads = attribute_of(node, "pads", None)
    kept = [each for each in node.attribute if each.name not in ("count_include_pad", "pads")]
    del node.attribute[:]
    node.attribute.extend(kept)
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
    """Those of a pool that rounds its sizes up, along an axis of the tensor; how many they are."""

    count: int
    overhang: int
    """How far the last one reaches beyond the padding."""
    is_outside: bool
    """Whether the last one begins behind the tensor's elements."""
    is_open: bool = False
    """Whether the size is known at run time only."""


def _windows(node: Any, types: dict[str, Any]) -> list[_Windows]:
    if not attribute_of(node, "ceil_mode", 0) or attribute_of(node, "auto_pad", b"NOTSET") != b"NOTSET":
        return []
    kernel = attribute_of(node, "kernel_shape", [])
    rank = len(kernel)
    steps, gaps = (attribute_of(node, name, None) or [1] * rank for name in ("strides", "dilations"))
    pads = attribute_of(node, "pads", None) or [0] * 2 * rank
    sizes = _sizes(types, node.input[0]) or [0] * rank
    found = []
    for size, width, step, gap, low, high in zip(sizes, kernel, steps, gaps, pads[:rank], pads[rank:], strict=True):
        length, reach = low + size + high, (width - 1) * gap + 1
        last = -((reach - length) // step) * step
        outside = size > 0 and last >= low + size
        found.append(_Windows(last // step + 1, last + reach - length, outside, is_open=not size))
    return found


def _sizes(types: dict[str, Any], name: str) -> list[int]:
    """Those of the axes behind the first two; 0 for one that is not known."""
    return [each.dim_value for each in types[name].tensor_type.shape.dim][2:] if name in types else []


def _problem_of_windows(node: Any, types: dict[str, Any]) -> KernelError | None:
    windows = _windows(node, types)
    counts = attribute_of(node, "count_include_pad", 0)
    if counts and any(each.is_open for each in windows):
        return UnsupportedOperationError(
            f"node {node.name!r} is an AveragePool with ceil_mode that counts the padding of a size of run time",
            help="export the model with numbers for its sizes, or the pool without ceil_mode",
        )
    # Since version 22 of the operators ONNX leaves those windows out.
    left_out = _sizes(types, node.output[0]) == [each.count - each.is_outside for each in windows]
    overhangs = any(each.overhang > 0 for each in windows if not each.is_outside)
    if any(each.is_outside for each in windows) and (not left_out or (counts and overhangs)):
        return UnsupportedOperationError(
            f"node {node.name!r} is an AveragePool with ceil_mode whose last window begins behind the tensor",
            help="export it without ceil_mode",
        )
    return None


def _problem(node: Any, graph: Any, types: dict[str, Any]) -> KernelError | None:
    if node.op_type == "Resize":
        return _uneven(node, graph, types)
    if node.op_type == "AveragePool":
        return _problem_of_windows(node, types)
    if node.op_type == "LSTM" and len(node.input) > 7 and node.input[7]:
        return UnsupportedOperationError(
            f"node {node.name!r} is an LSTM with peepholes, which torch-mlir leaves out",
            help="write its steps with other operators",
        )
    if node.op_type == "QuantizeLinear" and element_of(types, node.output[0]) in NARROW:
        return UnsupportedOperationError(
            f"node {node.name!r} quantises to 8-bit floats, which torch-mlir does not saturate",
            help="divide by the scale and cast",
        )
    return None


def _uneven(node: Any, graph: Any, types: dict[str, Any]) -> KernelError | None:
    """The refusal of a `Resize` whose scales give no whole size, where that size is part of the formula."""
    if attribute_of(node, "coordinate_transformation_mode", b"half_pixel") != b"align_corners":
        return None
    scales = next((each for each in graph.initializer if len(node.input) > 2 and each.name == node.input[2]), None)
    sizes = [each.dim_value for each in types[node.input[0]].tensor_type.shape.dim] if node.input[0] in types else []
    if len(node.input) < 3 or not node.input[2]:
        return None
    factors = [] if scales is None else [float(each) for each in numpy_helper.to_array(scales)]
    if factors and len(factors) == len(sizes) and all(f * s == int(f * s) for f, s in zip(factors, sizes, strict=True)):
        return None
    return UnsupportedOperationError(
        f"node {node.name!r} is a Resize with aligned corners by scales that may give no whole size",
        help="give the sizes instead of the scales",
    )
