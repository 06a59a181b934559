"""Loops, branches and updates through one imperative TIR function: numbers against NumPy, text that parses back."""

from __future__ import annotations

import loop_carried_programs as carried
import numpy as np
import pytest
import torch
from imperative_primfuncs import compiled, relax_module, run
from imperative_stages import lower_to

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.bindings.mlir import ir, public_functions
from mlirtri.lowering.mlir_common.imperative import updates_of
from mlirtri.lowering.mlir_common.reading import dtype_of, shape_of
from mlirtri.lowering.toolchain import tvm_text
from mlirtri.lowering.toolchain.tvm_names import structural_equal

PRELUDE = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f64
  %one = arith.constant 1.0 : f64
"""

LU = (
    """
func.func @k(%a: tensor<8x8xf64> {mlirtri.updated_by = 0 : i64} loc("a"), %size: tensor<i64> loc("size"))
    -> (tensor<8x8xf64>, tensor<f64>) {"""
    + PRELUDE
    + """
  %s64 = tensor.extract %size[] : tensor<i64>
  %n = arith.index_cast %s64 : i64 to index
  %r:2 = scf.for %k = %c0 to %n step %c1 iter_args(%x = %a, %trace = %zero) -> (tensor<8x8xf64>, f64) {
    %k1 = arith.addi %k, %c1 : index
    %d = tensor.extract %x[%k, %k] : tensor<8x8xf64>
    %more = arith.addf %trace, %d : f64
    %y = scf.for %i = %k1 to %n step %c1 iter_args(%b = %x) -> tensor<8x8xf64> {
      %u = tensor.extract %b[%i, %k] : tensor<8x8xf64>
      %p = tensor.extract %b[%k, %k] : tensor<8x8xf64>
      %q = arith.divf %u, %p : f64
      %c = tensor.insert %q into %b[%i, %k] : tensor<8x8xf64>
      %z = scf.for %j = %k1 to %n step %c1 iter_args(%e = %c) -> tensor<8x8xf64> {
        %v = tensor.extract %e[%i, %j] : tensor<8x8xf64>
        %w = tensor.extract %e[%k, %j] : tensor<8x8xf64>
        %m = arith.mulf %q, %w : f64
        %t = arith.subf %v, %m : f64
        %f = tensor.insert %t into %e[%i, %j] : tensor<8x8xf64>
        scf.yield %f : tensor<8x8xf64>
      }
      scf.yield %z : tensor<8x8xf64>
    }
    scf.yield %y, %more : tensor<8x8xf64>, f64
  }
  %total = tensor.from_elements %r#1 : tensor<f64>
  return %r#0, %total : tensor<8x8xf64>, tensor<f64>
}"""
)


def lu(a):
    a, trace = a.copy(), 0.0
    for k in range(len(a)):
        trace += a[k, k]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, trace


@pytest.mark.parametrize("schedule", ["none", "default"])
def test_loops_update_an_argument_in_place_and_carry_a_number(schedule):
    a = np.random.default_rng(0).normal(size=(8, 8)) + 8 * np.eye(8)
    updated, trace = run(LU, a, np.int64(8), results=[0, ((), "float64")], schedule=schedule)
    expected, sum_of_pivots = lu(a)
    np.testing.assert_allclose(updated, expected, rtol=1e-13)
    np.testing.assert_allclose(trace, sum_of_pivots, rtol=1e-13)


def test_a_loop_of_no_iterations_updates_nothing():
    a = np.random.default_rng(0).normal(size=(8, 8))
    updated, trace = run(LU, a, np.int64(0), results=[0, ((), "float64")])
    assert np.array_equal(updated, a)
    assert trace == 0


def test_the_relax_text_says_what_is_updated_and_parses_back():
    module = relax_module(LU)
    text = tvm_text.print_complete(module)
    assert "R.call_tir_inplace(cls.k_loops, (a, size)" in text
    assert "inplace_indices=[0, -1]" in text
    again = tvm_text.parse(text, "relax.py")
    assert structural_equal(module, again)
    assert tvm_text.print_complete(again) == text
    assert tvm_text.print_complete(relax_module(LU)) == text


def test_a_program_for_cuda_is_the_same_primfunc():
    assert structural_equal(relax_module(LU, "cuda"), relax_module(LU))


# Programs of the `mlir` pipeline's tests: both pipelines do the same


def arguments_of(text):
    """Random arrays for arguments and results, of which those that are updated are the arguments themselves."""
    with ir.Context():
        module = ir.Module.parse(text)
        [function] = public_functions(module)
        kinds = [
            [(shape_of(kind), dtype_of(kind)) for kind in group]
            for group in (function.type.inputs, function.type.results)
        ]
        updates = {result: argument for argument, result in updates_of(function).items()}
    random = np.random.default_rng(3)
    inputs, results = ([torch.from_numpy(some(random, *kind)) for kind in group] for group in kinds)
    return inputs, [inputs[updates[at]] if at in updates else each for at, each in enumerate(results)]


def some(random, shape, dtype):
    if as_dtype(dtype).is_integer:
        return np.asarray(random.integers(0, 8, shape) if shape else 3, dtype)
    return np.asarray(random.normal(size=shape) + np.eye(8) * 8 if shape == (8, 8) else random.normal(size=shape))


@pytest.mark.parametrize("schedule", ["none", "default"])
@pytest.mark.parametrize(
    "name",
    ["LU", "SEIDEL", "JACOBI", "FLOYD_WARSHALL", "OVERLAP", "WHILE", "BRANCHES", "TRIANGLE", "GATHER", "SWAP", "OLD"],
)
def test_both_pipelines_do_the_same(name, schedule):
    text = carried.program(name)
    inputs, results = arguments_of(text)
    lower_to(text).executable.launch(inputs, results)
    wanted = [result.clone() for result in results]
    inputs, results = arguments_of(text)
    compiled(text, schedule).launch(inputs, results)
    for found, expected in zip(results, wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
