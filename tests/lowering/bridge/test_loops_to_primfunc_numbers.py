"""The loops form's arithmetic: elements of every type, nothing simplified that rounds, what is refused."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
import torch
from imperative_primfuncs import INDICES, call, run

from mlirtri.errors import UnsupportedOperationError


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
    assert '"mlirtri.independent": 1' in printed
    wanted = np.full(3, 1 + 0.5j)
    for j in range(2):
        # Two roundings per part, as NumPy's.
        real = wanted.real * z[:, j].real - wanted.imag * z[:, j].imag
        wanted = real * weights + 1j * (wanted.real * z[:, j].imag + wanted.imag * z[:, j].real)
    np.testing.assert_array_equal(result, wanted)


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


def test_addresses_are_plain_arithmetic_and_numbers_wrap():
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
