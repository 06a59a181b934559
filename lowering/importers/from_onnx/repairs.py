"""Rewrite, or refuse, the nodes to which torch-mlir gives another meaning than ONNX, or none."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto

from mlirtri.errors import KernelError, raise_all
from mlirtri.lowering.importers.from_onnx.casts import CASTS
from mlirtri.lowering.importers.from_onnx.detection import DETECTION
from mlirtri.lowering.importers.from_onnx.indexing import INDEXING
from mlirtri.lowering.importers.from_onnx.layers import LAYERS
from mlirtri.lowering.importers.from_onnx.loops import scanned, simplified
from mlirtri.lowering.importers.from_onnx.nodes import FLOATS, Nodes, Rewrite, Values, attribute_of, graphs_in, operand
from mlirtri.lowering.importers.from_onnx.pools import POOLS
from mlirtri.lowering.importers.from_onnx.quantization import QUANTIZATION
from mlirtri.lowering.importers.from_onnx.recurrences import RECURRENCES
from mlirtri.lowering.importers.from_onnx.resize import RESIZES
from mlirtri.lowering.importers.from_onnx.samples import SAMPLES
from mlirtri.lowering.importers.from_onnx.selection import SELECTION
from mlirtri.lowering.importers.from_onnx.transforms import TRANSFORMS

INTEGERS: dict[int, int] = {TensorProto.INT32: 31, TensorProto.INT64: 63}
"""With the number of bits that an exponent has."""


def repair(graph: GraphProto, values: Values) -> None:
    """Rewrite the nodes of `graph`, in the scope of `values`, and of graphs in it; raises `KernelError`."""
    errors: list[KernelError] = []
    _repair(graph, values, errors)
    raise_all(errors)


def _repair(graph: GraphProto, outer: Values, errors: list[KernelError]) -> None:
    values = outer.within(graph)
    nodes: list[Any] = []
    for node in graph.node:
        for inner in graphs_in(node):
            _repair(inner, values, errors)
        try:
            nodes.extend(RULES[node.op_type](node, values) if node.op_type in RULES else [node])
        except KernelError as error:
            errors.append(error)
    del graph.node[:]
    graph.node.extend(nodes)


def _normalised(node: NodeProto, values: Values) -> list[NodeProto]:
    """Divide by the norm along the axis, or by 1 where the norm is 0."""
    source, add = node.input[0], Nodes(node)
    dtype = values.dtype(source)
    reduction = "ReduceL1" if attribute_of(node, "p", 2) == 1 else "ReduceL2"
    axis = add.constant(np.array([attribute_of(node, "axis", -1)]), "axis")
    zero, one = add.constant(np.array(0, dtype), "zero"), add.constant(np.array(1, dtype), "one")
    norm = add(reduction, source, axis, part="norm", keepdims=1)
    add("Div", source, add("Where", add("Equal", norm, zero, part="none"), one, norm, part="safe"), result=0)
    return add.nodes


def _signs(node: NodeProto, values: Values) -> list[NodeProto]:
    """Return NaN for NaN."""
    source = node.input[0]
    if values.element_type(source) not in FLOATS:
        return [node]
    add = Nodes(node)
    add("Where", add("IsNaN", source, part="isnan"), source, add("Sign", source, part="sign"), result=0)
    return add.nodes


def _powers(node: NodeProto, values: Values) -> list[NodeProto]:
    """Compute powers of integers by squaring in wrapping integers; torch-mlir computes them in floats."""
    base, exponent = node.input
    kind = values.element_type(base)
    if kind not in INTEGERS or values.element_type(exponent) not in INTEGERS:
        return [node]
    add = Nodes(node)
    zero, one, two = (add.constant(np.array(operand, values.dtype(base)), f"_{operand}") for operand in (0, 1, 2))
    remaining = add("Cast", exponent, part="e", to=kind)
    # Numbers less than zero are no exponents of integers; so that the loop of squares ends, they are zero here.
    remaining = add("Max", remaining, zero, part="rest")
    square, result = add("Add", base, zero, part="square"), one
    for bit in range(INTEGERS[kind]):
        odd = add("Equal", add("Mod", remaining, two, part=f"mod{bit}"), one, part=f"odd{bit}")
        factor = add("Where", odd, square, one, part=f"factor{bit}")
        result = add("Mul", result, factor, part=f"product{bit}")
        remaining = add("Div", remaining, two, part=f"rest{bit}")
        square = add("Mul", square, square, part=f"square{bit}")
    add("Identity", result, result=0)
    return add.nodes


def _extremum_index(node: NodeProto, values: Values) -> list[NodeProto]:
    """Return the index of the first, or last, NaN if there is one: to ONNX it is both maximum and minimum."""
    source = node.input[0]
    if values.element_type(source) not in FLOATS:
        return [node]
    axis, keep = attribute_of(node, "axis", 0), attribute_of(node, "keepdims", 1)
    add = Nodes(node)
    nans = add("Cast", add("IsNaN", source, part="isnan"), part="nans", to=TensorProto.INT32)
    axes = add.constant(np.array([axis], np.int64), "axes")
    most = add("ReduceMax", nans, axes, part="most", keepdims=keep)
    has = add("Cast", most, part="has", to=TensorProto.BOOL)
    last = attribute_of(node, "select_last_index", 0)
    where = add("ArgMax", nans, part="where", axis=axis, keepdims=keep, select_last_index=last)
    plain = add(node.op_type, source, part="plain", axis=axis, keepdims=keep, select_last_index=last)
    add("Where", has, where, plain, result=0)
    return add.nodes


HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def _softmax(node: NodeProto, values: Values) -> list[NodeProto]:
    """Round 16-bit floats after each operation of ONNX's definition, where torch-mlir rounds once; the sum is one."""
    source = node.input[0]
    if values.element_type(source) not in HALVES or values.version < 18:
        return [node]
    add = Nodes(node)
    axis = add.constant(np.array([attribute_of(node, "axis", -1)]))
    powers = add("Exp", add("Sub", source, add("ReduceMax", source, axis)))
    wide_sum = add("ReduceSum", add("Cast", powers, part="wide", to=TensorProto.FLOAT), axis)
    add("Div", powers, add("Cast", wide_sum, part="sum", to=values.element_type(source)), result=0)
    return add.nodes


