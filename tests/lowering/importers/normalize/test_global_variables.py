"""Globals of imported modules: constants, and states that one call hands on to the next."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import UnsupportedOperationError

PIPELINES = ("linalg", "relax", "mlir")
X = np.arange(4, dtype=np.float32)

SEED = """ml_program.global private mutable @seed(dense<5> : tensor<i64>) : tensor<i64>
ml_program.global private @step(dense<3> : tensor<i64>) : tensor<i64>
func.func @next() -> i64 {
  %s = ml_program.global_load @seed : tensor<i64>
  %c = ml_program.global_load_const @step : tensor<i64>
  %t = arith.addi %s, %c : tensor<i64>
  ml_program.global_store @seed = %t : tensor<i64>
  %u = ml_program.global_load @seed : tensor<i64>
  %v = tensor.extract %u[] : tensor<i64>
  return %v : i64
}
func.func @peek() -> tensor<i64> {
  %s = ml_program.global_load @seed : tensor<i64>
  return %s : tensor<i64>
}"""


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_mutable_global_is_a_state_of_the_program(pipeline):
    program = mt.from_mlir(SEED)
    kernel = program.compile("next", pipeline=pipeline)
    assert [kernel(), kernel()] == [8, 11]
    assert program.compile("peek")() == 11
    assert program.compile("next", pipeline="mlir")() == 14
    assert mt.from_mlir(SEED).compile("next", pipeline=pipeline)() == 8
    program.params["seed"] = np.array(100)
    assert program.compile("next", pipeline=pipeline)() == 103


CACHE = """ml_program.global private mutable @cache(dense<0.0> : tensor<100x4xf32>) : tensor<100x4xf32>
ml_program.global private mutable @length(dense<0> : tensor<i64>) : tensor<i64>
func.func @push(%x: tensor<4xf32>) -> (tensor<4xf32>, i64) {
  %cache = ml_program.global_load @cache : tensor<100x4xf32>
  %before = ml_program.global_load @length : tensor<i64>
  %number = tensor.extract %before[] : tensor<i64>
  %at = arith.index_cast %number : i64 to index
  %longer = tensor.insert_slice %x into %cache[%at, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<100x4xf32>
  ml_program.global_store @cache = %longer : tensor<100x4xf32>
  %one = arith.constant 1 : i64
  %next = arith.addi %number, %one : i64
  %after = tensor.from_elements %next : tensor<i64>
  ml_program.global_store @length = %after : tensor<i64>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.index_cast %next : i64 to index
  %sum = scf.for %k = %c0 to %end step %c1 iter_args(%a = %start) -> tensor<4xf32> {
    %row = tensor.extract_slice %longer[%k, 0] [1, 4] [1, 1] : tensor<100x4xf32> to tensor<4xf32>
    %b = arith.addf %a, %row : tensor<4xf32>
    scf.yield %b : tensor<4xf32>
  }
  return %sum, %next : tensor<4xf32>, i64
}"""


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_states_may_be_large_and_several(pipeline):
    program = mt.from_mlir(CACHE)
    kernel = program.compile(pipeline=pipeline)
    total = np.zeros(4, np.float32)
    for number in range(1, 4):
        total = total + X * number
        found, count = kernel(X * number)
        np.testing.assert_array_equal(found, total)
        assert count == number
    np.testing.assert_array_equal(program.params["cache"].sum(0), total)
    program.params["length"] = np.array(0)
    np.testing.assert_array_equal(program.compile(pipeline=pipeline)(X)[0], X)


def test_concurrent_calls_update_the_state_one_by_one():
    kernel = mt.from_mlir(SEED).compile("next")
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: kernel(), range(200)))
    assert sorted(numbers) == [5 + 3 * (each + 1) for each in range(200)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            """ml_program.global private mutable @g : tensor<i64>
func.func @f() -> tensor<i64> {
  %s = ml_program.global_load @g : tensor<i64>
  return %s : tensor<i64>
}""",
            "the global 'g' has no value in this module",
        ),
        (
            """ml_program.global private mutable @g(dense<5> : tensor<i64>) : tensor<i64>
func.func @f(%p: i1, %x: tensor<i64>) {
  scf.if %p {
    ml_program.global_store @g = %x : tensor<i64>
  }
  return
}""",
            "the global 'g' is written in a branch or loop",
        ),
    ],
)
def test_globals_that_are_no_states_are_refused(text, message):
    with pytest.raises(UnsupportedOperationError, match=message) as caught:
        mt.from_mlir(text).compile()
    assert caught.value.span is not None


def test_a_large_global_is_a_parameter():
    words = list(range(100))
    text = f"""ml_program.global private @g(dense<{words}> : tensor<100xi64>) : tensor<100xi64>
func.func @f() -> tensor<100xi64> {{
  %s = ml_program.global_load_const @g : tensor<100xi64>
  return %s : tensor<100xi64>
}}"""
    program = mt.from_mlir(text)
    assert len(program.params) == 1
    np.testing.assert_array_equal(program(), words)
