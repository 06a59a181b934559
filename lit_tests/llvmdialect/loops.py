# The end of the `mlir` pipeline: loops over bare pointers, and nothing that LLVM does not have.
# RUN: mlirtri emit %s --stage=llvmdialect --pipeline=mlir > %t
# RUN: FileCheck %s --input-file %t
# RUN: mlirtri-opt --canonicalize %t | FileCheck %s --check-prefix=AGAIN
# RUN: mlirtri emit %s --stage=llvmdialect --pipeline=mlir --complete | FileCheck %s --check-prefix=DEBUG

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK: llvm.func @{{.*}}add_chain
# CHECK-SAME: !llvm.ptr
# CHECK-NOT: {{(linalg|memref|scf|arith)\.}}
# CHECK: %[[A:.*]] = llvm.load
# CHECK: %[[B:.*]] = llvm.load
# CHECK: %[[SUM:.*]] = llvm.fadd %[[A]], %[[B]]
# CHECK: %[[OUT:.*]] = llvm.fadd %[[SUM]], %[[A]]
# CHECK: llvm.store %[[OUT]]

# AGAIN: llvm.func @{{.*}}add_chain

# The user's lines reach the machine code.
# DEBUG: #llvm.di_subprogram<{{.*}}name = "mlirtri_add_chain"
