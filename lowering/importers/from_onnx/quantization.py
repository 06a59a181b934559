"""Rewrite quantisation: by axis, by blocks, to narrow element types, and in the order of roundings that ONNX says."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import NodeProto, TensorProto, helper

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.casts import CODED, FLOAT8, STORED, decoded, encoded
from mlirtri.lowering.importers.from_onnx.nodes import Nodes, Rewrite, Values, attribute_of, operand

_BYTES = (TensorProto.INT8, TensorProto.UINT8)


def _quantised(node: NodeProto, values: Values) -> list[NodeProto]:
    source, scale, zero = node.input[0], node.input[1], operand(node, 2)
    target = values.element_type(zero) or attribute_of(node, "output_dtype", 0) or TensorProto.UINT8
    kind = values.element_type(source)
    if _is_by_tensor(node, values) and target in _BYTES and kind == values.element_type(scale) == TensorProto.FLOAT:
        return [node]
    add = Nodes(node)
    precision = attribute_of(node, "precision", 0) or values.element_type(scale) or kind
    numerator, scale = (add("Cast", name, to=precision) for name in (source, _spread(add, node, scale, values)))
    ratio = add("Div", numerator, scale)
    zero = _spread(add, node, zero, values) if zero else ""
    if target in FLOAT8 or target in CODED:
        saturate = attribute_of(node, "saturate", 1)
        add("Identity", encoded(add, ratio, precision, target, saturate), result=0)
        return add.nodes
    dtype = ml_dtypes.iinfo(helper.tensor_dtype_to_np_dtype(target))
    # Before the sum with the zero point, which may not overflow.
    rounded = add("Cast", add("Round", ratio), to=TensorProto.DOUBLE)
    if zero:
        rounded = add("Add", rounded, add("Cast", zero, to=TensorProto.DOUBLE))
    low, high = add.constant(np.float64(int(dtype.min)), "low"), add.constant(np.float64(int(dtype.max)), "high")
    add("Cast", add("Clip", rounded, low, high), to=STORED.get(target, target), result=0)
    return add.nodes


def _dequantised(node: NodeProto, values: Values) -> list[NodeProto]:
    source, scale, zero = node.input[0], node.input[1], operand(node, 2)
    kind = values.element_type(source)
    target = attribute_of(node, "output_dtype", 0) or values.element_type(scale)
    is_plain = kind in _BYTES and target == values.element_type(scale) == TensorProto.FLOAT
    if not kind or (is_plain and _is_by_tensor(node, values)):
        return [node]
    add = Nodes(node)
    factor = add("Cast", _spread(add, node, scale, values), to=target)
    is_float = kind in FLOAT8 or kind in CODED
    numbers = add("Cast", decoded(add, source, kind)[0], to=target if is_float else TensorProto.INT32)
    if zero:
        offsets = add("Cast", decoded(add, _spread(add, node, zero, values), kind)[0], to=target if is_float else 6)
        numbers = add("Sub", numbers, offsets)
    add("Mul", add("Cast", numbers, to=target), factor, result=0)
    return add.nodes


def _is_by_tensor(node: NodeProto, values: Values) -> bool:
    return values.static_shape(node.input[1]) in ([], [1])


def _spread(add: Nodes, node: NodeProto, name: str, values: Values) -> str:
    """Reshape a scale or a zero point so that it broadcasts to the operand."""
    shape, target = values.static_shape(name), values.shape(node.input[0])
    if shape is None or target is None:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a {node.op_type} whose scales have a shape of run time",
            help="export the model with numbers for its sizes",
        )
    axis = attribute_of(node, "axis", 1) % max(len(target), 1)
    if shape in ([], [1]):
        return add("Reshape", name, add.constant(np.array([], np.int64)))
    block = attribute_of(node, "block_size", 0)
    if not block:
        return add("Reshape", name, add.constant(np.array([-1 if i == axis else 1 for i in range(len(target))])))
    if None in target:
        raise UnsupportedOperationError(
            f"node {node.name!r} is a {node.op_type} by blocks of a tensor of run-time sizes",
            help="export the model with numbers for its sizes",
        )
    index = add.constant(np.arange(target[axis]) // block, "blocks")  # type: ignore[arg-type]
    return add("Gather", name, index, axis=axis)


def _quantised_product(node: NodeProto, values: Values) -> list[NodeProto]:
    """Multiply integers, scale in float64 and round once; torch-mlir rounds in float32, and ties differently."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    if any(values.static_shape(scale) not in ([], [1]) for scale in (a_scale, b_scale, y_scale)):
        return [node]
    add = Nodes(node)
    product = add("MatMulInteger", a, b, a_zero, b_zero, part="product")
    a_scale, b_scale, y_scale, y_zero = (
        add("Reshape", name, add.constant(np.array([], np.int64))) for name in (a_scale, b_scale, y_scale, y_zero)
    )
    scale = add("Div", add("Mul", a_scale, b_scale, part="scales"), y_scale, part="scale")
    wide = [
        add("Cast", name, part=f"wide{position}", to=TensorProto.DOUBLE)
        for position, name in enumerate((product, scale, y_zero))
    ]
    exact = add("Add", add("Mul", wide[0], wide[1], part="scaled"), wide[2], part="exact")
    kind = values.element_type(node.input[7])
    facts = np.iinfo(helper.tensor_dtype_to_np_dtype(kind))
    bounds = [
        add.constant(np.float64(bound), f"bound{position}") for position, bound in enumerate((facts.min, facts.max))
    ]
    clipped = add("Clip", add("Round", exact, part="rounded"), *bounds, part="clipped")
    add("Cast", clipped, result=0, to=kind)
    return add.nodes


def _integer_convolution(node: NodeProto, values: Values) -> list[NodeProto]:
    """Convolve in float64, which is exact, with a zero point for each filter; torch-mlir takes one for all."""
    zero, filters = operand(node, 3), values.static_shape(node.input[1])
    if not zero or values.static_shape(zero) in ([], [1]) or filters is None:
        return [node]
    add = Nodes(node)
    column = add.constant(np.array([-1, *[1] * (len(filters) - 1)]))
    source, weights, zero = (add("Cast", name, to=TensorProto.DOUBLE) for name in (*node.input[:2], zero))
    if operand(node, 2):
        source = add("Sub", source, add("Cast", node.input[2], to=TensorProto.DOUBLE))
    weights = add("Sub", weights, add("Reshape", zero, column))
    kept = {a.name: attribute_of(node, a.name, None) for a in node.attribute}
    add("Cast", add("Conv", source, weights, **kept), to=TensorProto.INT32, result=0)
    return add.nodes


QUANTIZATION: dict[str, Rewrite] = {
    "QuantizeLinear": _quantised, "DequantizeLinear": _dequantised, "QLinearMatMul": _quantised_product,
    "ConvInteger": _integer_convolution,
}  # fmt: skip
