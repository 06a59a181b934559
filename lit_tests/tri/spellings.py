# The functions of numpy, torch, math, methods and mlirtri mean what they mean in their own library.
# RUN: mlirtri emit "%s::*" --stage=tri | FileCheck %s

import math

import numpy as np
import torch
import torch.nn.functional as F

import mlirtri as mt

Matrix = mt.Tensor[[4, 8], mt.float32]


@mt.jit
def one_name_each(x: Matrix):
    return np.exp(x), torch.exp(x), x.exp(), mt.exp(x)


# CHECK-LABEL: func.func @one_name_each
# CHECK-COUNT-4: "tri.exp"(%x)


@mt.jit
def transposes(x: Matrix):
    return np.transpose(x, (1, 0)), torch.transpose(x, 0, 1), x.T


# CHECK-LABEL: func.func @transposes
# CHECK-COUNT-3: "tri.transpose"(%x) {{.*}}array<i64: 1, 0>


@mt.jit
def means(x: Matrix):
    return np.mean(x, axis=1, keepdims=True), torch.mean(x, dim=1, keepdim=True), x.mean(-1, True)


# CHECK-LABEL: func.func @means
# CHECK-COUNT-3: "tri.mean"(%x) {axes = array<i64: 1>, keepdims = true}


@mt.jit
def networks(x: Matrix, w: mt.Tensor[[8], mt.float32]):
    return F.softmax(F.layer_norm(x, (8,), w), dim=0) * math.pi


# CHECK-LABEL: func.func @networks
# CHECK: "tri.layer_norm"(%x, %w)
# CHECK: "tri.softmax"({{.*}}) {axis = 0 : i64}
# CHECK: value = 3.1415926535897931
# CHECK: "tri.multiply"
