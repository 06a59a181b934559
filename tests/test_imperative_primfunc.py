"""Loops, branches and updates through one imperative TIR function: numbers against NumPy, text that parses back."""

from __future__ import annotations

import re

import imperative_programs as programs
import ml_dtypes
import numpy as np
import pytest
import torch
from test_imperative_bufferized import walk

from mlirtri.dialect.dtypes import as_dtype
from mlirtri.dialect.mlir import ir, public_functions
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering import fused_to_relax, relax_to_tir, scheduled_to_llvm, tir_to_scheduled, tvm_text
from mlirtri.lowering.imperative import updates_of
from mlirtri.lowering.loops_to_primfunc import build_imperative
from mlirtri.lowering.mlir_reading import dtype_of, shape_of
from mlirtri.lowering.stage import CompileContext
from mlirtri.lowering.target import as_target
from mlirtri.lowering.tvm_names import IRModule, structural_equal
from mlirtri.lowering.tvm_targets import tvm_target

ROOMS = (("tir", relax_to_tir), ("scheduled", tir_to_scheduled), ("llvm", scheduled_to_llvm))


def relax_module(text, target="cpu"):
    with ir.Context():
        return fused_to_relax.lower(ir.Module.parse(text), CompileContext("k", as_target(target)))


def compiled(text, schedule="none"):
    """The executable of MLIR text."""
    made = relax_module(text)
    context = CompileContext("k", as_target("cpu"), schedule=schedule)
    for context.stage, room in ROOMS:
        made = room.lower(made, context)
    return made.executable


def run(text, *arrays, results=(), schedule="none"):
    """Call function ``k``; `results` has the shape and dtype of each, or the number of the argument it updates.

    Gives the results as arrays: copies, so that the arguments of the caller stay as they are.
    """
    executable = compiled(text, schedule)
    inputs = [torch.from_numpy(np.array(array)) for array in arrays]
    fresh = (None if isinstance(each, int) else np.full(each[0], 77, each[1]) for each in results)
    outputs = [inputs[at] if new is None else torch.from_numpy(new) for at, new in zip(results, fresh, strict=True)]
    assert executable.updates_in_place == any(isinstance(each, int) for each in results)
    executable.launch(inputs, outputs)
    return [output.numpy() for output in outputs]


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


