# Each tensor operation becomes one structured operation; types are promoted in its body, broadcasts are in its maps.
# RUN: mlirtri emit "%s::*" --stage=linalg | FileCheck %s

import mlirtri as mt

Matrix = mt.Tensor[[4, 8], mt.float32]


@mt.jit
def add_chain(a: Matrix, b: Matrix):
    out = a + b
    out = out + a
    return out


# CHECK-LABEL: func.func @add_chain
# CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%a, %b :
# CHECK: arith.addf
# CHECK: linalg.generic {{.*}} ins(%[[SUM]], %a :
# CHECK: arith.addf


@mt.jit
def broadcast(a: Matrix, row: mt.Tensor[[8], mt.float16]):
    return a * row


# CHECK-DAG: #[[FULL:map[0-9]*]] = affine_map<(d0, d1) -> (d0, d1)>
# CHECK-DAG: #[[ROW:map[0-9]*]] = affine_map<(d0, d1) -> (d1)>
# CHECK: func.func @broadcast
# CHECK: arith.extf %{{.*}} : f16 to f32
# CHECK: linalg.generic {indexing_maps = [#[[FULL]], #[[ROW]], #[[FULL]]]
# CHECK: arith.mulf


@mt.jit
def halves(a: mt.Tensor[[8], mt.bfloat16], b: mt.Tensor[[8], mt.bfloat16]):
    return a * b


# Arithmetic of halves is done in f32 and rounded.
# CHECK-LABEL: func.func @halves
# CHECK-COUNT-2: arith.extf %{{.*}} : bf16 to f32
# CHECK: arith.mulf %{{.*}} : f32
# CHECK: arith.truncf %{{.*}} : f32 to bf16


@mt.jit
def nans(a: Matrix, b: Matrix):
    return mt.maximum(a, b)


# CHECK-LABEL: func.func @nans
# CHECK: arith.maximumf


@mt.jit
def unsigned(a: mt.Tensor[[4], mt.uint8], b: mt.Tensor[[4], mt.uint8]):
    return a > b, a >> b


# From here on integers have no sign; the operations have it.
# CHECK-LABEL: func.func @unsigned
# CHECK-SAME: (%a: tensor<4xi8>, %b: tensor<4xi8>) -> (tensor<4xi1>, tensor<4xi8>)
# CHECK: arith.cmpi ugt
# CHECK: arith.shrui
