# Tiles are memory of the block, written in place: one allocation each, copies from and to parts of the arrays.
# RUN: mlirtri emit %s --stage=bufferized --pipeline=mlir | FileCheck %s

import mlirtri as mt
import mlirtri.tile as T


@mt.jit
def shares(x: mt.Tensor[[30, 32], mt.float32], y: mt.Tensor[[30, 32], mt.float32]):
    with T.Kernel(T.ceildiv(x.shape[0], 8), threads=64) as bx:
        rows, sums = T.alloc_shared((8, 32)), T.alloc_fragment((8,))
        T.copy(x[bx * 8, 0], rows)
        T.reduce_sum(rows, sums, dim=1)
        for i, j in T.Parallel(8, 32):
            rows[i, j] = rows[i, j] / sums[i]
        T.copy(rows, y[bx * 8, 0])


# CHECK-LABEL: func.func @shares(%x: memref<30x32xf32>, %y: memref<30x32xf32>
# CHECK: scf.for
# CHECK: %[[ROWS:.*]] = memref.alloca() {{.*}}mlirtri.memory_space = #gpu.address_space<workgroup>} : memref<8x32xf32>
# CHECK: %[[FROM:.*]] = memref.subview %x
# CHECK: %[[TO:.*]] = memref.subview %[[ROWS]]
# CHECK: linalg.copy {{.*}}ins(%[[FROM]] : {{.*}}) outs(%[[TO]] :
# CHECK: %[[SUMS:.*]] = memref.alloca() {{.*}}mlirtri.memory_space = #gpu.address_space<private>} : memref<8xf32>
# CHECK: linalg.generic {{.*}} ins(%[[ROWS]] : memref<8x32xf32>) outs(%[[SUMS]] : memref<8xf32>)
# CHECK-NOT: memref.alloc
# CHECK: memref.store {{.*}}, %[[ROWS]]
# CHECK: linalg.copy
