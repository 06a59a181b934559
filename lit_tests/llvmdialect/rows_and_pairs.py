# REQUIRES: x86
# RUN: mlirtri emit "%s::*" --stage=llvmdialect --pipeline=mlir | FileCheck %s
import numpy as np

import mlirtri as mt

Square = mt.Tensor[[8, 8], mt.float32]


@mt.jit
def eliminated(a: Square):
    for k in range(7):
        for i in range(k + 1, 8):
            a[i] = a[i] - a[k] * 2


# forward-copies: rows are read and written where they lie.
# CHECK-LABEL: llvm.func @mlirtri_eliminated
# CHECK-NOT: llvm.alloca
# CHECK: llvm.return


@mt.jit
def integers(a: mt.Tensor[[16, 64], mt.int8], b: mt.Tensor[[64, 32], mt.int8]):
    return np.matmul(a, b, dtype=np.int32)


# products-in-pairs: an instruction adds the products of two neighbours.
# CHECK-LABEL: llvm.func @mlirtri_integers
# CHECK: llvm.call_intrinsic "llvm.x86.{{[^"]*}}pmadd
