# Unsigned integers keep their sign in `tri`, comparisons give booleans, and `//` by a tensor brings its run-time check.
# RUN: mlirtri emit "%s::*" --stage=tri | FileCheck %s

import mlirtri as mt

Bytes = mt.Tensor[[4], mt.uint8]


@mt.jit
def compared(a: Bytes, b: Bytes):
    return a > b


# CHECK-LABEL: func.func @compared
# CHECK-SAME: (%a: tensor<4xui8>, %b: tensor<4xui8>) -> tensor<4xi1>
# CHECK: "tri.greater"(%a, %b) : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>


@mt.jit
def mixed(a: Bytes, b: mt.Tensor[[4], mt.float16]):
    return a * b


# CHECK-LABEL: func.func @mixed
# CHECK-SAME: -> tensor<4xf16>


@mt.jit
def divided(a: Bytes, b: Bytes):
    return a // b


# CHECK-LABEL: func.func @divided
# CHECK-SAME: -> (tensor<4xui8>, tensor<i1>)
# CHECK: "tri.floor_divide"(%a, %b)
