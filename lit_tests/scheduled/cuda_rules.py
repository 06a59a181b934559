# Each rule for CUDA takes a kernel: without it another one would, or none.
# RUN: mlirtri emit "%s::*" --stage=scheduled --target=cuda:sm_90 > %t
# RUN: FileCheck %s --input-file %t
import numpy as np

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
