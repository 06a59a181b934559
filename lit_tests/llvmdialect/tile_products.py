# The product of two tiles is computed in registers, and its terms are added to the accumulator one by one.
# RUN: mlirtri emit %s --stage=llvmdialect --pipeline=mlir | FileCheck %s

import mlirtri as mt
import mlirtri.tile as T


@mt.jit
def product(a: mt.Tensor[[48, 64], mt.float32], b: mt.Tensor[[64, 32], mt.float32], c: mt.Tensor[[48, 32], mt.float32]):
    with T.Kernel(2, threads=64) as bx:
        left, right, sums = T.alloc_shared((24, 32)), T.alloc_shared((32, 32)), T.alloc_fragment((24, 32))
        T.clear(sums)
        for k in T.serial(2):
            T.copy(a[bx * 24, k * 32], left)
            T.copy(b[k * 32, 0], right)
            T.gemm(left, right, sums)
        T.copy(sums, c[bx * 24, 0])


# CHECK-LABEL: llvm.func @mlirtri_product(%a: !llvm.ptr {llvm.noalias}, %b: !llvm.ptr {llvm.noalias}, %c: !llvm.ptr {llvm.noalias})
# CHECK-NOT: llvm.alloca
# CHECK-NOT: malloc
# CHECK: llvm.intr.fmuladd{{.*}} -> vector<[[WIDTH:[0-9]+]]xf32>
# CHECK-COUNT-5: llvm.intr.fmuladd{{.*}} -> vector<[[WIDTH]]xf32>
# CHECK-NOT: llvm.fadd
# CHECK: llvm.return
