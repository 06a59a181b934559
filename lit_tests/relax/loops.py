# A function with loops and updates is one imperative TIR function, which the Relax function calls in place.
# RUN: mlirtri emit "%s::*" --stage=relax | FileCheck %s

import numpy as np

import mlirtri as mt

Matrix = mt.Tensor[[40, 40], mt.float64]
Vector = mt.Tensor[[64], mt.float64]
COLUMNS = mt.dyn["M"]


@mt.jit
def elements(a: Matrix):
    for i in range(1, 40):
        for j in range(1, 40):
            a[i, j] -= a[i - 1, j] * a[i, j - 1]


# An element is read and written in place; loops start at 0 and know their lines.
# CHECK-LABEL: ===== elements: relax =====
# CHECK: def elements_loops(a: T.Buffer((T.int64(40), T.int64(40)), "float64"))
# CHECK: "mlirtri.imperative": True
# CHECK: T.writes(a[T.int64(0):T.int64(40), T.int64(0):T.int64(40)])
# CHECK: for [[I:i[_0-9]*]] in T.serial(T.int64(39), annotations={"mlirtri.loc": "{{.*}}loops.py:15:5"})
# CHECK: for [[J:[ij][_0-9]*]] in T.serial(T.int64(39), annotations={"mlirtri.loc": "{{.*}}loops.py:16:9"})
# CHECK-NEXT: a[{{.*}}] = a[{{.*}}] + a[{{.*}}] * a[{{.*}}] * T.float64(-1.0)
# CHECK-NOT: =
# CHECK: def elements(
# CHECK: R.call_tir_inplace(cls.elements_loops, (a,), {{.*}}inplace_indices=[0])


@mt.jit
def count(a: Vector):
    n = 0
    total = 0.0
    while n < 64 and a[n] > 0:
        total += a[n]
        n += 1
    return n, total


# What a loop carries is an element of memory, which LLVM makes a register.
# CHECK-LABEL: ===== count: relax =====
# CHECK: T.alloc_buffer((T.int64(1),), "int64")
# CHECK: T.alloc_buffer((T.int64(1),), "float64")
# CHECK: while
# CHECK: def count(
# CHECK: R.call_tir(cls.count_loops, (a,)


@mt.jit
def position(a: mt.Tensor[[4, COLUMNS], mt.float32]):
    return np.argmax(a, axis=1)


# argmax-in-two-passes: the maximum alone first, which vectors compute.
# CHECK-LABEL: ===== position: relax =====
# CHECK: T.Select({{.*}} > {{.*}} or T.isnan({{.*}}), {{.*}}, {{.*}})
# CHECK: T.int64(9223372036854775806)


@mt.jit
def position_of_all(a: mt.Tensor[[4, COLUMNS], mt.float32]):
    return np.argmax(a)


# Of a whole matrix the second pass reads the row with the maximum alone.
# CHECK-LABEL: ===== position_of_all: relax =====
# CHECK: [[ROWS:[a-z_0-9]*]] = T.alloc_buffer((T.int64(4),))
# CHECK: [[ROWS]][{{.*}}] = carried[T.int64(0)]
# CHECK: T.int64(9223372036854775806)
# CHECK: [[ROW:[a-z_0-9]*]]: T.let[T.int64] =
# CHECK-NEXT: if [[ROW]] < T.int64(4):
# CHECK: a{{\[}}[[ROW]],