def test_cuda_is_refused_on_the_line_of_the_loop():
    with pytest.raises(UnsupportedOperationError, match=r"not of a loop") as caught:
        relax_module(LU, "cuda")
    assert caught.value.span.line == LU.split("scf.for")[0].count("\n") + 1


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
    text = getattr(programs, name)
    inputs, results = arguments_of(text)
    walk(text).executable.launch(inputs, results)
    wanted = [result.clone() for result in results]
    inputs, results = arguments_of(text)
    compiled(text, schedule).launch(inputs, results)
    for found, expected in zip(results, wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


# The loops form, statement by statement


def call(text, *arrays, inputs=None):
    """Call the function over memrefs; its text as TIR parses back to what was printed."""
    with ir.Context():
        module = ir.Module.parse(text)
        [function] = public_functions(module)
        built = build_imperative(function.operation, len(arrays) if inputs is None else inputs)
    module = IRModule({"k": built.function.with_attr("global_symbol", "k")})
    printed = tvm_text.print_complete(module)
    again = tvm_text.parse(printed, "tir.py")
    assert structural_equal(module, again)
    assert tvm_text.print_complete(again) == printed
    library = scheduled_to_llvm.build([("k", built.function)], tvm_target(as_target("cpu")))
    library["k"](*(array if isinstance(array, torch.Tensor) else torch.from_numpy(array) for array in arrays))
    return printed


INDICES = "\n".join(f"%c{n} = arith.constant {n} : index" for n in range(7))


def test_a_while_whose_condition_is_an_expression_stays_one():
    text = f"""
    func.func @k(%x: memref<5xi64>, %o: memref<i64>) {{
      {INDICES}
      %one = arith.constant 1 : i64
      %zero = arith.constant 0 : i64
      %limit = memref.load %x[%c0] : memref<5xi64>
      %r:2 = scf.while (%i = %zero, %s = %one) : (i64, i64) -> (i64, i64) {{
        %c = arith.cmpi slt, %i, %limit : i64
        scf.condition(%c) %i, %s : i64, i64
      }} do {{
      ^bb0(%i: i64, %s: i64):
        %next = arith.addi %i, %one : i64
        %double = arith.addi %s, %s : i64
        scf.yield %next, %double : i64, i64
      }}
      memref.store %r#1, %o[] : memref<i64>
      return
    }}"""
    result = np.array(0)
    printed = call(text, np.array([10, 0, 0, 0, 0]), result)
    assert result == 1024
    assert re.search(r"while carried\[.*\] < ", printed)
    call(text, np.array([-3, 0, 0, 0, 0]), result)
    assert result == 1


def test_a_while_that_hands_on_other_values_than_it_carries():
    """The length of a Collatz sequence; the next number is computed before the condition decides."""
    text = f"""
    func.func @k(%n: memref<i64>, %last: memref<i64>, %length: memref<i64>) {{
      {INDICES}
      %zero = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      %two = arith.constant 2 : i64
      %three = arith.constant 3 : i64
      %first = memref.load %n[] : memref<i64>
      %r:2 = scf.while (%v = %first, %steps = %zero) : (i64, i64) -> (i64, i64) {{
        %goes = arith.cmpi ne, %v, %one : i64
        %odd = arith.remsi %v, %two : i64
        %is_even = arith.cmpi eq, %odd, %zero : i64
        %next = scf.if %is_even -> i64 {{
          %half = arith.divsi %v, %two : i64
          scf.yield %half : i64
        }} else {{
          %triple = arith.muli %v, %three : i64
          %more = arith.addi %triple, %one : i64
          scf.yield %more : i64
        }}
        scf.condition(%goes) %next, %steps : i64, i64
      }} do {{
      ^bb0(%next: i64, %steps: i64):
        %more = arith.addi %steps, %one : i64
        scf.yield %next, %more : i64, i64
      }}
      memref.store %r#0, %last[] : memref<i64>
      memref.store %r#1, %length[] : memref<i64>
      return
    }}"""
    last, length = np.array(0), np.array(0)
    call(text, np.array(27), last, length)
    assert (last, length) == (4, 111)


def arithmetic(kind):
    """Carried numbers that change places, a buffer of run-time size, and a branch, on elements of an MLIR type."""
    add, times, less = (
        ("arith.addf", "arith.mulf", "arith.cmpf olt,")
        if kind.startswith(("f", "bf"))
        else ("arith.addi", "arith.muli", "arith.cmpi slt,")
    )
    return f"""
    func.func @k(%x: memref<5x{kind}>, %y: memref<5x{kind}>, %count: memref<i64>) {{
      {INDICES}
      %n64 = memref.load %count[] : memref<i64>
      %n = arith.index_cast %n64 : i64 to index
      %n2 = arith.addi %n, %n : index
      %t = memref.alloc(%n2) : memref<?x{kind}>
      %first = memref.load %x[%c0] : memref<5x{kind}>
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %first, %q = %first) -> ({kind}, {kind}) {{
        %v = memref.load %x[%i] : memref<5x{kind}>
        %s = {add} %q, %v : {kind}
        %m = {times} %s, %v : {kind}
        memref.store %s, %t[%i] : memref<?x{kind}>
        %j = arith.addi %i, %n : index
        memref.store %m, %t[%j] : memref<?x{kind}>
        scf.yield %s, %p : {kind}, {kind}
      }}
      scf.for %i = %c0 to %n step %c1 {{
        %j = arith.addi %i, %n : index
        %a = memref.load %t[%i] : memref<?x{kind}>
        %b = memref.load %t[%j] : memref<?x{kind}>
        %c = {less} %a, %b : {kind}
        %z = scf.if %c -> {kind} {{
          %u = {times} %a, %r#0 : {kind}
          scf.yield %u : {kind}
        }} else {{
          %u = {add} %b, %r#1 : {kind}
          scf.yield %u : {kind}
        }}
        memref.store %z, %y[%i] : memref<5x{kind}>
      }}
      memref.dealloc %t : memref<?x{kind}>
      return
    }}"""


def same_arithmetic(x, y, n):
    p = q = x[0]
    sums, products = [], []
    for i in range(n):
        sums.append(q + x[i])
        products.append(sums[-1] * x[i])
        p, q = sums[-1], p
    for i in range(n):
        y[i] = sums[i] * p if sums[i] < products[i] else products[i] + q


@pytest.mark.parametrize("kind", ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8"])
def test_elements_of_every_type(kind):
    dtype = ml_dtypes.bfloat16 if kind == "bf16" else np.dtype({"f": "float", "i": "int"}[kind[0]] + kind[1:])
    x = (np.random.default_rng(0).normal(size=5) * 100).astype(dtype)
    for n in (0, 1, 5):
        found, wanted = np.ones(5, dtype), np.ones(5, dtype)
        arrays = [x, found]
        if kind == "bf16":
            arrays = [torch.from_numpy(each.view(np.int16)).view(torch.bfloat16) for each in arrays]
        call(arithmetic(kind), *arrays, np.array(n))
        with np.errstate(all="ignore"):
            same_arithmetic(x, wanted, n)
        np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))


