# In the `relax` pipeline what Relax has an operator for becomes that operator. A kernel may be called like one.
# RUN: mlirtri emit "%s::*" --stage=relax --pipeline=relax | FileCheck %s

import torch
import torch.nn.functional as F

import mlirtri as mt

Matrix = mt.Tensor[[4, 8], mt.float32]


@mt.jit
def softmax(x: Matrix):
    return torch.softmax(x, -1)


# CHECK-LABEL: ===== softmax: relax =====
# CHECK: def softmax(x: R.Tensor((4, 8), dtype="float32"))
# CHECK: [[OUT:softmax[_0-9]*]]: R.Tensor((4, 8), dtype="float32") = R.nn.softmax(x, axis=1)
# CHECK-NEXT: return [[OUT]]


@mt.jit
def attention(q: Matrix, k: Matrix, v: Matrix):
    scores = q @ k.T
    weights = F.softmax(scores * 0.5, dim=-1)
    return weights @ v


# CHECK-LABEL: ===== attention: relax =====
# CHECK: [[T:[a-z_0-9]+]]: R.Tensor((8, 4), dtype="float32") = R.permute_dims(k
# CHECK: [[SCORES:scores[_0-9]*]]: R.Tensor((4, 4), dtype="float32") = R.matmul(q, [[T]]
# CHECK: R.multiply([[SCORES]],
# CHECK: [[WEIGHTS:weights[_0-9]*]]: R.Tensor((4, 4), dtype="float32") = R.nn.softmax(
# CHECK: R.matmul([[WEIGHTS]], v


@mt.jit
def nothing(a: Matrix):
    pass


# CHECK-LABEL: ===== nothing: relax =====
# CHECK: def nothing(
# CHECK: return R.tuple()


@mt.jit
def passed_through(a: Matrix):
    return a, a


# CHECK-LABEL: ===== passed_through: relax =====
# CHECK: return (a, a)
