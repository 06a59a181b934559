# Sorting in runs: keys and positions, which start alike, have memory of their own.
# RUN: mlirtri emit %s --stage=bufferized --pipeline=mlir | FileCheck %s
import numpy as np

import mlirtri as mt


# one-empty-per-loop: cse has made one empty tensor of both, and bufferization would give them one buffer.
# CHECK-LABEL: func.func @order(
# CHECK: %[[POSITIONS:.*]] = memref.alloca() {{.*}} : memref<64xi64>
# CHECK-NOT: memref.alloca
# CHECK: memref.store %{{.*}}, %[[POSITIONS]]
# CHECK: %[[OTHER_KEYS:.*]] = memref.alloca() {{.*}} : memref<64xi64>
# CHECK-NEXT: %[[OTHER_POSITIONS:.*]] = memref.alloca() {{.*}} : memref<64xi64>
# CHECK: scf.while
@mt.jit
def order(a: mt.Tensor[[64], mt.int64]):
    return np.argsort(a)
