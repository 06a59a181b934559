"""The loops form, statement by statement: whiles, views of memory, the order of reads and writes, bounds."""

from __future__ import annotations

import re

import numpy as np
from imperative_primfuncs import INDICES, call


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


def test_a_while_that_yields_other_values_than_it_carries():
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
    """TVM frees memory after a `while` unless it is told, and fails on variables of floats of counters."""
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
