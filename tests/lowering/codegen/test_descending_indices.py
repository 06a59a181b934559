"""Reads in descending order of what other kernels join and reshape, which TVM flattens to one index."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt

MODULE = """
func.func @reversed(%x: tensor<{r}x{c}xf32>) -> tensor<{n}xf32> {{
  %joined = tensor.concat dim(0) %x, %x : (tensor<{r}x{c}xf32>, tensor<{r}x{c}xf32>) -> tensor<{rows}x{c}xf32>
  %flat = tensor.collapse_shape %joined [[0, 1]] : tensor<{rows}x{c}xf32> into tensor<{n}xf32>
  %empty = tensor.empty() : tensor<{n}xf32>
  %last = arith.constant {last} : index
  %result = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}}
      outs(%empty : tensor<{n}xf32>) {{
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = arith.subi %last, %i : index
    %element = tensor.extract %flat[%j] : tensor<{n}xf32>
    linalg.yield %element : f32
  }} -> tensor<{n}xf32>
  return %result : tensor<{n}xf32>
}}
"""


@pytest.mark.parametrize(("r", "c"), [(2, 2), (3, 4), (5, 3)])
def test_a_joined_array_is_read_backwards(r, c):
    x = np.arange(r * c, dtype=np.float32).reshape(r, c) + 10
    text = MODULE.format(r=r, c=c, rows=2 * r, n=2 * r * c, last=2 * r * c - 1)
    np.testing.assert_array_equal(mt.from_mlir(text).compile()(x), np.concatenate([x, x]).ravel()[::-1])
