# The tiles of a block lie on the stack, allocated once for all blocks.
# RUN: mlirtri emit %s --stage=llvmdialect --pipeline=mlir | FileCheck %s

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


# CHECK-LABEL: llvm.func @mlirtri_shares(%x: !llvm.ptr {llvm.noalias}, %y: !llvm.ptr {llvm.noalias})
# CHECK: %[[ROWS:.*]] = llvm.alloca %{{.*}} x f32 {alignment = 64 : i64}
# CHECK: %[[SUMS:.*]] = llvm.alloca %{{.*}} x f32 {alignment = 64 : i64}
# CHECK-NEXT: llvm.br
# CHECK-NOT: llvm.alloca
# CHECK: llvm.intr.smin
# CHECK: llvm.getelementptr {{.*}}%[[ROWS]][
# CHECK: llvm.fdiv
