"""Operations that upstream leaves, or computes otherwise than StableHLO's specification says, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import UnsupportedOperationError

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


CALLS_AND_TUPLES = """
func.func @main(%x: tensor<2x5xf32>, %i: tensor<2xi32>) -> (tensor<2x5xf32>, tensor<2x3xf32>, tensor<2x3xi32>) {
  %0 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{replicated}"} : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %1 = stablehlo.tuple %i, %0 : tuple<tensor<2xi32>, tensor<2x5xf32>>
  %2 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<2xi32>, tensor<2x5xf32>>) -> tensor<2x5xf32>
  %3 = stablehlo.custom_call @mhlo.sinh(%2) {mhlo.attributes = {}, mhlo.version = 1 : i64}
    : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %4:2 = stablehlo.custom_call @mhlo.topk(%3) {mhlo.attributes = {k = 3 : i64, largest = true}}
    : (tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)
  return %3, %4#0, %4#1 : tensor<2x5xf32>, tensor<2x3xf32>, tensor<2x3xi32>
}"""


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_calls_that_jax_exports_and_tuples(pipeline):
    x = np.float32([[1, -2, 3, 0, 3], [-4, 5, 0.5, 0.25, -1]])
    wanted = np.sinh(x)
    order = np.argsort(-wanted, axis=1, kind="stable")[:, :3]
    whole, largest, positions = mt.from_stablehlo(CALLS_AND_TUPLES).compile(pipeline=pipeline)(x, np.int32([0, 1]))
    np.testing.assert_allclose(whole, wanted, rtol=1e-6)
    np.testing.assert_array_equal(largest, np.take_along_axis(whole, order, 1))
    np.testing.assert_array_equal(positions, order)


GROUPS_OF_UNSIGNED = """
func.func @main(%x: tensor<1x4x6xui8>, %w: tensor<2x1x6xui8>) -> tensor<1x3x6xui32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1]}
    {batch_group_count = 1 : i64, feature_group_count = 6 : i64}
    : (tensor<1x4x6xui8>, tensor<2x1x6xui8>) -> tensor<1x3x6xui32>
  return %0 : tensor<1x3x6xui32>
}"""


MAPPED = """
func.func @main(%x: tensor<4xui8>, %y: tensor<4xui8>) -> tensor<4xui8> {
  %0 = "stablehlo.map"(%x, %y) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<ui8>, %b: tensor<ui8>):
    %p = stablehlo.divide %a, %b : tensor<ui8>
    %q = stablehlo.add %p, %b : tensor<ui8>
    stablehlo.return %q : tensor<ui8>
  }) : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  return %0 : tensor<4xui8>
}"""


def test_maps():
    x, y = np.uint8([250, 200, 7, 0]), np.uint8([3, 255, 2, 1])
    np.testing.assert_array_equal(mt.from_stablehlo(MAPPED)(x, y), x // y + y)


def test_random_numbers_without_a_state_are_refused():
    text = """func.func @main(%a: tensor<f32>) -> tensor<2xf32> {
      %s = stablehlo.constant dense<2> : tensor<1xi64>
      %0 = stablehlo.rng %a, %a, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }"""
    with pytest.raises(UnsupportedOperationError, match=r"stablehlo\.rng.*\n(?s:.*)rng_bit_generator"):
        mt.from_stablehlo(text)(np.float32(0))


def test_convolutions_of_unsigned_integers_in_groups():
    x = np.arange(232, 256, dtype=np.uint8).reshape(1, 4, 6)
    w = np.arange(200, 212, dtype=np.uint8).reshape(2, 1, 6)
    wide, weights = x.astype(np.uint32), w.astype(np.uint32)
    wanted = wide[:, :3] * weights[0] + wide[:, 1:] * weights[1]
    np.testing.assert_array_equal(mt.from_stablehlo(GROUPS_OF_UNSIGNED)(x, w), wanted)
