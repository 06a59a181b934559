# Functions of Relax's library, called by name, are private functions without a body until they become operators.
# RUN: mlirtri emit "%s::gated" --stage=fused --pipeline=linalg | FileCheck %s --check-prefix=FUSED
# RUN: mlirtri emit "%s::gated" --stage=relax --pipeline=linalg | FileCheck %s --check-prefix=RELAX
# RUN: mlirtri emit "%s::gated" --stage=relax --pipeline=relax | FileCheck %s --check-prefix=RELAX
# RUN: mlirtri emit "%s::gated" --stage=tir --pipeline=relax | FileCheck %s --check-prefix=TIR

import mlirtri as mt

Matrix = mt.Tensor[[4, 8], mt.float32]


@mt.jit
def gated(x: Matrix):
    left, right = mt.relax.split(mt.relax.nn.gelu(x), 2, axis=1)
    return left * right + 1


# FUSED-LABEL: func.func @gated
# FUSED: [[H:%.*]] = call @relax.nn.gelu(%x)
# FUSED: [[PARTS:%.*]]:2 = call @relax.split([[H]])
# FUSED: linalg.generic {{.*}} ins([[PARTS]]#0, [[PARTS]]#1
# FUSED: func.func private @relax.nn.gelu(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {mlirtri.arguments = "data=_0"

# RELAX-LABEL: def gated(
# RELAX: [[H:gelu[_0-9]*]]: R.Tensor((4, 8), dtype="float32") = R.nn.gelu(x)
# RELAX: [[PARTS:left[_0-9]*]]: R.Tuple({{.*}}) = R.split([[H]], indices_or_sections=2, axis=1)
# RELAX: [[PARTS]][0]
# RELAX: [[PARTS]][1]

# TIR-NOT: R.nn.gelu
# TIR: R.call_tir(
