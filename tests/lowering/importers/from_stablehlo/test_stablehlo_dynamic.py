"""StableHLO of sizes known at run time only, against NumPy: one kernel for several sizes."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import KernelError

PIPELINES = ("linalg", "mlir")
RNG = np.random.default_rng(7)


def results(text, *arguments, pipeline="linalg"):
    kernel = mt.from_stablehlo(text).compile(pipeline=pipeline)
    for call in arguments:
        values = kernel(*call)
        yield values if isinstance(values, tuple) else (values,)


SIZES = """
func.func @main(%n: tensor<i64>, %a: tensor<?x4xf32>, %p: tensor<f32>) -> (tensor<?xf32>, tensor<?x?x4xf32>, tensor<?x9xf32>, tensor<?x4xf32>, tensor<?x4xi32>) {
  %m = stablehlo.convert %n : (tensor<i64>) -> tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %all = stablehlo.multiply %m, %four : tensor<i32>
  %length = stablehlo.reshape %all : (tensor<i32>) -> tensor<1xi32>
  %0 = stablehlo.dynamic_reshape %a, %length : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<?xf32>
  %rows = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
  %columns = stablehlo.constant dense<4> : tensor<1xi32>
  %shape = stablehlo.concatenate %two, %rows, %columns, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xi32>
  %1 = stablehlo.dynamic_broadcast_in_dim %a, %shape, dims = [1, 2] : (tensor<?x4xf32>, tensor<3xi32>) -> tensor<?x?x4xf32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %minus = stablehlo.constant dense<-1> : tensor<1xi32>
  %low = stablehlo.concatenate %minus, %two, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %high = stablehlo.concatenate %rows, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %inner = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %2 = stablehlo.dynamic_pad %a, %p, %low, %high, %inner : (tensor<?x4xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x9xf32>
  %3 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %size = stablehlo.concatenate %rows, %columns, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %4 = stablehlo.dynamic_iota %size, dim = 0 : (tensor<2xi32>) -> tensor<?x4xi32>
  return %0, %1, %2, %3, %4 : tensor<?xf32>, tensor<?x?x4xf32>, tensor<?x9xf32>, tensor<?x4xf32>, tensor<?x4xi32>
}"""  # noqa: E501 - as it is printed


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_shapes_that_an_argument_holds(pipeline):
    calls = [(np.int64(n), RNG.normal(size=(n, 4)).astype(np.float32), np.float32(7)) for n in (1, 3)]
    for (n, a, _), values in zip(calls, results(SIZES, *calls, pipeline=pipeline), strict=True):
        padded = np.full((2 * n - 1 + n, 9), np.float32(7))
        padded[: 2 * n - 1 : 2, 2::2] = a
        wanted = (
            a.reshape(-1),
            np.stack([a, a]),
            padded[1:],
            np.concatenate([a, a]),
            np.repeat(np.arange(n, dtype=np.int32)[:, None], 4, 1),
        )
        for value, expected in zip(values, wanted, strict=True):
            np.testing.assert_array_equal(value, expected)


def test_a_size_that_does_not_fit_is_refused():
    kernel = mt.from_stablehlo(SIZES).compile()
    with pytest.raises(KernelError):
        kernel(np.int64(5), np.ones((3, 4), np.float32), np.float32(0))


ELEMENTS = """
func.func @main(%a: tensor<?x5xui8>, %u: tensor<2x?xui8>, %i: tensor<ui8>, %j: tensor<3x1xui8>, %p: tensor<ui8>, %x: tensor<?x?xf32>) -> (tensor<?x5xui8>, tensor<?x5xui8>, tensor<2x2xui8>, tensor<3x5xui8>, tensor<?x3xui8>, tensor<?x5xui8>, tensor<?x?xf32>, tensor<?x?xf32>) {
  %0 = stablehlo.reverse %a, dims = [0, 1] : tensor<?x5xui8>
  %1 = "stablehlo.dynamic_update_slice"(%a, %u, %i, %i) : (tensor<?x5xui8>, tensor<2x?xui8>, tensor<ui8>, tensor<ui8>) -> tensor<?x5xui8>
  %2 = "stablehlo.slice"(%a) {limit_indices = array<i64: 3,4>, start_indices = array<i64: 1,1>, strides = array<i64: 1,2>} : (tensor<?x5xui8>) -> tensor<2x2xui8>
  %3 = "stablehlo.gather"(%a, %j) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 5>} : (tensor<?x5xui8>, tensor<3x1xui8>) -> tensor<3x5xui8>
  %4 = stablehlo.pad %a, %p, low = [0, -3], high = [0, 1], interior = [0, 0] : (tensor<?x5xui8>, tensor<ui8>) -> tensor<?x3xui8>
  %5 = "stablehlo.scatter"(%a, %j, %3) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%b: tensor<ui8>, %c: tensor<ui8>):
    %s = stablehlo.add %b, %c : tensor<ui8>
    stablehlo.return %s : tensor<ui8>
  }) : (tensor<?x5xui8>, tensor<3x1xui8>, tensor<3x5xui8>) -> tensor<?x5xui8>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %6 = "stablehlo.reduce_window"(%x, %zero) ({
  ^bb0(%b: tensor<f32>, %c: tensor<f32>):
    %s = stablehlo.add %b, %c : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {padding = dense<[[1, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 1, 2>} : (tensor<?x?xf32>, tensor<f32>) -> tensor<?x?xf32>
  %7 = stablehlo.reduce_precision %x, format = e5m2 : tensor<?x?xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<?x5xui8>, tensor<?x5xui8>, tensor<2x2xui8>, tensor<3x5xui8>, tensor<?x3xui8>, tensor<?x5xui8>, tensor<?x?xf32>, tensor<?x?xf32>
}"""  # noqa: E501 - as it is printed


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_elements_at_unsigned_indices(pipeline):
    """An index of 200 is past the end, not before the start."""
    index = np.uint8([[200], [1], [0]])
    calls = [
        (
            RNG.integers(0, 256, (n, 5)).astype(np.uint8),
            RNG.integers(0, 256, (2, 3)).astype(np.uint8),
            np.uint8(200),
            index,
            np.uint8(9),
            RNG.normal(size=(n, n)).astype(np.float32),
        )
        for n in (3, 6)
    ]
    for (a, u, _, _, p, x), values in zip(calls, results(ELEMENTS, *calls, pipeline=pipeline), strict=True):
        updated, scattered = a.copy(), a.copy()
        updated[-2:, -3:] = u
        gathered = a[[len(a) - 1, 1, 0]]
        scattered[1] += gathered[1]
        scattered[0] += gathered[2]
        padded = np.concatenate([a[:, 3:], np.full((len(a), 1), p)], 1)
        for value, wanted in zip(
            values, (a[::-1, ::-1], updated, a[1:3, 1:4:2], gathered, padded, scattered), strict=False
        ):
            np.testing.assert_array_equal(value, wanted)
        summed = x + np.concatenate([np.zeros_like(x[:1]), x[:-1]])
        np.testing.assert_array_equal(values[6], summed[:, ::2])
        mantissa, exponent = np.frexp(x)
        np.testing.assert_array_equal(values[7], np.ldexp(np.rint(mantissa * 8) / 8, exponent))


def test_a_convolution_of_any_number_of_images():
    import torch

    text = """func.func @main(%a: tensor<?x4x9x10xf32>, %b: tensor<6x2x4x5xf32>) -> tensor<?x6x?x?xf32> {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride=[2,1], pad = [[1,2],[0,-1]], rhs_dilate = [2,1]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<?x4x9x10xf32>, tensor<6x2x4x5xf32>) -> tensor<?x6x?x?xf32>
  return %0 : tensor<?x6x?x?xf32>
}"""  # noqa: E501 - as it is printed
    weight = RNG.normal(size=(6, 2, 4, 5)).astype(np.float32)
    calls = [(RNG.normal(size=(n, 4, 9, 10)).astype(np.float32), weight) for n in (1, 3)]
    for (image, _), (value,) in zip(calls, results(text, *calls), strict=True):
        padded = torch.from_numpy(np.pad(image, ((0, 0), (0, 0), (1, 2), (0, 0)))[..., :-1])
        wanted = torch.nn.functional.conv2d(padded, torch.from_numpy(weight), stride=(2, 1), dilation=(2, 1), groups=2)
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_fourier_transforms_of_any_number_of_rows(pipeline):
    text = """func.func @main(%a: tensor<?x6xf32>) -> tensor<?x4xcomplex<f32>> {
  %0 = stablehlo.fft %a, type = RFFT, length = [6] : (tensor<?x6xf32>) -> tensor<?x4xcomplex<f32>>
  return %0 : tensor<?x4xcomplex<f32>>
}"""
    calls = [(RNG.normal(size=(n, 6)).astype(np.float32),) for n in (1, 3)]
    for (a,), (value,) in zip(calls, results(text, *calls, pipeline=pipeline), strict=True):
        np.testing.assert_allclose(value, np.fft.rfft(a), rtol=1e-5, atol=1e-5)
