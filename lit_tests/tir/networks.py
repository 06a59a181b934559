# Reductions, products and types at the level of loops.
# RUN: mlirtri emit "%s::*" --stage=tir > %t
# RUN: FileCheck %s --input-file %t

import torch

import mlirtri as mt


@mt.jit
def softmax(x: mt.Tensor[[4, 8], mt.float32]):
    return torch.softmax(x, -1)


# CHECK-LABEL: ===== softmax: tir =====
# CHECK: T.exp(
# CHECK: def softmax(
# CHECK: R.output(


@mt.jit
def half_product(a: mt.Tensor[[4, 8], mt.bfloat16], b: mt.Tensor[[8, 16], mt.bfloat16]):
    return torch.relu(a @ b)


# The product of halves is summed in float32, and what follows it is in the same PrimFunc.
# CHECK-LABEL: ===== half_product: tir =====
# CHECK: def {{.*}}"bfloat16"
# CHECK: T.float32(0.0)
# CHECK-NOT: @T.prim_func
# CHECK: def half_product(
# CHECK: -> R.Tensor((4, 16), dtype="bfloat16")


@mt.jit
def bytes_compared(a: mt.Tensor[[4], mt.uint8], b: mt.Tensor[[4], mt.uint8]):
    return a > b


# CHECK-LABEL: ===== bytes_compared: tir =====
# CHECK: a: T.Buffer((T.int64(4),), "int8")
# CHECK: def bytes_compared(
# CHECK: dtype="bool"
