# A Python float is a run-time scalar that does not decide the result's dtype; an annotated dtype forces one.
# RUN: mlirtri emit %s::weak --stage=tri --arg alpha=2.5 | FileCheck %s --check-prefix=WEAK
# RUN: mlirtri emit %s::strong --stage=tri --arg alpha=2.5 | FileCheck %s --check-prefix=STRONG
# RUN: mlirtri emit %s::fixed --stage=tri --arg alpha=2.5 | FileCheck %s --check-prefix=FIXED

import mlirtri as mt


@mt.jit
def weak(x: mt.Tensor[[4], mt.float32], alpha):
    return x * alpha


# WEAK-LABEL: func.func @weak
# WEAK-SAME: (%x: tensor<4xf32>, %alpha: tensor<f64>) -> tensor<4xf32>


@mt.jit
def strong(x: mt.Tensor[[4], mt.float32], alpha: mt.float32):
    return x * alpha


# STRONG-LABEL: func.func @strong
# STRONG-SAME: (%x: tensor<4xf32>, %alpha: tensor<f32>) -> tensor<4xf32>


@mt.jit
def fixed(x: mt.Tensor[[4], mt.float32], alpha: float):
    return x * alpha


# FIXED-LABEL: func.func @fixed
# FIXED-SAME: (%x: tensor<4xf32>) -> tensor<4xf32>
# FIXED: value = 2.500000e+00
