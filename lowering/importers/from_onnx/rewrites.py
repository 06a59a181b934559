"""Arithmetic that torch-mlir computes differently from ONNX, in nodes that it lowers correctly.

Takes a node and the types of values by name. Gives the nodes that replace it, or the node itself where it is correct.
Values are named after the node's result, with a suffix. Refuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

Types = dict[str, Any]
NARROW = {
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
INTEGERS = {TensorProto.INT32: 31, TensorProto.INT64: 63}
"""With the number of bits that an exponent has."""


def attribute_of(node: Any, name: str, default: Any) -> Any:
    """Return the value of an attribute, or `default`."""
    return next(
        (helper.get_attribute_value(attribute) for attribute in node.attribute if attribute.name == name), default
    )


def element_of(types: Types, name: str) -> int:
    """Return the element type of a value, 0 if unknown."""
    return types[name].tensor_type.elem_type if name in types else 0


class _Nodes:
    """Creates the nodes that replace one, each with a value named after its result."""

    def __init__(self, node: Any):
        self.node = node
        self.nodes: list[Any] = []

    def __call__(self, operator: str, *inputs: str, part: str, **attributes: Any) -> str:
        """Create a node with one result and return its name; an empty `part` is the result of the replaced node."""
        name = f"{self.node.output[0]}.{part}" if part else self.node.output[0]
        label = f"{self.node.name}.{part}" if part else self.node.name
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=label, **attributes))
        return name

    def constant(self, value: Any, part: str) -> str:
        name = f"{self.node.output[0]}.{part}"
        self.nodes.append(constant(name, np.asarray(value)))
        return name


def _saturating_cast(node: Any, types: Types) -> list[Any]:
    to = attribute_of(node, "to", None) or element_of(types, node.input[1] if len(node.input) > 1 else "")
    source = element_of(types, node.input[0])
    if to not in NARROW or not attribute_of(node, "saturate", 1) or source in NARROW or not source:
        return [node]
    largest = float(ml_dtypes.finfo(NARROW[to]).max)
    dtype = helper.tensor_dtype_to_np_dtype(source)
    name = node.output[0]
    nodes = [
        constant(f"{name}.{side}", np.array(bound, dtype)) for side, bound in (("low", -largest), ("high", largest))
    ]
    clip = helper.make_node(
        "Clip", [node.input[0], f"{name}.low", f"{name}.high"], [f"{name}.clipped"], name=f"{node.name}.clip"
    )
    # The bounds of a clip are for numbers: what is none stays what it is.
    isnan = helper.make_node("IsNaN", [node.input[0]], [f"{name}.isnan"], name=f"{node.name}.isnan")
    selected = helper.make_node(
        "Where", [f"{name}.isnan", node.input[0], f"{name}.clipped"], [f"{name}.kept"], name=f"{node.name}.kept"
    )
    node.input[0] = f"{name}.kept"
    return [*nodes, clip, isnan, selected, node]


def _normalised(node: Any, types: Types) -> list[Any]:
    """Return ``x / (|x| + (|x| == 0))`` along the axis."""
    source, name = node.input[0], node.output[0]
    dtype = helper.tensor_dtype_to_np_dtype(element_of(types, source))
    norm = "ReduceL1" if attribute_of(node, "p", 2) == 1 else "ReduceL2"
    axis = np.array([attribute_of(node, "axis", -1)])
    parts = {part: f"{name}.{part}" for part in ("axis", "zero", "one", "norm", "none", "safe")}
    return [
        constant(parts["axis"], axis),
        constant(parts["zero"], np.array(0, dtype)),
        constant(parts["one"], np.array(1, dtype)),
        helper.make_node(norm, [source, parts["axis"]], [parts["norm"]], name=f"{node.name}.norm", keepdims=1),
        helper.make_node("Equal", [parts["norm"], parts["zero"]], [parts["none"]], name=f"{node.name}.none"),
        helper.make_node(
            "Where", [parts["none"], parts["one"], parts["norm"]], [parts["safe"]], name=f"{node.name}.safe"
        ),
        helper.make_node("Div", [source, parts["safe"]], [name], name=node.name),
    ]


def _signs(node: Any, types: Types) -> list[Any]:
    """Return NaN for NaN."""
    source, name = node.input[0], node.output[0]
    if element_of(types, source) not in FLOATS:
        return [node]
    node.output[0] = f"{name}.sign"
    isnan = helper.make_node("IsNaN", [source], [f"{name}.isnan"], name=f"{node.name}.isnan")
    selected = helper.make_node("Where", [f"{name}.isnan", source, f"{name}.sign"], [name], name=f"{node.name}.kept")
    return [node, isnan, selected]


def _powers(node: Any, types: Types) -> list[Any]:
    """Compute powers of integers by squaring in wrapping integers; torch-mlir computes them in floats."""
    base, exponent = node.input
    kind = element_of(types, base)
    if kind not in INTEGERS or element_of(types, exponent) not in INTEGERS:
        return [node]
    add = _Nodes(node)
    zero, one, two = (
        add.constant(np.array(operand, helper.tensor_dtype_to_np_dtype(kind)), f"_{operand}") for operand in (0, 1, 2)
    )
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
    add("Identity", result, part="")
    return add.nodes


def _extremum_index(node: Any, types: Types) -> list[Any]:
    """Return the index of the first, or last, NaN if there is one: to ONNX it is both maximum and minimum."""
    source = node.input[0]
    if element_of(types, source) not in FLOATS:
        return [node]
    axis, keep = attribute_of(node, "axis", 0), attribute_of(node, "keepdims", 1)
    add = _Nodes(node)
    nans = add("Cast", add("IsNaN", source, part="isnan"), part="nans", to=TensorProto.INT32)
    axes = add.constant(np.array([axis], np.int64), "axes")
    most = add("ReduceMax", nans, axes, part="most", keepdims=keep)
    has = add("Cast", most, part="has", to=TensorProto.BOOL)
    last = attribute_of(node, "select_last_index", 0)
    where = add("ArgMax", nans, part="where", axis=axis, keepdims=keep, select_last_index=last)
    plain = add(node.op_type, source, part="plain", axis=axis, keepdims=keep, select_last_index=last)
    add("Where", has, where, plain, part="")
    return add.nodes


def _quantised_product(node: Any, types: Types) -> list[Any]:
    """Multiply integers, scale in float64 and round once; torch-mlir rounds in float32, and ties differently."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    scales = [types[operand].tensor_type.shape.dim for operand in (a_scale, b_scale, y_scale) if operand in types]
    if len(scales) != 3 or any(len(scale) for scale in scales) or element_of(types, a_scale) != TensorProto.FLOAT:
        return [node]
    add = _Nodes(node)
    product = add("MatMulInteger", a, b, a_zero, b_zero, part="product")
    scale = add("Div", add("Mul", a_scale, b_scale, part="scales"), y_scale, part="scale")
    wide = [
        add("Cast", operand, part=f"wide{position}", to=TensorProto.DOUBLE)
        for position, operand in enumerate((product, scale, y_zero))
    ]
    exact = add("Add", add("Mul", wide[0], wide[1], part="scaled"), wide[2], part="exact")
    kind = element_of(types, y_zero)
    facts = np.iinfo(helper.tensor_dtype_to_np_dtype(kind))
    bounds = [
        add.constant(np.float64(bound), f"bound{position}") for position, bound in enumerate((facts.min, facts.max))
    ]
    clipped = add("Clip", add("Round", exact, part="rounded"), *bounds, part="clipped")
    add("Cast", clipped, part="", to=kind)
    return add.nodes


REWRITES: dict[str, Callable[[Any, Types], list[Any]]] = {
    "Cast": _saturating_cast, "CastLike": _saturating_cast, "LpNormalization": _normalised, "Sign": _signs,
    "Pow": _powers, "ArgMax": _extremum_index, "ArgMin": _extremum_index, "QLinearMatMul": _quantised_product,
}  # fmt: skip


def constant(name: str, value: np.ndarray) -> Any:
    return helper.make_node("Constant", [], [name], name=name, value=numpy_helper.from_array(value, name))
