# Strides of arguments: recorded in MLIR, and the strides of TIR's buffer, which takes those of run time from the call.
# RUN: mlirtri emit %s --stage=linalg | FileCheck %s --check-prefix=LINALG
# RUN: mlirtri emit %s --stage=tir | FileCheck %s

import mlirtri as mt

M, K = mt.dyn["M"], mt.dyn["K"]


@mt.jit
def scaled(a: mt.StridedTensor[[M, K], [mt.dyn, 1], mt.float32], b: mt.StridedTensor[[4], [2], mt.float32]):
    return a * 2, b + 1


# LINALG: %a: tensor<?x?xf32> {{{.*}}mlirtri.strides = array<i64: -9223372036854775808, 1>}
# LINALG-SAME: %b: tensor<4xf32> {mlirtri.strides = array<i64: 2>}

# CHECK: def scaled_loops(a: T.Buffer((n, m), "float32", strides=(a_stride0, T.int64(1))),
# CHECK-SAME: b: T.Buffer((T.int64(4),), "float32", strides=(T.int64(2),)), out0: T.Buffer((n, m), "float32"),