def _in_fp32(node: NodeProto, values: Values) -> list[NodeProto]:
    """Compute in fp32 and round once, where torch-mlir rounds within."""
    kind = values.element_type(node.input[0])
    if kind not in HALVES:
        return [node]
    add = Nodes(node)
    wide = [
        add("Cast", name, to=TensorProto.FLOAT) if name and values.element_type(name) == kind else name
        for name in node.input
    ]
    attributes = {attribute.name: attribute_of(node, attribute.name, None) for attribute in node.attribute}
    add("Cast", add(node.op_type, *wide, part="wide", **attributes), to=kind, result=0)
    return add.nodes


def _backward_slice(node: NodeProto, values: Values) -> list[NodeProto]:
    """Gather along the axes of negative steps, which torch-mlir gives other sizes."""
    shape = values.static_shape(node.input[0])
    starts, ends, axes, steps = (values.constants.get(operand(node, position)) for position in (1, 2, 3, 4))
    if shape is None or starts is None or ends is None or steps is None or (steps > 0).all():
        return [node]
    add, value = Nodes(node), node.input[0]
    axes = np.arange(len(starts)) if axes is None else axes
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), axes.tolist(), steps.tolist(), strict=True):
        length = shape[axis]
        # A Python slice clips to the axis as ONNX does, but has no number for what lies before the first element.
        last = None if step < 0 and end < -length else end
        value = add("Gather", value, add.constant(np.arange(length)[start:last:step]), axis=axis)
    add("Identity", value, result=0)
    return add.nodes


def _product_with_vector(node: NodeProto, values: Values) -> list[NodeProto]:
    """Make a column of a vector after a batch of matrices, and a row of one before it."""
    sizes = [values.shape(name) for name in node.input]
    ranks = [len(operand_sizes) if operand_sizes is not None else 0 for operand_sizes in sizes]
    if 1 not in ranks or max(ranks) < 3:
        return [node]
    add, is_right = Nodes(node), ranks[1] == 1
    axis = add.constant(np.array([1 if is_right else 0]))
    matrices = [
        add("Unsqueeze", name, axis) if rank == 1 else name for name, rank in zip(node.input, ranks, strict=True)
    ]
    add("Squeeze", add("MatMul", *matrices), add.constant(np.array([-1 if is_right else -2])), result=0)
    return add.nodes


RULES: dict[str, Rewrite] = {
    **CASTS, **DETECTION, **INDEXING, **LAYERS, **POOLS, **QUANTIZATION, **RECURRENCES, **RESIZES, **SAMPLES,
    **SELECTION, **TRANSFORMS,
    **dict.fromkeys(("Celu", "Elu", "Selu", "Softplus", "Mish", "HardSwish", "LogSoftmax", "Erf"), _in_fp32),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceProd"), _in_fp32),
    "MatMul": _product_with_vector, "Slice": _backward_slice, "Softmax": _softmax,
    "LpNormalization": _normalised, "Sign": _signs, "Pow": _powers, "ArgMax": _extremum_index,
    "ArgMin": _extremum_index, "Loop": simplified, "Scan": scanned,
}  # fmt: skip
