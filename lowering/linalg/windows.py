"""Rules of `tri_to_linalg` for sliding windows: convolutions of any number of axes, in groups, and pools.

Convolutions are upstream's named operations where there is one; else, as pools are, one generic over images, channels,
positions of the result and of the window. fp16 and bf16 are accumulated in fp32.

    out[n, g, o, h, w] += image[n, g, c, h * stride + i * dilation, w * stride + j * dilation] * kernel[g, o, c, i, j]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import ir, linalg
from mlirtri.dialect.definition import type_of
from mlirtri.dialect.ops.op import Op
from mlirtri.dialect.ops.windows import spread_size
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.lowering.linalg.elementwise import Values, computed_in, result_and_parameters, rule
from mlirtri.lowering.linalg.matmul import multiply_and_add
from mlirtri.lowering.linalg.reductions import COMBINERS, converted, identity, iterators
from mlirtri.lowering.mlir_common.linalg_builder import (  # fmt: skip
    dimensions,
    empty,
    filled,
    generic,
    insert_slice,
    padded,
    reshape,
    tensor_type,
)

_NAMED = {
    (1, "dense"): "conv_1d_ncw_fcw", (2, "dense"): "conv_2d_nchw_fchw",
    (3, "dense"): "conv_3d_ncdhw_fcdhw", (1, "by channel"): "depthwise_conv_1d_ncw_cw",
    (2, "by channel"): "depthwise_conv_2d_nchw_chw", (3, "by channel"): "depthwise_conv_3d_ncdhw_cdhw",
}  # fmt: skip
"""Upstream's operations by number of spatial axes; their axes of size 1 stay, which avoids reshapes. By the names
of the bindings' functions, which take 60 ms to load."""


@rule("convolution")
def _convolution(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    image, kernel = (type_of(operand.type) for operand in operation.operands)
    result, parameters = result_and_parameters(op, operation)
    if 0 in result.shape:
        return empty(result)
    axes, carried = image.rank - 2, computed_in(result.dtype)
    groups, (channels, depth) = parameters["groups"], kernel.shape[:2]
    x = _spread(converted(operands[0], image, carried), image.with_dtype(carried), parameters)
    is_by_channel = groups == channels and depth == 1
    if (groups > 1 and not is_by_channel) or carried != result.dtype:
        return _in_groups(x, operands[1], kernel, result, parameters)
    w = reshape(operands[1], (channels, *kernel.shape[2:]), kernel.dtype) if is_by_channel else operands[1]
    build = getattr(linalg, _NAMED[axes, "by channel" if is_by_channel else "dense"])
    steps = {name: list(parameters[name]) for name in ("strides", "dilations")}
    return build(x, w, outs=[filled(result, 0)], **steps)


def _in_groups(
    x: ir.Value, w: ir.Value, kernel: TensorType, result: TensorType, parameters: dict[str, Any]
) -> ir.Value:
    groups, carried = parameters["groups"], computed_in(result.dtype)
    images, channels, *sizes = x.type.shape
    lead = (groups,) if groups > 1 else ()
    x = reshape(x, (images, *lead, channels // groups, *sizes), carried)
    w = reshape(w, (*lead, kernel.shape[0] // groups, *kernel.shape[1:]), kernel.dtype)
    accumulated = TensorType((images, *lead, kernel.shape[0] // groups, *result.shape[2:]), carried)
    body = multiply_and_add((carried, kernel.dtype), carried)
    maps, axes = _maps(len(lead), len(sizes), parameters), len(sizes)
    [value] = generic([x, w], [filled(accumulated, 0)], maps, _kinds(accumulated.rank, axes + 1), body)
    return reshape(converted(value, accumulated, result.dtype), result.shape, result.dtype)


def _spread(value: ir.Value, type_: TensorType, parameters: dict[str, Any]) -> ir.Value:
    low, high, spread = (parameters[name] for name in ("low", "high", "spread"))
    if not any((*low, *high)) and set(spread) == {1}:
        return value
    sizes = [spread_size(size, step) for size, step in zip(type_.shape[2:], spread, strict=True)]
    result = type_.with_shape((*type_.shape[:2], *map(sum, zip(sizes, low, high, strict=True))))
    if 0 in type_.shape:
        return filled(result, 0)
    if set(spread) == {1}:
        zero = scalar.constant(0, result.dtype).value
        return padded(value, tensor_type(result), (0, 0, *low), (0, 0, *high), zero)
    return insert_slice(value, filled(result, 0), (0, 0, *low), type_.shape, (1, 1, *spread))


def _maps(lead: int, axes: int, parameters: dict[str, Any]) -> list[ir.AffineMap]:
    """Return maps of image, kernel, result; loops (image, group?, channel out, *positions, channel in, *window)."""
    first = 2 + lead
    channel, rank = first + axes, first + 2 * axes + 1
    groups = range(1, 1 + lead)
    indices = _image_indices(range(first, first + axes), range(channel + 1, rank), parameters)
    image = [*(ir.AffineDimExpr.get(loop) for loop in (0, *groups, channel)), *indices]
    return [
        ir.AffineMap.get(rank, 0, image),
        dimensions(*groups, first - 1, *range(channel, rank), rank=rank),
        dimensions(*range(channel), rank=rank),
    ]


def _image_indices(outer: Sequence[int], inner: Sequence[int], parameters: dict[str, Any]) -> list[ir.AffineExpr]:
    """Return the indices at which windows read: the result's loops by strides, the window's by dilations."""

    def scaled(loop: int, by: int) -> ir.AffineExpr:
        return ir.AffineDimExpr.get(loop) if by == 1 else ir.AffineExpr.get_mul(ir.AffineDimExpr.get(loop), by)

    steps = zip(outer, parameters["strides"], inner, parameters["dilations"], strict=True)
    return [
        ir.AffineExpr.get_add(scaled(outer_loop, by), scaled(loop, dilation))
        for outer_loop, by, loop, dilation in steps
    ]


def _kinds(results: int, reduced: int) -> list[str]:
    return iterators(results + reduced, range(results, results + reduced))


@rule("pool")
def _pool(op: Op, operation: ir.Operation, operands: Values) -> ir.Value:
    image, (result, parameters) = type_of(operation.operands[0].type), result_and_parameters(op, operation)
    if 0 in result.shape:
        return empty(result)
    kind, window, dtype = parameters["kind"], parameters["window"], computed_in(image.dtype)
    axes, rank = len(window), image.rank + len(window)
    lead, inner = range(image.rank - axes), range(image.rank, rank)
    indices = _image_indices(range(image.rank - axes, image.rank), inner, parameters)
    maps = [
        ir.AffineMap.get(rank, 0, [*(ir.AffineDimExpr.get(axis) for axis in lead), *indices]),
        # Only the sizes of this operand are used, as the window's.
        dimensions(*inner, rank=rank),
        dimensions(*range(image.rank), rank=rank),
    ]

    def body(element: ir.Value, _: ir.Value, accumulator: ir.Value) -> list[ir.Value]:
        value = scalar.cast(Scalar(element, image.dtype), dtype)
        return [COMBINERS[kind](Scalar(accumulator, dtype), value).value]

    carried = result.with_dtype(dtype)
    [value] = generic(
        [operands[0], empty(TensorType(window, dtype))], [filled(carried, identity(kind, dtype))], maps,
        _kinds(image.rank, axes), body,
    )  # fmt: skip
    return converted(value, carried, result.dtype)
