"""Indices of imported maps that run-time sizes could move in front of a tensor."""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_programs import check

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError

REVERSED = """
func.func @main(%x: tensor<8xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.constant 0 : index
  %n = tensor.dim %y, %0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (-i + 7)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]}
      ins(%x, %y : tensor<8xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
"""


def test_indices_below_0_are_refused():
    reversed_sum, x = mt.from_mlir(REVERSED), np.arange(8, dtype="float32")
    for n in (0, 5, 8):
        check(reversed_sum(x, np.zeros(n, "float32")), x[::-1][:n])
    with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'y' is 9.*generic"):
        reversed_sum(x, np.zeros(9, "float32"))
