# Each rule for CUDA takes a kernel: without it another one would, or none.
# RUN: mlirtri emit "%s::*" --stage=scheduled --target=cuda:sm_90 > %t
# RUN: FileCheck %s --input-file %t
import numpy as np
import torch.nn.functional as F

import mlirtri as mt

Square = mt.Tensor[[256, 256], mt.float16]


@mt.jit
def position(a: mt.Tensor[[256, 1024], mt.float32]):
    return np.argmax(a, axis=1)


# CHECK-LABEL: ===== position: scheduled =====
# CHECK: "mlirtri.schedule": "Argmax"


@mt.jit
def running(a: mt.Tensor[[64, 1000], mt.float32]):
    return np.cumsum(a, axis=1)


# CHECK-LABEL: ===== running: scheduled =====
# CHECK: "mlirtri.schedule": "Scan"


@mt.jit
def halves(a: Square, b: Square):
    return a @ b


# CHECK-LABEL: ===== halves: scheduled =====
# CHECK: "mlirtri.schedule": "TensorCores"


@mt.jit
def one_number(a: mt.Tensor[[], mt.float32]):
    return a * 2


# CHECK-LABEL: ===== one_number: scheduled =====
# CHECK: "mlirtri.schedule": "Fallback"


@mt.jit
def transposed(a: mt.Tensor[[64, 96], mt.float32]):
    return a.T.copy()


# CHECK-LABEL: ===== transposed: scheduled =====
# CHECK: "mlirtri.schedule": "Elementwise"


@mt.jit
def narrow_product(a: mt.Tensor[[33, 12], mt.float32], b: mt.Tensor[[12, 20], mt.float32]):
    return a @ b


# CHECK-LABEL: ===== narrow_product: scheduled =====
# CHECK: "mlirtri.schedule": "Matmul"


@mt.jit
def depthwise(a: mt.Tensor[[1, 8, 9, 9], mt.float32], w: mt.Tensor[[8, 1, 3, 3], mt.float32]):
    return F.conv2d(a, w, groups=8)


# CHECK-LABEL: ===== depthwise: scheduled =====
# CHECK: "mlirtri.schedule": "Reduction"


@mt.jit
def binomial(a: mt.Tensor[[64], mt.float32]):
    a = a[1:] + a[:-1]
    a = a[1:] + a[:-1]
    a = a[1:] + a[:-1]
    a = a[1:] + a[:-1]
    a = a[1:] + a[:-1]
    a = a[1:] + a[:-1]
    a = a[1:] + a[:-1]
    a = a[1:] + a[:-1]
    return a[1:] + a[:-1]


# Written out, each result would read 512 elements.
# CHECK-LABEL: ===== binomial: scheduled =====
# CHECK: "mlirtri.schedule": "Steps"
