# Complex numbers are computed by their parts: nothing of upstream's complex dialect but create, re, im and constant.
# RUN: mlirtri emit "%s::*" --stage=tri | FileCheck %s --check-prefix=TRI
# RUN: mlirtri emit "%s::*" --stage=linalg | FileCheck %s

import mlirtri as mt


@mt.jit
def product(x: mt.Tensor[[4], mt.complex128]):
    return x * 2j


# TRI-LABEL: func.func @product(%x: tensor<4xcomplex<f64>>) -> tensor<4xcomplex<f64>>
# TRI: "tri.constant"() {{.*}}value = [0.000000e+00, 2.000000e+00]
# TRI: "tri.multiply"
# CHECK-LABEL: func.func @product
# CHECK: complex.constant [0.000000e+00, 2.000000e+00] : complex<f64>
# CHECK: linalg.generic
# CHECK: complex.re
# CHECK: arith.mulf
# CHECK: arith.subf
# CHECK: complex.create %{{.*}}, %{{.*}} : complex<f64>
# CHECK-NEXT: linalg.yield


@mt.jit
def size(x: mt.Tensor[[4], mt.complex64]):
    return mt.abs(x)


# TRI-LABEL: func.func @size
# TRI: "tri.abs"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
# CHECK-LABEL: func.func @size
# CHECK-SAME: -> tensor<4xf32>
# CHECK-NOT: complex.abs
# CHECK: math.sqrt %{{.*}} : f32


@mt.jit
def total(x: mt.Tensor[[4, 1000], mt.complex64]):
    return mt.sum(x, 1)


# A long sum is carried in double precision, as that of floats is.
# CHECK-LABEL: func.func @total
# CHECK: linalg.fill ins(%{{.*}} : complex<f64>)
# CHECK: ^bb0(%{{.*}}: complex<f32>, %{{.*}}: complex<f64>):


@mt.jit
def matrices(x: mt.Tensor[[40, 40], mt.complex128]):
    return x @ x


# Large products are four of real matrices.
# CHECK-LABEL: func.func @matrices
# CHECK-COUNT-4: linalg.matmul {{.*}}tensor<40x40xf64>
# CHECK: complex.create