def test_complex_numbers_are_pairs_and_constant_arrays_are_parameters():
    text = f"""
    memref.global "private" constant @weights : memref<3xf64> = dense<[1.5, 2.5, 4.0]>
    func.func @k(%z: memref<3x2xcomplex<f64>>, %o: memref<3xcomplex<f64>>) {{
      {INDICES}
      %w = memref.get_global @weights : memref<3xf64>
      %start = complex.constant [1.0, 0.5] : complex<f64>
      scf.parallel (%i) = (%c0) to (%c3) step (%c1) {{
        %weight = memref.load %w[%i] : memref<3xf64>
        %r = scf.for %j = %c0 to %c2 step %c1 iter_args(%p = %start) -> (complex<f64>) {{
          %v = memref.load %z[%i, %j] : memref<3x2xcomplex<f64>>
          %a = complex.re %p : complex<f64>
          %b = complex.im %p : complex<f64>
          %c = complex.re %v : complex<f64>
          %d = complex.im %v : complex<f64>
          %ac = arith.mulf %a, %c : f64
          %bd = arith.mulf %b, %d : f64
          %re = arith.subf %ac, %bd : f64
          %ad = arith.mulf %a, %d : f64
          %bc = arith.mulf %b, %c : f64
          %im = arith.addf %ad, %bc : f64
          %scaled = arith.mulf %re, %weight : f64
          %q = complex.create %scaled, %im : complex<f64>
          scf.yield %q : complex<f64>
        }}
        memref.store %r, %o[%i] : memref<3xcomplex<f64>>
        scf.reduce
      }}
      return
    }}"""
    random = np.random.default_rng(1)
    z, result, weights = (
        random.normal(size=(3, 2)) + 1j * random.normal(size=(3, 2)),
        np.zeros(3, complex),
        [1.5, 2.5, 4],
    )
    parts = [torch.view_as_real(torch.from_numpy(each)) for each in (z, result)]
    printed = call(text, parts[0], np.array(weights), parts[1], inputs=1)
    assert '"mlirtri.parallel": 1' in printed
    wanted = np.full(3, 1 + 0.5j)
    for j in range(2):
        # Two roundings per part, as NumPy's.
        real = wanted.real * z[:, j].real - wanted.imag * z[:, j].imag
        wanted = real * weights + 1j * (wanted.real * z[:, j].imag + wanted.imag * z[:, j].real)
    np.testing.assert_array_equal(result, wanted)


def test_views_of_memory_and_parallel_reductions():
    text = f"""
    func.func @k(%y: memref<4x6xf64>, %o: memref<f64>) {{
      {INDICES}
      %zero = arith.constant 0.0 : f64
      %s = scf.parallel (%i, %j) = (%c0, %c1) to (%c4, %c6) step (%c1, %c2) init (%zero) -> f64 {{
        %v = memref.load %y[%i, %j] : memref<4x6xf64>
        scf.reduce(%v : f64) {{
        ^bb0(%a: f64, %b: f64):
          %r = arith.addf %a, %b : f64
          scf.reduce.return %r : f64
        }}
      }}
      memref.store %s, %o[] : memref<f64>
      %flat = memref.collapse_shape %y [[0, 1]] : memref<4x6xf64> into memref<24xf64>
      %cube = memref.expand_shape %flat [[0, 1, 2]] output_shape [2, 4, 3] : memref<24xf64> into memref<2x4x3xf64>
      %part = memref.subview %y[1, 2] [1, 2] [1, 3] : memref<4x6xf64> to memref<2xf64, strided<[3], offset: 8>>
      memref.store %s, %flat[%c6] : memref<24xf64>
      memref.store %s, %cube[%c1, %c3, %c2] : memref<2x4x3xf64>
      memref.store %s, %part[%c1] : memref<2xf64, strided<[3], offset: 8>>
      return
    }}"""
    y, total = np.random.default_rng(2).normal(size=(4, 6)), np.zeros(())
    wanted = y.copy()
    call(text, y, total)
    np.testing.assert_allclose(total, wanted[:, 1::2].sum(), rtol=1e-14)
    wanted.reshape(-1)[6] = wanted.reshape(2, 4, 3)[1, 3, 2] = wanted[1, 2::3][1] = total
    np.testing.assert_array_equal(y, wanted)


