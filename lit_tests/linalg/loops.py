# Loops and branches: what has rank 0 is a scalar, one element is an extract or an insert, indices are computed as such.
# RUN: mlirtri emit "%s::*" --stage=linalg | FileCheck %s

import numpy as np

import mlirtri as mt


@mt.jit
def dot(x: mt.Tensor[[200], mt.float64], y: mt.Tensor[[200], mt.float64]):
    total = 0.0
    for i in range(200):
        total += x[i] * y[i]
    return total


# CHECK-LABEL: func.func @dot
# CHECK: scf.for %[[I:[a-z0-9]+]] = {{.*}} iter_args(%{{.*}} = {{.*}}) -> (f64) {
# CHECK-NOT: linalg.generic
# CHECK: tensor.extract %x[%{{.*}}] : tensor<200xf64>
# CHECK: arith.mulf {{.*}} : f64
# CHECK: arith.addf {{.*}} : f64
# CHECK: scf.yield {{.*}} : f64
# CHECK: tensor.from_elements {{.*}} : tensor<f64>


@mt.jit
def relax_once(grid: mt.Tensor[[200, 200], mt.float64]):
    for i in range(1, 199):
        grid[i, 1:-1] = (grid[i - 1, 1:-1] + grid[i + 1, 1:-1]) / 2


# CHECK-LABEL: func.func @relax_once
# CHECK-SAME: %grid: tensor<200x200xf64> {mlirtri.updated_by = 0 : i64}
# CHECK: scf.for %[[ROW:[a-z0-9]+]] = {{.*}} -> (tensor<200x200xf64>) {
# CHECK: %[[ABOVE:.*]] = arith.addi %[[ROW]], {{.*}} : index
# CHECK: tensor.extract_slice {{.*}}[%[[ABOVE]], 1] [1, 198] [1, 1] : tensor<200x200xf64> to tensor<198xf64>
# CHECK: tensor.insert_slice {{.*}}[%[[ROW]], 1] [1, 198] [1, 1]


@mt.jit
def triangle(x: mt.Tensor[[200, 200], mt.float64]):
    out = np.zeros(200)
    for i in range(200):
        out[i] = np.sum(x[i, :i])
    return out


# A size of run time: the sum has as many terms as the slice has elements.
# CHECK-LABEL: func.func @triangle
# CHECK: %[[PART:.*]] = tensor.extract_slice %{{.*}}[%[[I:[a-z0-9]+]], 0] [1, %[[I]]] [1, 1] : tensor<200x200xf64> to tensor<?xf64>
# CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]} ins(%[[PART]] : tensor<?xf64>)
# CHECK: tensor.insert %{{.*}} into %{{.*}}[%[[I]]] : tensor<200xf64>


@mt.jit
def clipped(x: mt.Tensor[[200], mt.float64], limit: mt.Tensor[[], mt.float64]):
    if limit > 0.0:
        x = np.minimum(x, limit)
    return x


# CHECK-LABEL: func.func @clipped
# CHECK: %[[TEST:.*]] = arith.cmpf ogt
# CHECK: scf.if %[[TEST]] -> (tensor<200xf64>) {
# CHECK: linalg.generic
# CHECK: arith.minimumf
# CHECK: } else {
# CHECK-NEXT: scf.yield %x : tensor<200xf64>
