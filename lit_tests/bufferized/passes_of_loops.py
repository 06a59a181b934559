# Passes of stage bufferized for imperative functions: a function changes if one of its passes is dropped.
# RUN: mlirtri emit "%s::*" --stage=bufferized --pipeline=mlir | FileCheck %s
import numpy as np

import mlirtri as mt

Vector = mt.Tensor[[8], mt.float32]


@mt.jit
def fills(a: Vector, n: mt.int32):
    b = np.zeros(8, np.float32)
    for i in range(n):
        b = b + a
        c = np.zeros(8, np.float32)
        c[1:3] = b[:2]
        a[:] = c * 2
    return b


# splats-to-fills: constants of one value are fills. fill-at-use: the fill of a slice stands where it is written.
# CHECK-LABEL: func.func @fills
# CHECK-SAME: %[[B:[^ ]+]]: memref<8xf32>)
# CHECK-NOT: memref.{{copy|get_global}}
# CHECK: linalg.fill {{.*}} outs(%[[B]] : memref<8xf32>)
# CHECK-NOT: memref.{{copy|get_global}}
# CHECK: return


@mt.jit
def pieces(a: Vector, b: Vector, n: mt.int32):
    x = a.reshape(2, 4)
    for i in range(n):
        x[0] = b[:4] + 1
        x[1] = b[4:] * x[0]
    return np.concatenate([a, b])


# updates-in-another-shape: rows are written where the argument lies. concat-to-slices: so are the parts of the result.
# CHECK-LABEL: func.func @pieces
# CHECK-SAME: %[[A:[^ ]+]]: memref<8xf32>
# CHECK-SAME: %[[WHOLE:[^ ]+]]: memref<16xf32>)
# CHECK: scf.for
# CHECK: memref.expand_shape %[[A]]
# CHECK-NOT: memref.copy
# CHECK: memref.subview %[[WHOLE]][0] [8] [1]
# CHECK: memref.subview %[[WHOLE]][8] [8] [1]
# CHECK-NOT: memref.copy
# CHECK: return


@mt.jit
def exchanged(a: Vector, b: Vector, n: mt.int64):
    while n > 0:
        a, b = b, a + b
        n = n - 1
    return a, b


# one-buffer-per-carried-value: a loop carries no buffer.
# CHECK-LABEL: func.func @exchanged
# CHECK: scf.while (%{{[^ ,]+}} = %{{[^ ,]+}}) : (i64) -> i64
# CHECK: memref.dealloc
# CHECK: return
