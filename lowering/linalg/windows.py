"""Rules of `tri_to_linalg` for sliding windows: convolutions of any number of axes, in groups, and pools.

Convolutions are upstream's named operations where there is one; else, as pools are, one generic over images, channels,
positions of the result and of the window. Padding and spreading of the image come first. fp16 and bf16 are accumulated
in fp32.

    out[n, g, o, h, w] += image[n, g, c, h * stride + i * dilation, w * stride + j * dilation] * kernel[g, o, c, i, j]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import ir, linalg, tensor
from mlirtri.dialect.definition import type_of
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.windows import spread_size
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.lowering.linalg.reductions import converted, identity, iterators
from mlirtri.lowering.linalg.rules import FLOAT32, insert_slice, rule
from mlirtri.lowering.mlir.index_values import unnamed  # fmt: skip
from mlirtri.lowering.mlir.linalg_builder import (  # fmt: skip
    dimensions,
    empty,
    filled,
    generic,
    map_elements,
    reshape,
    tensor_type,
)

_COMBINERS = {"max": scalar.maximum, "min": scalar.minimum, "sum": scalar.add}


_NAMED = {
    (1, "dense"): linalg.conv_1d_ncw_fcw, (2, "dense"): linalg.conv_2d_nchw_fchw,
    (3, "dense"): linalg.conv_3d_ncdhw_fcdhw, (1, "by channel"): linalg.depthwise_conv_1d_ncw_cw,
    (2, "by channel"): linalg.depthwise_conv_2d_nchw_chw, (3, "by channel"): linalg.depthwise_conv_3d_ncdhw_cdhw,
}  # fmt: skip
"""Upstream's operations by number of spatial axes; their axes of size 1 stay, which avoids reshapes."""


@rule("convolution")
def _convolution(op, operation, operands):
    (image, kernel), result = (type_of(each.type) for each in operation.operands), type_of(operation.results[0].type)
    if 0 in result.shape:
        return empty(result)
    parameters, axes, carried = attributes.from_mlir(op, operation), image.rank - 2, _carried(result.dtype)
    groups, (channels, each) = parameters["groups"], kernel.shape[:2]
    x = _padded(_widened(operands[0], image, carried), image.with_dtype(carried), parameters)
    is_by_channel = groups == channels and each == 1
    if (groups > 1 and not is_by_channel) or carried != result.dtype:
        return _in_groups(x, operands[1], kernel, result, parameters)
    w = reshape(operands[1], (channels, *kernel.shape[2:]), kernel.dtype) if is_by_channel else operands[1]
    build = _NAMED[axes, "by channel" if is_by_channel else "dense"]
    steps = {name: list(parameters[name]) for name in ("strides", "dilations")}
    return build(x, w, outs=[filled(result, 0)], **steps)


