"""Find the inputs whose elements decide shapes, and make constants of their values.

ONNX passes axes, sizes and counts as tensors. A function whose ranks and loops depend on them can be compiled only for
values of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from mlirtri.lowering.importers.from_onnx.nodes import attribute_of, graphs_in, graphs_of, operand

STRUCTURAL: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        (
            "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
            "ReduceLogSumExp", "ReduceSumSquare", "CumSum", "CumProd", "AffineGrid", "CenterCropPad", "TopK",
            "Squeeze", "Unsqueeze",
        ),
        (1,),
    ),
    "Resize": (1, 2, 3), "DFT": (1, 2), "Col2Im": (1, 2), "STFT": (1, 3), "Split": (1,), "OneHot": (1,),
    "MaxUnpool": (2,), "BlackmanWindow": (0,), "HannWindow": (0,), "HammingWindow": (0,),
    "MelWeightMatrix": (0, 1, 2, 3, 4), "Loop": (0, 1), "Upsample": (1,),
}  # fmt: skip
"""The operands of each operator that have to be known when it is compiled."""
SHAPES = {"Expand": (1,), "Reshape": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2), "Tile": (1,)}
"""The operands that are sizes: known as well where a Squeeze without axes makes a rank of them."""
LARGEST = 4096
"""The most elements that such an input may have."""


def structural_inputs(model: ModelProto) -> tuple[str, ...]:
    """Return the names of the inputs that decide shapes, in the order of the graph."""
    nodes = [node for graph in graphs_of(model.graph) for node in graph.node]
    producers = {name: node for node in nodes for name in node.output if name}
    initial = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in initial}
    names: set[str] = set()
    has_open_rank = any(node.op_type == "Squeeze" and not operand(node, 1) for node in nodes)
    shapes = SHAPES if has_open_rank else {}
    for node in nodes:
        for position in (*_positions(node, inputs), *shapes.get(node.op_type, ())):
            sources = _sources(operand(node, position), producers, inputs)
            if all(_is_small(inputs[name]) for name in sources):
                names |= sources
    return tuple(name for name in inputs if name in names)


def _positions(node: NodeProto, inputs: Mapping[str, Any]) -> tuple[int, ...]:
    if node.op_type == "Slice":
        # Where it starts and ends may be computed at run time, along axes that are known.
        return (1, 2, 3, 4) if {operand(node, 3), operand(node, 4)} & {*inputs} else ()
    if node.op_type == "Pad":
        return (3,) if attribute_of(node, "mode", b"constant") == b"constant" else (1, 3)
    return STRUCTURAL.get(node.op_type, ())


def _sources(name: str, producers: Mapping[str, Any], inputs: Mapping[str, Any]) -> set[str]:
    """Return the inputs that a value is computed from; their shapes do not count."""
    sources: set[str] = set()
    pending, seen = [name], set()
    while pending:
        value = pending.pop()
        if not value or value in seen:
            continue
        seen.add(value)
        if value in inputs:
            sources.add(value)
        elif value in producers and producers[value].op_type not in ("Shape", "Size"):
            pending.extend(producers[value].input)
            pending.extend(result.name for graph in graphs_in(producers[value]) for result in graph.output)
    return sources


def _is_small(value: Any) -> bool:
    tensor = value.type.tensor_type
    sizes = [size.dim_value for size in tensor.shape.dim]
    return tensor.elem_type != TensorProto.STRING and prod(sizes) <= LARGEST


def with_values(model: ModelProto, values: Mapping[str, np.ndarray]) -> ModelProto:
    """Return a copy of `model` in which these inputs are constants."""
    copy = type(model)()
    copy.CopyFrom(model)
    inputs = [value for value in copy.graph.input if value.name not in values]
    del copy.graph.input[:]
    copy.graph.input.extend(inputs)
    copy.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in values.items())
    return copy
