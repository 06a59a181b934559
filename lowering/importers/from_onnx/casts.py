"""Rewrite casts to and from the element types of 8 bits and less.

The function holds integers of 4 and 2 bits as 8-bit ones, and the floats that torch has no dtype for as their codes:

    Cast(x : int8) to int4            ──►   the low 4 bits of x, sign-extended, in int8
    Cast(x : float4e2m1) to float     ──►   Gather(the 16 values of the format, x)
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_onnx.nodes import FLOATS, Nodes, Rewrite, Values, attribute_of, graphs_of

FLOAT8: dict[int, Any] = {
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
SMALL_INTEGERS: dict[int, int] = {
    TensorProto.INT4: 4, TensorProto.UINT4: 4,
    getattr(TensorProto, "INT2", -1): 2, getattr(TensorProto, "UINT2", -2): 2,
}  # fmt: skip
"""With their widths. Older releases of ONNX have none of 2 bits."""
CODED: dict[int, Any] = {
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn, getattr(TensorProto, "FLOAT8E8M0", -3): ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
"""Floats whose codes stand for them."""
STORED = {kind: TensorProto.UINT8 for kind in CODED} | {
    kind: TensorProto.INT8 if kind in (TensorProto.INT4, getattr(TensorProto, "INT2", -1)) else TensorProto.UINT8
    for kind in SMALL_INTEGERS
}
"""The element types that the function has instead."""


def stored_array(array: np.ndarray) -> np.ndarray:
    """Return an array of one of these types as the function holds it, any other as it is."""
    if array.dtype.name in ("float4_e2m1fn", "float8_e8m0fnu"):
        return array.view(np.uint8)
    return array.astype(f"{array.dtype.name[:-1]}8") if array.dtype.name in _NAMES else array


_NAMES = ("int4", "uint4", "int2", "uint2")


def _cast(node: NodeProto, values: Values) -> list[NodeProto]:
    source = values.element_type(node.input[0])
    target = attribute_of(node, "to", None) or values.element_type(node.input[1] if len(node.input) > 1 else "")
    if not source or not {source, target} & {*FLOAT8, *STORED}:
        return [node]
    add = Nodes(node)
    if source == target:
        add("Identity", node.input[0], result=0)
        return add.nodes
    saturate, mode = attribute_of(node, "saturate", 1), attribute_of(node, "round_mode", b"up").decode()
    value, kind = decoded(add, node.input[0], source)
    add("Identity", encoded(add, value, kind, target, saturate, mode), result=0)
    return add.nodes


def _bits(node: NodeProto, values: Values) -> list[NodeProto]:
    """Cast a bool, which is the number 0 or 1 in memory."""
    if values.element_type(node.input[0]) != TensorProto.BOOL:
        return [node]
    add = Nodes(node)
    add("Cast", node.input[0], to=attribute_of(node, "to", None), result=0)
    return add.nodes


def decoded(add: Nodes, value: str, kind: int) -> tuple[str, int]:
    """Return the numbers that a value stands for, and their element type."""
    if kind in CODED:
        count = 16 if kind == TensorProto.FLOAT4E2M1 else 256
        table = add.constant(np.arange(count, dtype=np.uint8).view(CODED[kind]).astype(np.float32), "numbers")
        return add("Gather", table, add("Cast", value, to=TensorProto.INT64)), TensorProto.FLOAT
    if kind in FLOAT8:
        return add("Cast", value, to=TensorProto.FLOAT), TensorProto.FLOAT
    return value, STORED.get(kind, kind)


def encoded(add: Nodes, value: str, kind: int, target: int, saturate: int = 1, mode: str = "up") -> str:
    """Convert a value of the plain element type `kind` to `target`, as the function holds it."""
    if target in SMALL_INTEGERS:
        return _wrapped(add, value, target)
    if target not in FLOAT8 and target not in CODED:
        return add("Cast", value, to=target)
    if kind not in FLOATS:
        value, kind = add("Cast", value, to=TensorProto.FLOAT), TensorProto.FLOAT
    if target in FLOAT8:
        return _narrowed(add, value, kind, target, saturate)
    if target == TensorProto.FLOAT4E2M1:
        return _float4(add, _at_least_fp32(add, value, kind))
    if not saturate or mode != "up":
        raise UnsupportedOperationError(
            f"node {add.node.name!r} casts to FLOAT8E8M0 with round_mode {mode!r} and saturate {saturate}",
            help="powers of two are rounded up and saturated",
        )
    return _power_of_two(add, _at_least_fp32(add, value, kind))


def _wrapped(add: Nodes, value: str, target: int) -> str:
    """Keep the low bits of the integer."""
    modulus = 2 ** SMALL_INTEGERS[target]
    half = modulus // 2 if STORED[target] == TensorProto.INT8 else 0
    whole = add("Cast", value, to=TensorProto.INT32)
    offset, period = add.constant(np.int32(half), "half"), add.constant(np.int32(modulus), "modulus")
    low = add("Sub", add("Mod", add("Add", whole, offset), period), offset)
    return add("Cast", low, to=STORED[target])


def _narrowed(add: Nodes, value: str, kind: int, target: int, saturate: int) -> str:
    if saturate:
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        largest = float(ml_dtypes.finfo(FLOAT8[target]).max)
        low, high = add.constant(np.array(-largest, dtype), "low"), add.constant(np.array(largest, dtype), "high")
        clipped, is_nan = add("Clip", value, low, high), add("IsNaN", value)
        value = add("Where", is_nan, value, clipped)
    # torch-mlir lowers `CastLike` to these types, and no `Cast`.
    return add("CastLike", value, add.constant(np.zeros(1, FLOAT8[target]), "like"))


def _at_least_fp32(add: Nodes, value: str, kind: int) -> str:
    return value if kind in (TensorProto.FLOAT, TensorProto.DOUBLE) else add("Cast", value, to=TensorProto.FLOAT)


def _count(add: Nodes, value: str, bounds: np.ndarray) -> str:
    """Return how many of `bounds` each element is larger than."""
    like = add("CastLike", add.constant(bounds, "bounds"), value)
    column = add("Unsqueeze", value, add.constant(np.array([-1])))
    larger = add("Cast", add("Greater", column, like), to=TensorProto.INT32)
    return add("ReduceSum", larger, add.constant(np.array([-1])), keepdims=0)


def _float4(add: Nodes, value: str) -> str:
    """Round to the nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6, ties to even codes; larger numbers become 6, NaN 0."""
    # A tie goes up where the code above it is even, so there the bound is the float before it.
    middles = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5], np.float32)
    ties = np.where(np.arange(1, 8) % 2 == 0, np.nextafter(middles, np.float32(0)), middles)
    code = _count(add, add("Abs", value), ties)
    sign = add("Cast", add("Less", value, add("CastLike", add.constant(np.float32(0)), value)), to=TensorProto.INT32)
    shifted = add("Mul", sign, add.constant(np.int32(8)))
    return add("Cast", add("Add", code, shifted), to=TensorProto.UINT8)


def _power_of_two(add: Nodes, value: str) -> str:
    """Round up to a power of two in the range of E8M0; NaN is code 255."""
    powers = np.arange(255, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    code = _count(add, value, powers[:-1])
    special = add("Where", add("IsNaN", value), add.constant(np.int32(255)), code)
    return add("Cast", special, to=TensorProto.UINT8)


CASTS: dict[str, Rewrite] = {"Cast": _cast, "CastLike": _cast, "BitCast": _bits}


def store(graph: GraphProto) -> dict[int, str]:
    """Change the types of `graph`, and return the dtypes of the outputs that changed, by position."""
    outputs = {position: _dtype(value) for position, value in enumerate(graph.output) if _kind(value) in STORED}
    for inner in graphs_of(graph):
        for value in (*inner.input, *inner.output):
            if _kind(value) in STORED:
                value.type.tensor_type.elem_type = STORED[_kind(value)]
        # What was inferred from them is inferred anew.
        kept = [value for value in inner.value_info if _kind(value) not in STORED]
        del inner.value_info[:]
        inner.value_info.extend(kept)
        for tensor in (*inner.initializer, *filter(None, map(_value, inner.node))):
            if tensor.data_type in STORED:
                tensor.CopyFrom(numpy_helper.from_array(stored_array(numpy_helper.to_array(tensor)), tensor.name))
    return outputs


def _kind(value: Any) -> int:
    return value.type.tensor_type.elem_type


def _dtype(value: Any) -> str:
    return helper.tensor_dtype_to_np_dtype(_kind(value)).name


def _value(node: NodeProto) -> Any:
    attributes = [a for a in node.attribute if a.name == "value" and a.type == AttributeProto.TENSOR]
    return attributes[0].t if attributes else None