def test_reads_stay_before_the_writes_that_follow_them():
    """Two elements change places, and a sum reads both old ones; a loop stands between a read and its use."""
    text = f"""
    func.func @k(%x: memref<4xf64>, %o: memref<2xf64>) {{
      {INDICES}
      %a = memref.load %x[%c0] : memref<4xf64>
      %b = memref.load %x[%c1] : memref<4xf64>
      %kept = memref.load %x[%c3] : memref<4xf64>
      %sum = arith.addf %a, %b : f64
      memref.store %b, %x[%c0] : memref<4xf64>
      memref.store %a, %x[%c1] : memref<4xf64>
      scf.for %i = %c2 to %c4 step %c1 {{
        memref.store %sum, %x[%i] : memref<4xf64>
      }}
      memref.store %sum, %o[%c0] : memref<2xf64>
      memref.store %kept, %o[%c1] : memref<2xf64>
      return
    }}"""
    x, o = np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(2)
    call(text, x, o)
    np.testing.assert_array_equal(x, [2, 1, 3, 3])
    np.testing.assert_array_equal(o, [3, 4])


def test_bounds_that_depend_on_the_loops_around():
    text = f"""
    func.func @k(%x: memref<5x5xi64>) {{
      {INDICES}
      %one = arith.constant 1 : i64
      scf.for %i = %c0 to %c5 step %c1 {{
        %next = arith.addi %i, %c1 : index
        scf.for %j = %next to %c5 step %c1 {{
          %after = arith.addi %j, %c1 : index
          scf.for %k = %after to %c5 step %c2 {{
            %old = memref.load %x[%i, %k] : memref<5x5xi64>
            %new = arith.addi %old, %one : i64
            memref.store %new, %x[%i, %k] : memref<5x5xi64>
          }}
        }}
      }}
      return
    }}"""
    x, wanted = np.zeros((5, 5), np.int64), np.zeros((5, 5), np.int64)
    call(text, x)
    for i in range(5):
        for j in range(i + 1, 5):
            wanted[i, j + 1 :: 2] += 1
    np.testing.assert_array_equal(x, wanted)


def test_arithmetic_of_scalars_is_protected_from_simplification():
    """x - x of NaN, (x + y) - x with rounding, 0 * inf, x == x of NaN; sums that wrap and quotients that would trap."""
    text = f"""
    func.func @k(%x: memref<3xf64>, %o: memref<4xf64>, %n: memref<2xi64>, %p: memref<3xi64>) {{
      {INDICES}
      %zero = arith.constant 0.0 : f64
      %nan = memref.load %x[%c0] : memref<3xf64>
      %large = memref.load %x[%c1] : memref<3xf64>
      %small = memref.load %x[%c2] : memref<3xf64>
      %d = arith.subf %nan, %nan : f64
      memref.store %d, %o[%c0] : memref<4xf64>
      %sum = arith.addf %large, %small : f64
      %rest = arith.subf %sum, %large : f64
      memref.store %rest, %o[%c1] : memref<4xf64>
      %product = arith.mulf %nan, %zero : f64
      memref.store %product, %o[%c2] : memref<4xf64>
      %same = arith.cmpf oeq, %nan, %nan : f64
      %is = arith.uitofp %same : i1 to f64
      memref.store %is, %o[%c3] : memref<4xf64>
      %a = memref.load %n[%c0] : memref<2xi64>
      %b = memref.load %n[%c1] : memref<2xi64>
      %wrapped = arith.addi %a, %a : i64
      memref.store %wrapped, %p[%c0] : memref<3xi64>
      %grows = arith.cmpi sgt, %wrapped, %a : i64
      %number = arith.extui %grows : i1 to i64
      memref.store %number, %p[%c1] : memref<3xi64>
      %quotient = arith.divsi %a, %b : i64
      memref.store %quotient, %p[%c2] : memref<3xi64>
      return
    }}"""
    o, p = np.zeros(4), np.zeros(3, np.int64)
    call(text, np.array([np.nan, 1e17, 1.0]), o, np.array([2**62, 0]), p)
    np.testing.assert_array_equal(o, [np.nan, (1e17 + 1) - 1e17, np.nan, 0])
    np.testing.assert_array_equal(p, [-(2**63), 0, 2**62])


