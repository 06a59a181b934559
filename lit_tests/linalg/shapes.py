# Shapes: views where memory allows, maps where it does not. No loop copies what a slice can name.
# RUN: mlirtri emit "%s::*" --stage=linalg | FileCheck %s

import mlirtri as mt


@mt.jit
def reshaped(x: mt.Tensor[[4, 6], mt.float32]):
    return x.reshape(2, 12)


# CHECK-LABEL: func.func @reshaped
# CHECK: tensor.collapse_shape %x
# CHECK: tensor.expand_shape
# CHECK-NOT: linalg.generic
# CHECK: return


@mt.jit
def sliced(x: mt.Tensor[[8, 6], mt.float32]):
    return x[1:7:2, 3]


# CHECK-LABEL: func.func @sliced
# CHECK: tensor.extract_slice %x[1, 3] [3, 1] [2, 1]
# CHECK-SAME: to tensor<3


@mt.jit
def joined(a: mt.Tensor[[2, 3], mt.float32], b: mt.Tensor[[4, 3], mt.float32], c: mt.Tensor[[1, 3], mt.float32]):
    return mt.concatenate((a, b, c), 0)


# CHECK-LABEL: func.func @joined
# CHECK: tensor.concat dim(0) %a, %b, %c : (tensor<2x3xf32>, tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<7x3xf32>


@mt.jit
def same(a: mt.Tensor[[2, 3], mt.float32]):
    return a, a


# CHECK-LABEL: func.func @same
# CHECK-NEXT: return %a, %a
