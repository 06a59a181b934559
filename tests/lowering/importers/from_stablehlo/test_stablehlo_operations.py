"""Operations that upstream's lowering computes otherwise than StableHLO's specification says, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt

PIPELINES = ("linalg", "mlir")

SUMS_OF_BOOLEANS = """
func.func @main(%a: tensor<4x2xi1>, %b: tensor<4x2xi1>) -> (tensor<4x2xi1>, tensor<2xi1>, tensor<2x2xi1>) {
  %z = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.add %a, %b : tensor<4x2xi1>
  %1 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<4x2xi1>, tensor<i1>) -> tensor<2xi1>
  %2 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]
    : (tensor<4x2xi1>, tensor<4x2xi1>) -> tensor<2x2xi1>
  return %0, %1, %2 : tensor<4x2xi1>, tensor<2xi1>, tensor<2x2xi1>
}"""


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sums_of_booleans_are_true_where_one_is(pipeline):
    a = np.array([[1, 0], [1, 0], [0, 0], [0, 0]], bool)
    b = np.array([[1, 1], [1, 0], [0, 1], [0, 0]], bool)
    results = mt.from_stablehlo(SUMS_OF_BOOLEANS).compile(pipeline=pipeline)(a, b)
    for found, wanted in zip(results, (a | b, a.any(0), a.T @ b), strict=True):
        np.testing.assert_array_equal(found, wanted)
