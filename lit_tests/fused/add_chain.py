# `out = a + b; out = out + a` is ONE linalg.generic, in both pipelines that come by here.
# RUN: mlirtri emit %s --stage=fused | FileCheck %s
# RUN: mlirtri emit %s --stage=fused --pipeline=mlir | FileCheck %s
# RUN: mlirtri emit %s --stage=Poly | FileCheck %s

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK-LABEL: func.func @add_chain
# CHECK: %[[OUT:.*]] = linalg.generic
# CHECK-SAME: ins(%a, %b : tensor<64x32xf32>, tensor<64x32xf32>)
# CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %{{.*}}: f32):
# CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[A]], %[[B]] : f32
# CHECK-NEXT: %[[RESULT:.*]] = arith.addf %[[SUM]], %[[A]] : f32
# CHECK-NEXT: linalg.yield %[[RESULT]] : f32
# CHECK-NOT: linalg.generic
# CHECK: return %[[OUT]]
