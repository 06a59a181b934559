"""StableHLO's `select_and_scatter`, which JAX makes of the gradients of max pools, against torch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt

GRADIENT_OF_A_POOL = """
func.func @main(%x: tensor<1x5x6xf32>, %g: tensor<1x3x3xf32>) -> tensor<1x5x6xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.select_and_scatter"(%x, %g, %z) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {window_dimensions = array<i64: 1, 3, 3>, window_strides = array<i64: 1, 2, 2>,
      padding = dense<[[0, 0], [1, 1], [1, 0]]> : tensor<3x2xi64>}
    : (tensor<1x5x6xf32>, tensor<1x3x3xf32>, tensor<f32>) -> tensor<1x5x6xf32>
  return %r : tensor<1x5x6xf32>
}
"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_the_gradient_of_a_pool(pipeline):
    generator = torch.Generator().manual_seed(2)
    x, g = (torch.randn(1, *size, generator=generator) for size in ((5, 6), (3, 3)))
    padded = torch.nn.functional.pad(x, (1, 0, 1, 1), value=float("-inf")).requires_grad_()
    torch.nn.functional.max_pool2d(padded[None], 3, 2).backward(g[None])
    found = mt.from_stablehlo(GRADIENT_OF_A_POOL).compile(pipeline=pipeline)(x, g)
    torch.testing.assert_close(found, padded.grad[:, 1:-1, 1:])


WINDOWS_APART = """
func.func @main(%x: tensor<5x7xui8>, %g: tensor<2x2xui8>) -> tensor<5x7xui8> {
  %z = stablehlo.constant dense<3> : tensor<ui8>
  %r = "stablehlo.select_and_scatter"(%x, %g, %z) ({
  ^bb0(%a: tensor<ui8>, %b: tensor<ui8>):
    %c = stablehlo.compare GE, %a, %b : (tensor<ui8>, tensor<ui8>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<ui8>, %b: tensor<ui8>):
    %s = stablehlo.add %a, %b : tensor<ui8>
    stablehlo.return %s : tensor<ui8>
  }) {window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 4>}
    : (tensor<5x7xui8>, tensor<2x2xui8>, tensor<ui8>) -> tensor<5x7xui8>
  return %r : tensor<5x7xui8>
}
"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_the_first_of_equal_elements_of_windows_that_do_not_overlap(pipeline):
    x = np.array([[1, 7, 7, 9, 200, 2, 200], [7, 0, 1, 9, 1, 1, 1], *np.ones((3, 7), int)], np.uint8)
    g = np.array([[10, 20], [30, 40]], np.uint8)
    wanted = np.full((5, 7), 3, np.uint8)
    for position, number in (((0, 1), 10), ((0, 4), 20), ((2, 0), 30), ((2, 4), 40)):
        wanted[position] += number
    np.testing.assert_array_equal(mt.from_stablehlo(WINDOWS_APART).compile(pipeline=pipeline)(x, g), wanted)
