"""MLIR functions on tensors whose sizes the arguments say, compiled once per pipeline."""

from __future__ import annotations

import functools

import numpy as np

import mlirtri as mt

RNG = np.random.default_rng(7)

MATMUL = """
func.func @product(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %y, %c1 : tensor<?x?xf32>
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%x, %y : tensor<?x?xf32>, tensor<?x?xf32>) outs(%start : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""

SOFTMAX = """
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @softmax(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %n = tensor.dim %x, %c0 : tensor<?x?xf32>
  %m = tensor.dim %x, %c1 : tensor<?x?xf32>
  %rows = tensor.empty(%n) : tensor<?xf32>
  %whole = tensor.empty(%n, %m) : tensor<?x?xf32>
  %lows = linalg.fill ins(%least : f32) outs(%rows : tensor<?xf32>) -> tensor<?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<?xf32>) -> tensor<?xf32>
  %high = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf32>) outs(%lows : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.maximumf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %powers = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %high : tensor<?x?xf32>, tensor<?xf32>) outs(%whole : tensor<?x?xf32>) {
  ^bb0(%a: f32, %h: f32, %o: f32):
    %d = arith.subf %a, %h : f32
    %e = math.exp %d : f32
    linalg.yield %e : f32
  } -> tensor<?x?xf32>
  %sums = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%powers : tensor<?x?xf32>) outs(%zeros : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%powers, %sums : tensor<?x?xf32>, tensor<?xf32>) outs(%whole : tensor<?x?xf32>) {
  ^bb0(%a: f32, %s: f32, %o: f32):
    %q = arith.divf %a, %s : f32
    linalg.yield %q : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""

ADD = """
#all = affine_map<(i, j) -> (i, j)>
func.func @add(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %empty = tensor.empty(%n) : tensor<?x4xf32>
  %r = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<?x4xf32>, tensor<?x4xf32>) outs(%empty : tensor<?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
"""

CONCAT = """
func.func @join(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?xf32>) {
  %r = tensor.concat dim(0) %x, %y : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %flat = tensor.collapse_shape %r [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  return %r, %flat : tensor<?x?xf32>, tensor<?xf32>
}
"""

PAD_AND_SLICE = """
func.func @cut(%x: tensor<?x6xf32>) -> (tensor<?x9xf32>, tensor<?x6xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x6xf32>
  %wide = tensor.pad %x low[%n, 1] high[1, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<?x6xf32> to tensor<?x9xf32>
  %more = arith.addi %n, %c1 : index
  %half = arith.floordivsi %more, %c2 : index
  %even = tensor.extract_slice %x[0, 0] [%half, 6] [2, 1] : tensor<?x6xf32> to tensor<?x6xf32>
  return %wide, %even : tensor<?x9xf32>, tensor<?x6xf32>
}
"""

RESHAPE = """
func.func @reshape(%x: tensor<2x?x?xf32>, %shape: tensor<2xi64>) -> (tensor<1x2x?x?xf32>, tensor<?x?xf32>) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %n = tensor.dim %x, %c1 : tensor<2x?x?xf32>
  %m = tensor.dim %x, %c2 : tensor<2x?x?xf32>
  %sizes = tensor.from_elements %one, %two, %n, %m : tensor<4xindex>
  %r = tensor.reshape %x(%sizes) : (tensor<2x?x?xf32>, tensor<4xindex>) -> tensor<1x2x?x?xf32>
  %s = tensor.reshape %x(%shape) : (tensor<2x?x?xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %r, %s : tensor<1x2x?x?xf32>, tensor<?x?xf32>
}
"""

COUNT = """
#all = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>
func.func @first(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %none = arith.constant dense<0> : tensor<i64>
  %count = linalg.generic {indexing_maps = [#all, #none], iterator_types = ["reduction"]}
      ins(%x : tensor<?xf32>) outs(%none : tensor<i64>) {
  ^bb0(%a: f32, %o: i64):
    %p = arith.cmpf ogt, %a, %zero : f32
    %q = arith.extui %p : i1 to i64
    %s = arith.addi %o, %q : i64
    linalg.yield %s : i64
  } -> tensor<i64>
  %e = tensor.extract %count[] : tensor<i64>
  %k = arith.index_cast %e : i64 to index
  %r = tensor.extract_slice %x[0] [%k] [1] : tensor<?xf32> to tensor<?xf32>
  return %r : tensor<?xf32>
}
"""

ARANGE = """
#all = affine_map<(i) -> (i)>
func.func @count_up(%n: tensor<i64>) -> tensor<?xi64> {
  %e = tensor.extract %n[] : tensor<i64>
  %k = arith.index_cast %e : i64 to index
  %empty = tensor.empty(%k) : tensor<?xi64>
  %r = linalg.generic {indexing_maps = [#all], iterator_types = ["parallel"]} outs(%empty : tensor<?xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %s = arith.index_cast %i : index to i64
    linalg.yield %s : i64
  } -> tensor<?xi64>
  return %r : tensor<?xi64>
}
"""

PART = """
func.func @part(%x: tensor<?xf32>, %at: tensor<i64>) -> tensor<3xf32> {
  %e = tensor.extract %at[] : tensor<i64>
  %i = arith.index_cast %e : i64 to index
  %r = tensor.extract_slice %x[%i] [3] [1] : tensor<?xf32> to tensor<3xf32>
  return %r : tensor<3xf32>
}
"""

CUMULATE = """
func.func @sums(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %empty = tensor.empty(%n) : tensor<?xf32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %empty, %s = %zero) -> (tensor<?xf32>, f32) {
    %e = tensor.extract %x[%i] : tensor<?xf32>
    %t = arith.addf %s, %e : f32
    %b = tensor.insert %t into %a[%i] : tensor<?xf32>
    scf.yield %b, %t : tensor<?xf32>, f32
  }
  return %r#0 : tensor<?xf32>
}
"""


STEPS = """
#all = affine_map<(i, j) -> (i, j)>
func.func @steps(%x: tensor<5x?x4xf32>, %h: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %n = tensor.dim %x, %c1 : tensor<5x?x4xf32>
  %r = scf.for %i = %c0 to %c5 step %c1 iter_args(%s = %h) -> (tensor<?x4xf32>) {
    %t = tensor.extract_slice %x[%i, 0, 0] [1, %n, 4] [1, 1, 1] : tensor<5x?x4xf32> to tensor<?x4xf32>
    %u = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
        ins(%t : tensor<?x4xf32>) outs(%s : tensor<?x4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
    } -> tensor<?x4xf32>
    scf.yield %u : tensor<?x4xf32>
  }
  return %r : tensor<?x4xf32>
}
"""


BRANCHES = """
func.func @branches(%x: tensor<?xf32>, %y: tensor<?xf32>, %z: tensor<?xf32>, %where: tensor<i1>) -> tensor<?xf32> {
  %t = tensor.extract %where[] : tensor<i1>
  %r = scf.if %t -> tensor<?xf32> {
    %s = linalg.add ins(%x, %y : tensor<?xf32>, tensor<?xf32>) outs(%x : tensor<?xf32>) -> tensor<?xf32>
    scf.yield %s : tensor<?xf32>
  } else {
    scf.yield %x : tensor<?xf32>
  }
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce ins(%r : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
    (%a: f32, %b: f32) { %c = arith.addf %a, %b : f32
                         linalg.yield %c : f32 }
  %number = tensor.extract %sum[] : tensor<f32>
  %none = arith.constant 0.0 : f32
  %u = arith.cmpf ogt, %number, %none : f32
  %q = scf.if %u -> tensor<?xf32> {
    scf.yield %r : tensor<?xf32>
  } else {
    %s = linalg.sub ins(%r, %z : tensor<?xf32>, tensor<?xf32>) outs(%r : tensor<?xf32>) -> tensor<?xf32>
    scf.yield %s : tensor<?xf32>
  }
  return %q : tensor<?xf32>
}
"""


@functools.cache
def kernel(text: str, pipeline: str):
    return mt.from_mlir(text).compile(pipeline=pipeline)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def check(results, expected):
    np.testing.assert_allclose(results, expected, rtol=1e-5, atol=1e-5)
    assert results.shape == expected.shape


WHILE = """
func.func @repeated(%x: tensor<?xf32>, %y: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %r:2 = scf.while (%i = %zero, %a = %x) : (index, tensor<?xf32>) -> (index, tensor<?xf32>) {
    %c = arith.cmpi slt, %i, %n : index
    scf.condition(%c) %i, %a : index, tensor<?xf32>
  } do {
  ^bb0(%i: index, %a: tensor<?xf32>):
    %s = linalg.add ins(%a, %y : tensor<?xf32>, tensor<?xf32>) outs(%a : tensor<?xf32>) -> tensor<?xf32>
    %j = arith.addi %i, %one : index
    scf.yield %j, %s : index, tensor<?xf32>
  }
  return %r#1 : tensor<?xf32>
}
"""
