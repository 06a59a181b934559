"""Operations of the tensor dialect in imported programs, and what upstream composes of others."""

from __future__ import annotations

import numpy as np
import pytest
from imported import PIPELINES, Case, check_cases

import mlirtri as mt

RNG = np.random.default_rng(6)
X = RNG.integers(-9, 9, (3, 4)).astype(np.float32)
AT = np.array([[0, 3], [2, 1]], np.int32)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def packed(x: np.ndarray, padding: float) -> np.ndarray:
    """3x4 in tiles of 2x3, the tiles' columns first."""
    whole = np.pad(x, ((0, 1), (0, 2)), constant_values=padding)
    return whole.reshape(2, 2, 2, 3).transpose(2, 0, 1, 3)


STRAIGHT = [
    Case({"x": X}, """
  %e = tensor.empty() : tensor<3x4xf32>
  %r = linalg.softmax dimension(1) ins(%x : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>""",
         {"r": softmax(X)}),
    Case({"x": X}, """
  %e = tensor.empty() : tensor<2x2x2x3xf32>
  %n = arith.constant 7.0 : f32
  %r = linalg.pack %x padding_value(%n : f32) outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [2, 3]
    into %e : tensor<3x4xf32> -> tensor<2x2x2x3xf32>
  %f = tensor.empty() : tensor<3x4xf32>
  %plain = linalg.pack %x padding_value(%n : f32) inner_dims_pos = [0, 1] inner_tiles = [2, 3]
    into %e : tensor<3x4xf32> -> tensor<2x2x2x3xf32>
  %c = linalg.unpack %plain inner_dims_pos = [0, 1] inner_tiles = [2, 3]
    into %f : tensor<2x2x2x3xf32> -> tensor<3x4xf32>
  %b = linalg.unpack %r outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [2, 3]
    into %f : tensor<2x2x2x3xf32> -> tensor<3x4xf32>""", {"r": packed(X, 7), "b": X, "c": X}),
    Case({"x": X}, """
  %r = tensor.generate {
  ^bb0(%i: index, %j: index):
    %s = arith.muli %i, %j : index
    %c = arith.index_cast %s : index to i32
    %f = arith.sitofp %c : i32 to f32
    %e = tensor.extract %x[%j, %i] : tensor<3x4xf32>
    %t = arith.addf %e, %f : f32
    tensor.yield %t : f32
  } : tensor<4x3xf32>""", {"r": X.T + np.outer(np.arange(4), np.arange(3)).astype(np.float32)}),
    Case({"x": X}, """
  %r = tensor.pad %x low[1, 2] high[0, 1] {
  ^bb0(%i: index, %j: index):
    %n = arith.constant 5.0 : f32
    tensor.yield %n : f32
  } : tensor<3x4xf32> to tensor<4x7xf32>""", {"r": np.pad(X, ((1, 0), (2, 1)), constant_values=5)}),
    Case({"x": X, "n": np.float32(4)}, """
  %v = tensor.extract %n[] : tensor<f32>
  %r = tensor.pad %x low[1, 2] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } : tensor<3x4xf32> to tensor<4x7xf32>""", {"r": np.pad(X, ((1, 0), (2, 1)), constant_values=4)}),
    Case({"x": X}, """
  %r = tensor.pad %x low[1, 0] high[1, 0] {
  ^bb0(%i: index, %j: index):
    %c = arith.index_cast %i : index to i32
    %f = arith.sitofp %c : i32 to f32
    tensor.yield %f : f32
  } : tensor<3x4xf32> to tensor<5x4xf32>""",
         {"r": np.concatenate([np.zeros((1, 4)), X, np.full((1, 4), 4)]).astype(np.float32)}),
    Case({"x": X}, """
  %z = arith.constant 0.0 : f32
  %r = tensor.pad %x low[-1, 2] high[1, -3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<3x4xf32> to tensor<3x3xf32>""",
         {"r": np.array([[0, 0, X[1, 0]], [0, 0, X[2, 0]], [0, 0, 0]], np.float32)}),
    Case({"x": X, "at": AT}, """
  %r = tensor.gather %x[%at] gather_dims([0, 1]) unique : (tensor<3x4xf32>, tensor<2x2xi32>) -> tensor<2xf32>
  %k = tensor.extract_slice %at[0, 0] [2, 1] [1, 1] : tensor<2x2xi32> to tensor<2x1xi32>
  %rows = tensor.gather %x[%k] gather_dims([0]) unique : (tensor<3x4xf32>, tensor<2x1xi32>) -> tensor<2x1x4xf32>
  %same = tensor.gather %x[%k] gather_dims([0]) unique : (tensor<3x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>""",
         {"r": X[[0, 2], [3, 1]], "rows": X[[[0], [2]]], "same": X[[0, 2]]}),
    Case({"x": X}, """
  %shape = arith.constant dense<[2, 6]> : tensor<2xi64>
  %r = tensor.reshape %x(%shape) : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x6xf32>
  %one = arith.constant dense<12> : tensor<1xi64>
  %flat = tensor.reshape %x(%one) : (tensor<3x4xf32>, tensor<1xi64>) -> tensor<12xf32>
  %cut = tensor.extract_slice %flat[2] [1] [1] : tensor<12xf32> to tensor<1xf32>
  %none = arith.constant dense<> : tensor<0xi64>
  %single = tensor.reshape %cut(%none) : (tensor<1xf32>, tensor<0xi64>) -> tensor<f32>
  %ones = arith.constant dense<1> : tensor<2xi64>
  %back = tensor.reshape %single(%ones) : (tensor<f32>, tensor<2xi64>) -> tensor<1x1xf32>""",
         {"r": X.reshape(2, 6), "flat": X.reshape(12), "single": X[0, 2], "back": X[0:1, 2:3]}),
    Case({"x": X}, """
  %r = tensor.bitcast %x : tensor<3x4xf32> to tensor<3x4xi32>""", {"r": X.view(np.int32)}),
    Case({"x": X, "n": np.float32(4)}, """
  %v = tensor.extract %n[] : tensor<f32>
  %r = tensor.splat %v : tensor<2x3xf32>
  %c = tensor.concat dim(0) %r, %r : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %i = arith.constant 1 : index
  %e = tensor.extract %x[%i, %i] : tensor<3x4xf32>
  %f = tensor.from_elements %v, %e, %v, %e : tensor<2x2xf32>""",
         {"r": np.full((2, 3), 4, np.float32), "c": np.full((4, 3), 4, np.float32),
          "f": np.array([[4, X[1, 1]], [4, X[1, 1]]], np.float32)}),
    Case({"x": X}, """
  %rank = tensor.rank %x : tensor<3x4xf32>
  %one = index.constant 1
  %size = tensor.dim %x, %one : tensor<3x4xf32>
  %sum = index.add %rank, %size
  %product = index.mul %sum, %size
  %is = index.cmp sgt(%product, %sum)
  %n = arith.index_cast %product : index to i64
  %m = arith.extui %is : i1 to i64
  %r = tensor.from_elements %n, %m : tensor<2xi64>""", {"r": np.array([24, 1])}),
    Case({"x": X}, """
  %a = bufferization.alloc_tensor() : tensor<3x4xf32>
  %b = bufferization.alloc_tensor() copy(%x) : tensor<3x4xf32>
  %r = linalg.add ins(%x, %b : tensor<3x4xf32>, tensor<3x4xf32>) outs(%a : tensor<3x4xf32>) -> tensor<3x4xf32>""",
         {"r": X + X}),
    Case({"x": X}, """
  %s = tensor.extract_slice %x[0, 1] [2, 2] [2, 2] : tensor<3x4xf32> to tensor<2x2xf32>
  %c = tensor.collapse_shape %x [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>
  %e = tensor.expand_shape %c [[0, 1, 2]] output_shape [2, 3, 2] : tensor<12xf32> into tensor<2x3x2xf32>
  %i = tensor.insert_slice %s into %x[1, 0] [2, 2] [1, 3] : tensor<2x2xf32> into tensor<3x4xf32>""",
         {"s": X[::2, 1::2], "e": X.reshape(2, 3, 2),
          "i": np.concatenate([X[:1], np.stack([X[::2, 1], X[1:, 1], X[1:, 2], X[::2, 3]], 1)])}),
]  # fmt: skip


