# Results are written straight into the caller's memory: no allocation, no copy.
# RUN: mlirtri emit "%s::*" --stage=bufferized --pipeline=mlir | FileCheck %s

import mlirtri as mt

Matrix = mt.Tensor[[64, 32], mt.float32]


@mt.jit
def add_chain(a: Matrix, b: Matrix):
    out = a + b
    out = out + a
    return out


# CHECK-LABEL: func.func @add_chain
# CHECK-SAME: (%a: memref<64x32xf32>, %b: memref<64x32xf32>, %[[OUT:.*]]: memref<64x32xf32>)
# CHECK-NOT: memref.alloc
# CHECK: outs(%[[OUT]] : memref<64x32xf32>)
# CHECK-NOT: linalg.generic
# CHECK-NOT: memref.copy
# CHECK: return


@mt.jit
def product(a: Matrix, b: mt.Tensor[[32, 16], mt.float32]):
    return a @ b


# The product is summed up where the result goes.
# CHECK-LABEL: func.func @product
# CHECK-SAME: %[[OUT:[a-z0-9]*]]: memref<64x16xf32>)
# CHECK-NOT: memref.alloc
# CHECK: linalg.matmul {{.*}} outs(%[[OUT]] : memref<64x16xf32>)
# CHECK-NOT: memref.copy
# CHECK: return


@mt.jit
def sliced(a: Matrix):
    return a[2:6, ::2] * 2


# A slice is a view.
# CHECK-LABEL: func.func @sliced
# CHECK: memref.subview %a[2, 0] [4, 16] [1, 2]
# CHECK-NOT: memref.copy
# CHECK: return
