# JoinProducts: calls that read a product's result and nothing that comes after it are one call with the product.
# RUN: mlirtri emit "%s::*" --stage=tir > %t
# RUN: FileCheck %s --input-file %t
import torch
import torch.nn.functional as F

import mlirtri as mt

Rows = mt.Tensor[[16, 32], mt.float32]
Weight = mt.Tensor[[32, 48], mt.float32]


@mt.jit
def gate(a: Rows, w: Weight, v: Weight):
    return F.silu(a @ w) * (a @ v)


# CHECK-LABEL: ===== gate: tir =====
# CHECK: T.sblock("matmul")
# CHECK: T.sblock("matmul{{.+}}")
# CHECK: def gate(
# CHECK: R.call_tir(cls.{{.*}}, (a, {{[wv]}}, {{[wv]}})
# CHECK-NOT: R.call_tir


@mt.jit
def halves(a: Rows, w: Weight):
    y = (a @ w).reshape(16, 2, 24)
    return F.silu(y[:, 0]) * y[:, 1]


# The slices take the product's result as the reshape has it.
# CHECK-LABEL: ===== halves: tir =====
# CHECK: T.sblock("matmul")
# CHECK: def halves(
# CHECK: R.call_tir(cls.{{.*}}, (a, w)
# CHECK-NOT: R.call_tir


@mt.jit
def chained(a: Rows, w: Weight, v: mt.Tensor[[48, 48], mt.float32]):
    return torch.tanh(a @ w) @ v


# A product of a product's result has to wait for all of its rows.
# CHECK-LABEL: ===== chained: tir =====
# CHECK: def chained(
# CHECK: R.call_tir
# CHECK: R.call_tir
