"""Quantised types of StableHLO against the formulas of its specification, written in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import UnsupportedOperationError

PIPELINES = ("linalg", "mlir")
RNG = np.random.default_rng(5)
SCALE, ZERO_POINT = 0.05, -3
TENSOR = f"!quant.uniform<i8:f32, {SCALE}:{ZERO_POINT}>"
WEIGHT = "!quant.uniform<i8:f32, 0.02>"
SCALES, ZERO_POINTS = (0.1, 0.02, 0.3), (0, 10, -128)
ALONG = ", ".join(f"{scale}:{zero}" for scale, zero in zip(SCALES, ZERO_POINTS, strict=True))
AXIS = f"!quant.uniform<i8:f32:1, {{{ALONG}}}>"


def quantized(x, scale, zero, low=-128, high=127, dtype=np.int8):
    scaled = np.float32(x) / np.float32(scale) + np.float32(zero)
    return np.rint(np.clip(scaled, low, high)).astype(dtype)


def dequantized(q, scale, zero):
    return (q.astype(np.int32) - np.int32(zero)).astype(np.float32) * np.float32(scale)


PROGRAM = f"""
func.func @main(%x: tensor<4x3xf32>, %y: tensor<3x3x{WEIGHT}>) -> (tensor<4x3x{TENSOR}>, tensor<3x4x{TENSOR}>,
    tensor<4x3x!quant.uniform<i32:f32, 1.0e-3>>, tensor<4x3xf32>, tensor<4x3xi1>, tensor<3x{TENSOR}>, tensor<4x3xf32>) {{
  %q = stablehlo.uniform_quantize %x : (tensor<4x3xf32>) -> tensor<4x3x{TENSOR}>
  %t = stablehlo.transpose %q, dims = [1, 0] : (tensor<4x3x{TENSOR}>) -> tensor<3x4x{TENSOR}>
  %s = stablehlo.add %q, %q : tensor<4x3x{TENSOR}>
  %d = stablehlo.dot_general %q, %y, contracting_dims = [1] x [0] : (tensor<4x3x{TENSOR}>, tensor<3x3x{WEIGHT}>) -> tensor<4x3x!quant.uniform<i32:f32, 1.0e-3>>
  %h = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x3x{WEIGHT}>) -> tensor<4x3xf32>
  %c = stablehlo.compare LT, %q, %s : (tensor<4x3x{TENSOR}>, tensor<4x3x{TENSOR}>) -> tensor<4x3xi1>
  %zero = stablehlo.constant() <{{value = dense<{ZERO_POINT}> : tensor<i8>}}> : () -> tensor<{TENSOR}>
  %r = stablehlo.reduce(%q init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x3x{TENSOR}>, tensor<{TENSOR}>) -> tensor<3x{TENSOR}>
  %a = stablehlo.uniform_quantize %q : (tensor<4x3x{TENSOR}>) -> tensor<4x3x{AXIS}>
  %f = stablehlo.uniform_dequantize %a : (tensor<4x3x{AXIS}>) -> tensor<4x3xf32>
  return %s, %t, %d, %h, %c, %r, %f : tensor<4x3x{TENSOR}>, tensor<3x4x{TENSOR}>, tensor<4x3x!quant.uniform<i32:f32, 1.0e-3>>, tensor<4x3xf32>, tensor<4x3xi1>, tensor<3x{TENSOR}>, tensor<4x3xf32>
}}"""  # noqa: E501 - as it is printed


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_quantized_operations(pipeline):
    # Beyond the limits, and halfway between two integers: the latter go to the even one with the zero point added.
    x = np.float32([[-9.0, 9.0, 0.025], [0.075, -0.025, 1.0], [0.3, np.inf, -np.inf], [0.0, -0.0, 2.0]])
    y = RNG.integers(-128, 128, (3, 3)).astype(np.int8)
    q = quantized(x, SCALE, ZERO_POINT)
    value, weight = dequantized(q, SCALE, ZERO_POINT), dequantized(y, 0.02, 0)
    finite = np.where(np.isfinite(x), x, 1)
    summed = quantized(value + value, SCALE, ZERO_POINT)
    total = np.full(3, ZERO_POINT, np.int8)
    for row in q:
        total = quantized(dequantized(total, SCALE, ZERO_POINT) + dequantized(row, SCALE, ZERO_POINT), SCALE, -3)
    kernel = mt.from_stablehlo(PROGRAM).compile(pipeline=pipeline)
    results = kernel(x, y)
    np.testing.assert_array_equal(results[0], summed)
    np.testing.assert_array_equal(results[1], q.T)
    np.testing.assert_allclose(results[2] * 1e-3, value @ weight, atol=1.1e-3)
    np.testing.assert_array_equal(results[4], value < dequantized(summed, SCALE, ZERO_POINT))
    np.testing.assert_array_equal(results[5], total)
    per_axis = quantized(value, SCALES, ZERO_POINTS)
    np.testing.assert_array_equal(results[6], dequantized(per_axis, SCALES, ZERO_POINTS))
    np.testing.assert_allclose(kernel(finite, y)[3], finite @ weight, rtol=1e-5, atol=1e-5)
    assert [each.dtype for each in results[:3]] == [np.int8, np.int8, np.int32]


def test_narrow_unsigned_and_bounded_storage():
    kinds = ("u8:f32, 0.5:128", "i4:f32, 0.5", "i8<-127:127>:f32, 0.5", "i32:f32, 1.0e-9")
    lines = [
        f"  %q{n} = stablehlo.uniform_quantize %x : (tensor<5xf32>) -> tensor<5x!quant.uniform<{kind}>>"
        for n, kind in enumerate(kinds)
    ]
    names = ", ".join(f"%q{n}" for n in range(len(kinds)))
    types = ", ".join(f"tensor<5x!quant.uniform<{kind}>>" for kind in kinds)
    text = "\n".join(
        [f"func.func @main(%x: tensor<5xf32>) -> ({types}) {{", *lines, f"  return {names} : {types}", "}"]
    )
    x = np.float32([-1000, -3.2, 0.25, 3.3, 1000])
    unsigned, narrow, symmetric, wide = mt.from_stablehlo(text)(x)
    np.testing.assert_array_equal(unsigned, quantized(x, 0.5, 128, 0, 255, np.uint8))
    np.testing.assert_array_equal(narrow, quantized(x, 0.5, 0, -8, 7))
    np.testing.assert_array_equal(symmetric, quantized(x, 0.5, 0, -127, 127))
    # The largest fp32 that is an int32.
    np.testing.assert_array_equal(wide, np.int32([-(2**31), -(2**31), 250000000, 2**31 - 128, 2**31 - 128]))
    assert [each.dtype for each in (unsigned, narrow)] == [np.uint8, np.int8]


def test_other_quantized_types_are_refused():
    kind = "tensor<4x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{1.0, 2.0}, {3.0, 4.0}}>>"
    text = f"func.func @main(%a: {kind}) -> {kind} {{\n  return %a : {kind}\n}}"
    with pytest.raises(UnsupportedOperationError, match="no translation to linalg for elements of !quant") as caught:
        mt.from_stablehlo(text).compile()
    assert caught.value.span is not None
