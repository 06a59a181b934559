# Passes of stage tir that few programs need: each kernel changes if its pass is dropped.
# RUN: mlirtri emit %s::nothing --stage=tir --pipeline=linalg | FileCheck %s --check-prefix=EMPTY
# RUN: mlirtri emit %s::padded --stage=tir --pipeline=linalg | FileCheck %s --check-prefix=PADDING
# RUN: mlirtri emit %s::wraps --stage=tir --pipeline=relax | FileCheck %s --check-prefix=WRAPS
# RUN: mlirtri emit %s::halves --stage=tir --pipeline=linalg | FileCheck %s --check-prefix=HALVES
import numpy as np
import torch

import mlirtri as mt


# FoldEmptyLoops: a sum of nothing is its initial value, without a loop over nothing.
# EMPTY-LABEL: T.sblock("sum")
# EMPTY: out_intermediate[v_i0] = T.fabs(T.reinterpret("float32", T.uint32(2147483648)))
# EMPTY-NOT: T.axis.reduce
# EMPTY: T.sblock("add")
@mt.jit
def nothing(a: mt.Tensor[[4, 0], mt.float32]):
    return np.sum(a, axis=1) + 1


# FoldPadding: the convolution reads the image, and zeros where there is none.
# PADDING-NOT: def pad(
# PADDING: T.reads(v_in[{{.*}} - T.int64(1)
# PADDING: T.if_then_else(
# PADDING-NOT: def pad(
@mt.jit
def padded(x: mt.Tensor[[1, 8, 32, 32], mt.float32], w: mt.Tensor[[16, 8, 3, 3], mt.float32]):
    return torch.nn.functional.conv2d(x, w, padding=1)


# ProtectArithmetic: TVM's simplifier would make `a` of this, which is another number where the product wraps around.
# WRAPS: T.Cast("int32", T.Cast("int64", a[{{.*}}]) * T.Cast("int64", 3))
@mt.jit
def wraps(a: mt.Tensor[[64], mt.int32]):
    return a * 3 // 3


# MarkElements: what computes with memory of its own, as bf16 does that is rounded once, fuses with the product before it.
# HALVES-COUNT-1: @T.prim_func
# HALVES-NOT: @T.prim_func
# HALVES: R.call_tir(cls.fused_matmul
@mt.jit
def halves(
    a: mt.Tensor[[64, 64], mt.bfloat16], b: mt.Tensor[[64, 64], mt.bfloat16], c: mt.Tensor[[64, 64], mt.bfloat16]
):
    return torch.relu(a @ b + c)