def _in_groups(
    x: ir.Value, w: ir.Value, kernel: TensorType, result: TensorType, parameters: dict[str, Any]
) -> ir.Value:
    groups, carried = parameters["groups"], _carried(result.dtype)
    images, channels, *sizes = x.type.shape
    lead = (groups,) if groups > 1 else ()
    x = reshape(x, (images, *lead, channels // groups, *sizes), carried)
    w = reshape(w, (*lead, kernel.shape[0] // groups, *kernel.shape[1:]), kernel.dtype)
    of = TensorType((images, *lead, kernel.shape[0] // groups, *result.shape[2:]), carried)

    def body(left: ir.Value, right: ir.Value, accumulator: ir.Value) -> list[ir.Value]:
        factors = Scalar(left, carried), scalar.cast(Scalar(right, kernel.dtype), carried)
        return [scalar.add(Scalar(accumulator, carried), scalar.multiply(*factors)).value]

    maps, axes = _maps(len(lead), len(sizes), parameters), len(sizes)
    [value] = generic([x, w], [filled(of, 0)], maps, _kinds(of.rank, axes + 1), body)
    return reshape(converted(value, of, result.dtype), result.shape, result.dtype)


def _carried(dtype: DType) -> DType:
    return FLOAT32 if dtype.is_half else dtype


def _widened(value: ir.Value, of: TensorType, dtype: DType) -> ir.Value:
    if of.dtype == dtype:
        return value
    return map_elements(
        of.with_dtype(dtype), [value], [ir.AffineMap.get_identity(of.rank)],
        lambda element: scalar.cast(Scalar(element, of.dtype), dtype),
    )  # fmt: skip


def _padded(value: ir.Value, of: TensorType, parameters: dict[str, Any]) -> ir.Value:
    """Return the image with zeros around and between its elements."""
    low, high, spread = (parameters[name] for name in ("low", "high", "spread"))
    if not any((*low, *high)) and set(spread) == {1}:
        return value
    sizes = [spread_size(size, step) for size, step in zip(of.shape[2:], spread, strict=True)]
    whole = of.with_shape((*of.shape[:2], *map(sum, zip(sizes, low, high, strict=True))))
    if 0 in of.shape:
        return filled(whole, 0)
    if set(spread) == {1}:
        return _surrounded(value, whole, low, high)
    return insert_slice(value, filled(whole, 0), (0, 0, *low), of.shape, (1, 1, *spread))


def _surrounded(value: ir.Value, whole: TensorType, low: Sequence[int], high: Sequence[int]) -> ir.Value:
    zero = scalar.constant(0, whole.dtype).value
    made = tensor.PadOp(tensor_type(whole), value, [], [], [0, 0, *low], [0, 0, *high])
    block = made.regions[0].blocks.append(*[ir.IndexType.get()] * whole.rank, arg_locs=[unnamed()] * whole.rank)
    with ir.InsertionPoint(block), unnamed():
        tensor.YieldOp(zero)
    return made.result


def _maps(lead: int, axes: int, parameters: dict[str, Any]) -> list[ir.AffineMap]:
    """Return maps of image, kernel, result; loops (image, group?, channel out, *positions, channel in, *window)."""
    first = 2 + lead
    channel, rank = first + axes, first + 2 * axes + 1
    groups = range(1, 1 + lead)
    indices = _image_indices(range(first, first + axes), range(channel + 1, rank), parameters)
    image = [*(ir.AffineDimExpr.get(at) for at in (0, *groups, channel)), *indices]
    return [
        ir.AffineMap.get(rank, 0, image),
        dimensions(*groups, first - 1, *range(channel, rank), rank=rank),
        dimensions(*range(channel), rank=rank),
    ]


def _image_indices(outer: Sequence[int], inner: Sequence[int], parameters: dict[str, Any]) -> list[ir.AffineExpr]:
    """Return the indices at which windows read: the result's loops by strides, the window's by dilations."""

    def scaled(at: int, by: int) -> ir.AffineExpr:
        return ir.AffineDimExpr.get(at) if by == 1 else ir.AffineExpr.get_mul(ir.AffineDimExpr.get(at), by)

    each = zip(outer, parameters["strides"], inner, parameters["dilations"], strict=True)
    return [ir.AffineExpr.get_add(scaled(of, by), scaled(at, dilation)) for of, by, at, dilation in each]


def _kinds(results: int, reduced: int) -> list[str]:
    return iterators(results + reduced, range(results, results + reduced))


@rule("pool")
def _pool(op, operation, operands):
    of, result = type_of(operation.operands[0].type), type_of(operation.results[0].type)
    if 0 in result.shape:
        return empty(result)
    parameters = attributes.from_mlir(op, operation)
    kind, window, dtype = parameters["kind"], parameters["window"], _carried(of.dtype)
    axes, rank = len(window), of.rank + len(window)
    lead, inner = range(of.rank - axes), range(of.rank, rank)
    indices = _image_indices(range(of.rank - axes, of.rank), inner, parameters)
    maps = [
        ir.AffineMap.get(rank, 0, [*(ir.AffineDimExpr.get(at) for at in lead), *indices]),
        # Only the sizes of this operand are used, as the window's.
        dimensions(*inner, rank=rank),
        dimensions(*range(of.rank), rank=rank),
    ]

    def body(element: ir.Value, _: ir.Value, accumulator: ir.Value) -> list[ir.Value]:
        value = scalar.cast(Scalar(element, of.dtype), dtype)
        return [_COMBINERS[kind](Scalar(accumulator, dtype), value).value]

    carried = result.with_dtype(dtype)
    [value] = generic(
        [operands[0], empty(TensorType(window, dtype))], [filled(carried, identity(kind, dtype))], maps,
        _kinds(of.rank, axes), body,
    )  # fmt: skip
    return converted(value, carried, result.dtype)