def winograd(x: np.ndarray, f: np.ndarray) -> np.ndarray:
    """The convolution that Winograd's transforms are for: nhwc by fhwc."""
    view = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    return np.einsum("nhwcij,fijc->nhwf", view, f)


IMAGE, FILTER = (RNG.integers(-4, 4, shape).astype(np.float32) for shape in ((2, 6, 6, 3), (2, 3, 3, 3)))
LOOPS = [
    Case({"x": X, "at": AT, "s": np.array([50, 60], np.float32)}, """
  %r = tensor.scatter %s into %x[%at] scatter_dims([0, 1]) unique
    : (tensor<2xf32>, tensor<3x4xf32>, tensor<2x2xi32>) -> tensor<3x4xf32>""",
         {"r": np.array([[*X[0, :3], 50], X[1], [X[2, 0], 60, *X[2, 2:]]], np.float32)}),
    Case({"x": IMAGE, "f": FILTER}, """
  %fe = tensor.empty() : tensor<6x6x3x2xf32>
  %ft = linalg.winograd_filter_transform fmr(F_4_3) ins(%f : tensor<2x3x3x3xf32>)
    outs(%fe : tensor<6x6x3x2xf32>) -> tensor<6x6x3x2xf32>
  %xe = tensor.empty() : tensor<6x6x1x1x2x3xf32>
  %xt = linalg.winograd_input_transform fmr(F_4_3) ins(%x : tensor<2x6x6x3xf32>)
    outs(%xe : tensor<6x6x1x1x2x3xf32>) -> tensor<6x6x1x1x2x3xf32>
  %fc = tensor.collapse_shape %ft [[0, 1], [2], [3]] : tensor<6x6x3x2xf32> into tensor<36x3x2xf32>
  %xc = tensor.collapse_shape %xt [[0, 1], [2, 3, 4], [5]] : tensor<6x6x1x1x2x3xf32> into tensor<36x2x3xf32>
  %z = arith.constant 0.0 : f32
  %me = tensor.empty() : tensor<36x2x2xf32>
  %mz = linalg.fill ins(%z : f32) outs(%me : tensor<36x2x2xf32>) -> tensor<36x2x2xf32>
  %m = linalg.batch_matmul ins(%xc, %fc : tensor<36x2x3xf32>, tensor<36x3x2xf32>) outs(%mz : tensor<36x2x2xf32>)
    -> tensor<36x2x2xf32>
  %mx = tensor.expand_shape %m [[0, 1], [2, 3, 4], [5]] output_shape [6, 6, 1, 1, 2, 2]
    : tensor<36x2x2xf32> into tensor<6x6x1x1x2x2xf32>
  %oe = tensor.empty() : tensor<2x4x4x2xf32>
  %oz = linalg.fill ins(%z : f32) outs(%oe : tensor<2x4x4x2xf32>) -> tensor<2x4x4x2xf32>
  %r = linalg.winograd_output_transform fmr(F_4_3) ins(%mx : tensor<6x6x1x1x2x2xf32>)
    outs(%oz : tensor<2x4x4x2xf32>) -> tensor<2x4x4x2xf32>""", {"r": winograd(IMAGE, FILTER)}),
]  # fmt: skip


@pytest.mark.parametrize("pipeline", ["linalg", pytest.param("mlir", marks=pytest.mark.slow)])
def test_straight_operations(pipeline):
    check_cases(STRAIGHT, pipeline, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_operations_that_are_loops(pipeline):
    check_cases(LOOPS, pipeline, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_reductions_along_an_axis_beside_one_of_size_zero(pipeline):
    def kernel(a):
        return a.sum(0), a.argmin(0)

    total, index = mt.jit(kernel, pipeline=pipeline)(np.zeros((1, 0), np.float32))
    assert total.shape == index.shape == (0,)