def test_products_are_rounded_before_they_are_added():
    text = f"""
    func.func @k(%x: memref<3xf64>, %o: memref<2xf64>) {{
      {INDICES}
      %a = memref.load %x[%c0] : memref<3xf64>
      %b = memref.load %x[%c1] : memref<3xf64>
      %c = memref.load %x[%c2] : memref<3xf64>
      %product = arith.mulf %a, %b : f64
      %sum = arith.addf %product, %c : f64
      memref.store %sum, %o[%c0] : memref<2xf64>
      memref.store %sum, %o[%c1] : memref<2xf64>
      return
    }}"""
    x, o = np.array([1 + 2.0**-30, 1 + 2.0**-30, -1 - 2.0**-29]), np.ones(2)
    call(text, x, o)
    np.testing.assert_array_equal(o, np.full(2, x[0] * x[1] + x[2]))


def test_arrays_of_no_elements():
    text = """
    func.func @k(%a: tensor<0x3xf64> {mlirtri.updated_by = 0 : i64}, %b: tensor<2xf64>)
        -> (tensor<0x3xf64>, tensor<2xf64>, tensor<0xf64>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %x = tensor.extract %b[%c0] : tensor<2xf64>
      %r = scf.for %i = %c0 to %c0 step %c1 iter_args(%t = %a) -> tensor<0x3xf64> {
        %u = tensor.insert %x into %t[%i, %c0] : tensor<0x3xf64>
        scf.yield %u : tensor<0x3xf64>
      }
      %s = tensor.insert %x into %b[%c1] : tensor<2xf64>
      %e = tensor.empty() : tensor<0xf64>
      return %r, %s, %e : tensor<0x3xf64>, tensor<2xf64>, tensor<0xf64>
    }"""
    _, swapped, _ = run(text, np.zeros((0, 3)), np.array([1.0, 2.0]), results=[0, ((2,), "float64"), ((0,), "float64")])
    np.testing.assert_array_equal(swapped, [1, 1])


def test_everything_without_a_rule_is_refused_at_once():
    text = """
    func.func @k(%x: memref<2xf32>) {
      %c0 = arith.constant 0 : index
      %z = arith.constant 0.0 : f32
      %v = vector.broadcast %z : f32 to vector<2xf32>
      memref.prefetch %x[%c0], read, locality<3>, data : memref<2xf32>
      return
    }"""
    with pytest.raises(UnsupportedOperationError, match=r"vector.broadcast, memref.prefetch") as caught:
        call(text, np.zeros(2, np.float32))
    assert caught.value.span.line == 5


