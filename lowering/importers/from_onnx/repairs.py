"""Rewrite, or refuse, the nodes to which torch-mlir gives another meaning than ONNX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from mlirtri.errors import KernelError, UnsupportedOperationError, raise_all

Types = dict[str, Any]
NARROW: dict[int, Any] = {
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
INTEGERS: dict[int, int] = {TensorProto.INT32: 31, TensorProto.INT64: 63}
"""With the number of bits that an exponent has."""


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


def attribute_of(node: Any, name: str, default: Any) -> Any:
    """Return the value of an attribute, or `default`."""
    return next(
        (helper.get_attribute_value(attribute) for attribute in node.attribute if attribute.name == name), default
    )


def element_of(types: Types, name: str) -> int:
    """Return the element type of a value, 0 if unknown."""
    return types[name].tensor_type.elem_type if name in types else 0


def constant(name: str, value: np.ndarray) -> Any:
    return helper.make_node("Constant", [], [name], name=name, value=numpy_helper.from_array(value, name))


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
    target = attribute_of(node, "to", None) or element_of(types, node.input[1] if len(node.input) > 1 else "")
    source = element_of(types, node.input[0])
    if target not in NARROW or not attribute_of(node, "saturate", 1) or source in NARROW or not source:
        return [node]
    largest = float(ml_dtypes.finfo(NARROW[target]).max)
    dtype = helper.tensor_dtype_to_np_dtype(source)
    add = _Nodes(node)
    low, high = add.constant(np.array(-largest, dtype), "low"), add.constant(np.array(largest, dtype), "high")
    clipped = add("Clip", node.input[0], low, high, part="clipped")
    is_nan = add("IsNaN", node.input[0], part="isnan")
    node.input[0] = add("Where", is_nan, node.input[0], clipped, part="kept")
    return [*add.nodes, node]


def _normalised(node: Any, types: Types) -> list[Any]:
    """Divide by the norm along the axis, or by 1 where the norm is 0."""
    source, add = node.input[0], _Nodes(node)
    dtype = helper.tensor_dtype_to_np_dtype(element_of(types, source))
    reduction = "ReduceL1" if attribute_of(node, "p", 2) == 1 else "ReduceL2"
    axis = add.constant(np.array([attribute_of(node, "axis", -1)]), "axis")
    zero, one = add.constant(np.array(0, dtype), "zero"), add.constant(np.array(1, dtype), "one")
    norm = add(reduction, source, axis, part="norm", keepdims=1)
    add("Div", source, add("Where", add("Equal", norm, zero, part="none"), one, norm, part="safe"), part="")
    return add.nodes


def _signs(node: Any, types: Types) -> list[Any]:
    """Return NaN for NaN."""
    source = node.input[0]
    if element_of(types, source) not in FLOATS:
        return [node]
    add = _Nodes(node)
    add("Where", add("IsNaN", source, part="isnan"), source, add("Sign", source, part="sign"), part="")
    return add.nodes


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
