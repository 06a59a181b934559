# Elementwise work moves into the reductions that read it; reductions and products stay operations of their own.
# RUN: mlirtri emit "%s::*" --stage=fused | FileCheck %s

import torch
import torch.nn.functional as F

import mlirtri as mt

Matrix = mt.Tensor[[4, 8], mt.float32]


@mt.jit
def reduced(x: Matrix):
    return torch.exp(x * 2).sum(1)


# CHECK-LABEL: func.func @reduced
# CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
# CHECK: arith.mulf
# CHECK: math.exp
# CHECK: arith.addf
# CHECK-NOT: linalg.generic
# CHECK: return


@mt.jit
def softmax(x: Matrix):
    return torch.softmax(x, -1)


# CHECK-LABEL: func.func @softmax
# CHECK: %[[HIGHEST:.*]] = linalg.generic {{.*}}["parallel", "reduction"]
# CHECK: arith.maximumf
# CHECK: %[[EXP:.*]] = linalg.generic {{.*}}["parallel", "parallel"]{{.*}} ins(%x, %[[HIGHEST]] :
# CHECK: arith.subf
# CHECK-NEXT: math.exp
# CHECK: %[[TOTAL:.*]] = linalg.generic {{.*}}["parallel", "reduction"]{{.*}} ins(%[[EXP]] :
# CHECK: arith.addf
# CHECK: %[[OUT:.*]] = linalg.generic {{.*}}["parallel", "parallel"]{{.*}} ins(%[[EXP]], %[[TOTAL]] :
# CHECK: arith.divf
# CHECK-NOT: linalg.generic
# CHECK: return %[[OUT]]


@mt.jit
def layer_norm(x: Matrix, w: mt.Tensor[[8], mt.float32], b: mt.Tensor[[8], mt.float32]):
    return F.layer_norm(x, (8,), w, b)


# CHECK-LABEL: func.func @layer_norm
# CHECK-COUNT-2: "reduction"
# CHECK: iterator_types = ["parallel", "parallel"]{{.*}} %w, %b :
# CHECK-NOT: linalg.generic
# CHECK: return


@mt.jit
def linear(x: Matrix, w: mt.Tensor[[8, 16], mt.float32], b: mt.Tensor[[16], mt.float32]):
    return torch.relu(x @ w + b)


# CHECK-LABEL: func.func @linear
# CHECK: %[[PRODUCT:.*]] = linalg.matmul
# CHECK: linalg.generic {{.*}} ins(%[[PRODUCT]], %b :
# CHECK: arith.addf
# CHECK: arith.select
# CHECK-NOT: linalg.generic
# CHECK: return


@mt.jit
def two():
    out = 1 + 1
    return out


# CHECK-LABEL: func.func @two
# CHECK-NEXT: %[[TWO:.*]] = arith.constant dense<2> : tensor<i64>
# CHECK-NEXT: return %[[TWO]]