def test_places_in_memory_are_plain_arithmetic_and_numbers_wrap():
    """What is known to lie between bounds needs no wider arithmetic, no check of its sign and no guard of a divisor."""
    text = f"""
    func.func @k(%x: memref<30xi64>, %y: memref<5x6xi64>) {{
      {INDICES}
      %c30 = arith.constant 30 : index
      %zero = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      %size = arith.constant 30 : i64
      scf.for %i = %c0 to %c30 step %c1 {{
        %row = arith.divsi %i, %c6 : index
        %column = arith.remsi %i, %c6 : index
        %is_negative = arith.cmpi slt, %column, %c0 : index
        %wrapped = arith.addi %column, %c6 : index
        %inside = arith.select %is_negative, %wrapped, %column : index
        %number = arith.index_cast %i : index to i64
        %back = arith.subi %size, %number : i64
        %previous = arith.subi %back, %one : i64
        %place = arith.index_cast %previous : i64 to index
        %value = memref.load %x[%place] : memref<30xi64>
        %sum = arith.addi %value, %number : i64
        memref.store %sum, %y[%row, %inside] : memref<5x6xi64>
      }}
      return
    }}"""
    x, y = np.arange(30) * 7, np.zeros((5, 6), np.int64)
    x[3] = 2**63 - 1
    printed = call(text, x, y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, (x[::-1] + np.arange(30)).reshape(5, 6))
    assert "Select" not in printed
    assert re.search(
        r"\[i // T.int64\(6\), i % T.int64\(6\)\] = T.Cast\(\"int64\", T.Cast\(\"int128\", \w+\[T.int64\(29\) - i\]",
        printed,
    )


def test_carried_numbers_that_read_each_other():
    text = f"""
    func.func @k(%n: memref<i64>, %o: memref<4xf64>) {{
      {INDICES}
      %ten = arith.constant 10.0 : f64
      %one = arith.constant 1.0 : f64
      %two = arith.constant 2.0 : f64
      %three = arith.constant 3.0 : f64
      %n64 = memref.load %n[] : memref<i64>
      %stop = arith.index_cast %n64 : i64 to index
      %r:4 = scf.for %i = %c0 to %stop step %c1
          iter_args(%a = %one, %b = %two, %c = %three, %d = %ten) -> (f64, f64, f64, f64) {{
        %x = arith.addf %b, %c : f64
        %y = arith.mulf %a, %d : f64
        scf.yield %x, %y, %ten, %a : f64, f64, f64, f64
      }}
      memref.store %r#0, %o[%c0] : memref<4xf64>
      memref.store %r#1, %o[%c1] : memref<4xf64>
      memref.store %r#2, %o[%c2] : memref<4xf64>
      memref.store %r#3, %o[%c3] : memref<4xf64>
      return
    }}"""
    result = np.zeros(4)
    call(text, np.array(4), result)
    a, b, c, d = 1.0, 2.0, 3.0, 10.0
    for _ in range(4):
        a, b, c, d = b + c, a * d, 10.0, a
    np.testing.assert_array_equal(result, [a, b, c, d])


def test_memory_of_an_iteration_of_a_while_and_floats_of_counters():
    """TVM frees memory behind a `while` unless it is told, and fails on variables of floats of counters."""
    text = f"""
    func.func @k(%n: memref<i64>, %o: memref<f64>) {{
      {INDICES}
      %one = arith.constant 1 : i64
      %zero = arith.constant 0.0 : f64
      %first = memref.load %n[] : memref<i64>
      %r:2 = scf.while (%v = %first, %sum = %zero) : (i64, f64) -> (i64, f64) {{
        %goes = arith.cmpi sge, %v, %one : i64
        scf.condition(%goes) %v, %sum : i64, f64
      }} do {{
      ^bb0(%v: i64, %sum: f64):
        %size = arith.index_cast %v : i64 to index
        %t = memref.alloc(%size) : memref<?xf64>
        scf.for %i = %c0 to %size step %c1 {{
          %whole = arith.index_cast %i : index to i64
          %x = arith.sitofp %whole : i64 to f64
          %y = math.exp %x : f64
          %z = arith.mulf %y, %y : f64
          %last = arith.subi %size, %i : index
          %place = arith.subi %last, %c1 : index
          memref.store %z, %t[%place] : memref<?xf64>
        }}
        %u = memref.load %t[%c0] : memref<?xf64>
        %more = arith.addf %sum, %u : f64
        memref.dealloc %t : memref<?xf64>
        %less = arith.subi %v, %one : i64
        scf.yield %less, %more : i64, f64
      }}
      memref.store %r#1, %o[] : memref<f64>
      return
    }}"""
    result = np.array(0.0)
    call(text, np.array(4), result)
    np.testing.assert_allclose(result, sum(np.exp(2.0 * k) for k in range(4)), rtol=1e-14)


def test_cuda_is_refused_on_the_line_of_the_update():
    with pytest.raises(UnsupportedOperationError, match="in-place updates") as caught:
        relax_module(programs.OVERLAP, "cuda")
    assert caught.value.span is not None
