"""Nodes that torch-mlir gives another meaning than ONNX, rewritten or refused.

Takes a graph of ONNX's own operators with inferred types. Gives it, and the graphs in its nodes, with the rewrites of
`rewrites.py`, and with average pools that count padding padded before, where a last window exceeds that padding.

Refuses what cannot be rewritten: `Resize` with aligned corners by scales that give a fractional size; `LSTM` with
peepholes; quantisation to 8-bit floats; average pools with windows outside the tensor.
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
    """Return the types of the values of a graph, as far as they were inferred, and of its initializers."""
    types = {
        tensor.name: helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)) for tensor in graph.initializer
    }
    return types | {value.name: value.type for value in (*graph.value_info, *graph.input, *graph.output)}


def _repair(graph: Any, types: dict[str, Any], errors: list[KernelError]) -> None:
    nodes: list[Any] = []
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (
                (attribute.g, *attribute.graphs)
                if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS)
                else ()
            ):
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
    """Pad before the pool: torch-mlir also counts elements of a window beyond the padding."""
    overhangs = any(window.overhang > 0 and not window.is_outside for window in _windows(node, types))
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
    """The windows of a pool with `ceil_mode` along an axis."""

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
    result = []
    for size, width, step, gap, low, high in zip(sizes, kernel, steps, gaps, pads[:rank], pads[rank:], strict=True):
        length, reach = low + size + high, (width - 1) * gap + 1
        last = -((reach - length) // step) * step
        is_outside = size > 0 and last >= low + size
        result.append(_Windows(last // step + 1, last + reach - length, is_outside, is_open=not size))
    return result


def _sizes(types: dict[str, Any], name: str) -> list[int]:
    """Return the sizes after the first two axes, 0 for unknown ones."""
    return [size.dim_value for size in types[name].tensor_type.shape.dim][2:] if name in types else []


def _problem_of_windows(node: Any, types: dict[str, Any]) -> KernelError | None:
    windows = _windows(node, types)
    counts = attribute_of(node, "count_include_pad", 0)
    if counts and any(window.is_open for window in windows):
        return UnsupportedOperationError(
            f"node {node.name!r} is an AveragePool with ceil_mode that counts the padding of a size of run time",
            help="export the model with numbers for its sizes, or the pool without ceil_mode",
        )
    # Since version 22 of the operators ONNX leaves those windows out.
    left_out = _sizes(types, node.output[0]) == [window.count - window.is_outside for window in windows]
    overhangs = any(window.overhang > 0 for window in windows if not window.is_outside)
    if any(window.is_outside for window in windows) and (not left_out or (counts and overhangs)):
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
    """Return the refusal of a `Resize` with aligned corners whose scales give a fractional size."""
    if attribute_of(node, "coordinate_transformation_mode", b"half_pixel") != b"align_corners":
        return None
    scales = next(
        (tensor for tensor in graph.initializer if len(node.input) > 2 and tensor.name == node.input[2]), None
    )
    sizes = [size.dim_value for size in types[node.input[0]].tensor_type.shape.dim] if node.input[0] in types else []
    if len(node.input) < 3 or not node.input[2]:
        return None
    factors = [] if scales is None else [float(factor) for factor in numpy_helper.to_array(scales)]
    if factors and len(factors) == len(sizes) and all(f * s == int(f * s) for f, s in zip(factors, sizes, strict=True)):
        return None
    return UnsupportedOperationError(
        f"node {node.name!r} is a Resize with aligned corners by scales that may give no whole size",
        help="give the sizes instead of the scales",
    )
