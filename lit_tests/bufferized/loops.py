# Loops write arguments and carried arrays where they are: no allocation and no copy inside them.
# RUN: mlirtri emit "%s::*" --stage=bufferized --pipeline=mlir | FileCheck %s

import numpy as np

import mlirtri as mt

Matrix = mt.Tensor[[40, 40], mt.float64]
Vector = mt.Tensor[[64], mt.float64]


@mt.jit
def elements(a: Matrix):
    for i in range(1, 40):
        for j in range(1, 40):
            a[i, j] -= a[i - 1, j] * a[i, j - 1]


# CHECK-LABEL: func.func @elements
# CHECK-SAME: (%[[A:.*]]: memref<40x40xf64> {mlirtri.updated_by = 0 : i64})
# CHECK-NOT: alloc
# CHECK: scf.for
# CHECK: scf.for
# CHECK: memref.load %[[A]]
# CHECK: memref.store {{.*}}, %[[A]]
# CHECK-NOT: {{alloc|copy}}
# CHECK: return


@mt.jit
def stencil(a: Vector, b: Vector):
    for _ in range(100):
        b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3
        a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3


# Whole-array statements inside a loop are written through views of the arguments.
# CHECK-LABEL: func.func @stencil
# CHECK-NOT: {{alloc|copy}}
# CHECK: scf.for
# CHECK: linalg.generic
# CHECK-SAME: outs(%{{.*}} : memref<62xf64, strided<[1], offset: 1>>)
# CHECK-NOT: {{alloc|copy}}
# CHECK: linalg.generic
# CHECK-NOT: {{alloc|copy}}
# CHECK: return


@mt.jit
def overlapping(a: Vector):
    for _ in range(100):
        a[1:] = a[:-1]


# What is read at other indices than it is written has its temporary.
# CHECK-LABEL: func.func @overlapping
# CHECK: scf.for
# CHECK: %[[T:.*]] = memref.alloca() {{.*}} : memref<63xf64>
# CHECK: linalg.copy{{.*}} outs(%[[T]] : memref<63xf64>)
# CHECK: linalg.copy{{.*}} ins(%[[T]] : memref<63xf64>)
# CHECK: return


@mt.jit
def iterated(a: Matrix, x: Vector):
    x = x[:40]
    for _ in range(1000):
        x = np.tanh(a @ x)
    return x


# The product needs a buffer beside the carried one; both stay the same in all iterations.
# CHECK-LABEL: func.func @iterated
# CHECK: %[[X:.*]] = memref.alloca
# CHECK: scf.for
# CHECK-NOT: iter_args
# CHECK: %[[PRODUCT:.*]] = memref.alloca
# CHECK: linalg.generic {{.*}} ins(%a, %[[X]] : {{.*}}) outs(%[[PRODUCT]] : memref<40xf64>)
# CHECK: linalg.generic {{.*}} ins(%[[PRODUCT]] : {{.*}}) outs(%[[X]] : memref<40xf64>)
# CHECK: math.tanh
# CHECK: return
