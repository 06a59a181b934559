"""Two results that go on from one array, which upstream's bufferization would compute in the memory of one of them."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt

STRUCTURED = """
#each = affine_map<(d0) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<4xf32>, %y: tensor<4x3xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %nothing = tensor.empty() : tensor<4xf32>
  %start = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%nothing : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.negf %a : f32
    linalg.yield %b : f32
  } -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%y : tensor<4x3xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.addf %o, %a : f32
    linalg.yield %b : f32
  } -> tensor<4xf32>
  %product = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%y : tensor<4x3xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.mulf %o, %a : f32
    linalg.yield %b : f32
  } -> tensor<4xf32>
  return %sum, %product, %RESULT : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
"""
LOOPS = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4x3xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %nothing = tensor.empty() : tensor<4xf32>
  %start = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %nothing) -> (tensor<4xf32>) {
    %a = tensor.extract %x[%i] : tensor<4xf32>
    %b = arith.negf %a : f32
    %u = tensor.insert %b into %t[%i] : tensor<4xf32>
    scf.yield %u : tensor<4xf32>
  }
  %sum = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %start) -> (tensor<4xf32>) {
    %l = scf.for %k = %c0 to %c2 step %c1 iter_args(%r = %t) -> (tensor<4xf32>) {
      %a = tensor.extract %y[%i, %k] : tensor<4x3xf32>
      %b = tensor.extract %r[%i] : tensor<4xf32>
      %c = arith.addf %a, %b : f32
      %u = tensor.insert %c into %r[%i] : tensor<4xf32>
      scf.yield %u : tensor<4xf32>
    }
    %a = tensor.extract %y[%i, %c2] : tensor<4x3xf32>
    %b = tensor.extract %l[%i] : tensor<4xf32>
    %c = arith.addf %a, %b : f32
    %u = tensor.insert %c into %l[%i] : tensor<4xf32>
    scf.yield %u : tensor<4xf32>
  }
  %product = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %start) -> (tensor<4xf32>) {
    %l = scf.for %k = %c0 to %c4 step %c1 iter_args(%r = %t) -> (tensor<4xf32>) {
      %in = arith.minui %k, %c2 : index
      %is = arith.cmpi eq, %in, %k : index
      %a = tensor.extract %y[%i, %in] : tensor<4x3xf32>
      %b = tensor.extract %r[%i] : tensor<4xf32>
      %c = arith.mulf %a, %b : f32
      %d = arith.select %is, %c, %b : f32
      %u = tensor.insert %d into %r[%i] : tensor<4xf32>
      scf.yield %u : tensor<4xf32>
    }
    scf.yield %l : tensor<4xf32>
  }
  return %sum, %product, %RESULT : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
"""


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize("third", ["start", "sum"])
@pytest.mark.parametrize("text", [STRUCTURED, LOOPS], ids=["structured", "loops"])
def test_results_of_one_start(text, third, pipeline):
    x, y = np.arange(1, 5, dtype="float32"), np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    wanted = {"start": -x, "sum": -x + y.sum(1), "product": -x * y.prod(1)}
    found = mt.from_mlir(text.replace("RESULT", third)).compile(pipeline=pipeline)(x, y)
    for f, name in zip(found, ("sum", "product", third), strict=True):
        np.testing.assert_allclose(f, wanted[name], rtol=1e-5)
