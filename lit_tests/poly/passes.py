# Upstream's polyhedral passes, one by one. `mlirtri update-checks` writes them again where text changed on purpose.
# RUN: mlirtri emit "%s::*" --stage=poly --pipeline=poly | FileCheck %s
import numpy as np

import mlirtri as mt


@mt.jit
def product(a: mt.Tensor[[200, 300], mt.float32], b: mt.Tensor[[300, 100], mt.float32]):
    return a @ b + 1


@mt.jit
def centred(a: mt.Tensor[[8, 16], mt.float32]):
    b = a - a.sum(1)[:, None]
    return b * b, np.exp(b).sum()


@mt.jit
def rows(a: mt.Tensor[[8, 16], mt.float32], out: mt.Tensor[[8], mt.float32]):
    for i in range(8):
        total = np.float32(0)
        for j in range(16):
            total += a[i, j] * np.float32(0.5)
        out[i] = total


@mt.jit
def halves(a: mt.Tensor[[8, 16], mt.float32]):
    b = a.copy()
    b[:, :8] = a[:, 8:] * 2
    return b


@mt.jit
def by_rows(a: mt.Tensor[[8, 16], mt.float32], b: mt.Tensor[[16], mt.float32]):
    for i in range(8):
        a[i] *= b


# >>> mlirtri update-checks CHECK
# CHECK-LABEL: ===== product: poly =====
# CHECK-LABEL:   func.func @product(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: memref<200x300xf32>, %[[B:[^ ,:)]+]]: memref<300x100xf32>, %[[ARG2:[^ ,:)]+]]: memref<200x100xf32>) {
# CHECK-NEXT:     %[[CST:[^ ,:)]+]] = arith.constant 0.000000e+00 : f32
# CHECK-NEXT:     %[[CST_0:[^ ,:)]+]] = arith.constant 1.000000e+00 : f32
# CHECK-NEXT:     %[[ALLOC:[^ ,:)]+]] = memref.alloc() {alignment = 64 : i64} : memref<200x100xf32>
# CHECK-NEXT:     affine.parallel (%[[ARG3:[^ ,:)]+]]) = (0) to (200) step (32) {
# CHECK-NEXT:       affine.parallel (%[[ARG4:[^ ,:)]+]]) = (0) to (100) step (32) {
# CHECK-NEXT:         affine.parallel (%[[ARG5:[^ ,:)]+]]) = (%[[ARG3]]) to (min(%[[ARG3]] + 32, 200)) {
# CHECK-NEXT:           affine.parallel (%[[ARG6:[^ ,:)]+]]) = (%[[ARG4]]) to (min(%[[ARG4]] + 32, 100)) {
# CHECK-NEXT:             affine.store %[[CST]], %[[ALLOC]][%[[ARG5]], %[[ARG6]]] : memref<200x100xf32>
# CHECK-NEXT:             affine.for %[[ARG7:[^ ,:)]+]] = 0 to 300 {
# CHECK-NEXT:               %[[V2:[^ ,:)]+]] = affine.load %[[A]][%[[ARG5]], %[[ARG7]]] : memref<200x300xf32>
# CHECK-NEXT:               %[[V3:[^ ,:)]+]] = affine.load %[[B]][%[[ARG7]], %[[ARG6]]] : memref<300x100xf32>
# CHECK-NEXT:               %[[V4:[^ ,:)]+]] = affine.load %[[ALLOC]][%[[ARG5]], %[[ARG6]]] : memref<200x100xf32>
# CHECK-NEXT:               %[[V5:[^ ,:)]+]] = arith.mulf %[[V2]], %[[V3]] : f32
# CHECK-NEXT:               %[[V6:[^ ,:)]+]] = arith.addf %[[V4]], %[[V5]] : f32
# CHECK-NEXT:               affine.store %[[V6]], %[[ALLOC]][%[[ARG5]], %[[ARG6]]] : memref<200x100xf32>
# CHECK:             %[[V0:[^ ,:)]+]] = affine.load %[[ALLOC]][%[[ARG5]], %[[ARG6]]] : memref<200x100xf32>
# CHECK-NEXT:             %[[V1:[^ ,:)]+]] = arith.addf %[[V0]], %[[CST_0]] : f32
# CHECK-NEXT:             affine.store %[[V1]], %[[ARG2]][%[[ARG5]], %[[ARG6]]] : memref<200x100xf32>
# CHECK:     memref.dealloc %[[ALLOC]] : memref<200x100xf32>
# CHECK-NEXT:     return
# CHECK-LABEL: ===== centred: poly =====
# CHECK: #[[$MAP:[^ ,:)]+]] = affine_map<(d0) -> (d0)>
# CHECK-NEXT: #[[$MAP1:[^ ,:)]+]] = affine_map<(d0) -> (d0 + 8)>
# CHECK-LABEL:   func.func @centred(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: memref<8x16xf32>, %[[ARG1:[^ ,:)]+]]: memref<8x16xf32>, %[[ARG2:[^ ,:)]+]]: memref<f32>) {
# CHECK-NEXT:     %[[CST:[^ ,:)]+]] = arith.constant 0.000000e+00 : f32
# CHECK-NEXT:     %[[ALLOC:[^ ,:)]+]] = memref.alloc() : memref<1x16xf32>
# CHECK-NEXT:     %[[B:[^ ,:)]+]] = memref.alloc() : memref<1xf32>
# CHECK-NEXT:     affine.store %[[CST]], %[[ARG2]][] : memref<f32>
# CHECK-NEXT:     affine.parallel (%[[ARG3:[^ ,:)]+]]) = (0) to (8) step (32) {
# CHECK-NEXT:       affine.for %[[ARG4:[^ ,:)]+]] = #[[$MAP]](%[[ARG3]]) to #[[$MAP1]](%[[ARG3]]) {
# CHECK-NEXT:         affine.store %[[CST]], %[[B]][0] : memref<1xf32>
# CHECK-NEXT:         affine.for %[[ARG5:[^ ,:)]+]] = 0 to 16 {
# CHECK-NEXT:           %[[V0:[^ ,:)]+]] = affine.load %[[A]][%[[ARG4]], %[[ARG5]]] : memref<8x16xf32>
# CHECK-NEXT:           %[[V1:[^ ,:)]+]] = affine.load %[[B]][0] : memref<1xf32>
# CHECK-NEXT:           %[[V2:[^ ,:)]+]] = arith.addf %[[V1]], %[[V0]] : f32
# CHECK-NEXT:           affine.store %[[V2]], %[[B]][0] : memref<1xf32>
# CHECK:         %[[B_0:[^ ,:)]+]] = affine.load %[[B]][0] : memref<1xf32>
# CHECK-NEXT:         affine.parallel (%[[B_1:[^ ,:)]+]]) = (0) to (16) {
# CHECK-NEXT:           %[[B_2:[^ ,:)]+]] = affine.load %[[A]][%[[ARG4]], %[[B_1]]] : memref<8x16xf32>
# CHECK-NEXT:           %[[V0:[^ ,:)]+]] = arith.subf %[[B_2]], %[[B_0]] : f32
# CHECK-NEXT:           affine.store %[[V0]], %[[ALLOC]][0, %[[B_1]]] : memref<1x16xf32>
# CHECK:         affine.for %[[ARG5:[^ ,:)]+]] = 0 to 16 {
# CHECK-NEXT:           %[[V0:[^ ,:)]+]] = affine.load %[[ALLOC]][0, %[[ARG5]]] : memref<1x16xf32>
# CHECK-NEXT:           %[[V1:[^ ,:)]+]] = arith.mulf %[[V0]], %[[V0]] : f32
# CHECK-NEXT:           affine.store %[[V1]], %[[ARG1]][%[[ARG4]], %[[ARG5]]] : memref<8x16xf32>
# CHECK-NEXT:           %[[V2:[^ ,:)]+]] = affine.load %[[ARG2]][] : memref<f32>
# CHECK-NEXT:           %[[V3:[^ ,:)]+]] = math.exp %[[V0]] : f32
# CHECK-NEXT:           %[[V4:[^ ,:)]+]] = arith.addf %[[V2]], %[[V3]] : f32
# CHECK-NEXT:           affine.store %[[V4]], %[[ARG2]][] : memref<f32>
# CHECK:     return
# CHECK-LABEL: ===== rows: poly =====
# CHECK-LABEL:   func.func @rows(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: memref<8x16xf32>, %[[OUT:[^ ,:)]+]]: memref<8xf32> {mlirtri.updated_by = 0 : i64}) {
# CHECK-NEXT:     %[[CST:[^ ,:)]+]] = arith.constant 5.000000e-01 : f32
# CHECK-NEXT:     %[[CST_0:[^ ,:)]+]] = arith.constant 0.000000e+00 : f32
# CHECK-NEXT:     affine.parallel (%[[ARG2:[^ ,:)]+]]) = (0) to (8) step (32) {
# CHECK-NEXT:       affine.parallel (%[[ARG3:[^ ,:)]+]]) = (%[[ARG2]]) to (%[[ARG2]] + 8) {
# CHECK-NEXT:         %[[V0:[^ ,:)]+]] = affine.for %[[ARG4:[^ ,:)]+]] = 0 to 16 iter_args(%[[ARG5:[^ ,:)]+]] = %[[CST_0]]) -> (f32) {
# CHECK-NEXT:           %[[V1:[^ ,:)]+]] = affine.load %[[A]][%[[ARG3]], %[[ARG4]]] : memref<8x16xf32>
# CHECK-NEXT:           %[[V2:[^ ,:)]+]] = arith.mulf %[[V1]], %[[CST]] : f32
# CHECK-NEXT:           %[[TOTAL:[^ ,:)]+]] = arith.addf %[[ARG5]], %[[V2]] : f32
# CHECK-NEXT:           affine.yield %[[TOTAL]] : f32
# CHECK:         affine.store %[[V0]], %[[OUT]][%[[ARG3]]] : memref<8xf32>
# CHECK:     return
# CHECK-LABEL: ===== halves: poly =====
# CHECK-LABEL:   func.func @halves(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: memref<8x16xf32>, %[[ARG1:[^ ,:)]+]]: memref<8x16xf32>) {
# CHECK-NEXT:     %[[CST:[^ ,:)]+]] = arith.constant 2.000000e+00 : f32
# CHECK-NEXT:     %[[SUBVIEW:[^ ,:)]+]] = memref.subview %[[A]][0, 8] [8, 8] [1, 1] : memref<8x16xf32> to memref<8x8xf32, strided<[16, 1], offset: 8>>
# CHECK-NEXT:     %[[ALLOCA:[^ ,:)]+]] = memref.alloca() {alignment = 64 : i64} : memref<8x8xf32>
# CHECK-NEXT:     affine.for %[[ARG2:[^ ,:)]+]] = 0 to 8 {
# CHECK-NEXT:       affine.for %[[ARG3:[^ ,:)]+]] = 0 to 8 {
# CHECK-NEXT:         %[[V0:[^ ,:)]+]] = affine.load %[[SUBVIEW]][%[[ARG2]], %[[ARG3]]] : memref<8x8xf32, strided<[16, 1], offset: 8>>
# CHECK-NEXT:         %[[V1:[^ ,:)]+]] = arith.mulf %[[V0]], %[[CST]] : f32
# CHECK-NEXT:         affine.store %[[V1]], %[[ALLOCA]][%[[ARG2]], %[[ARG3]]] : memref<8x8xf32>
# CHECK:     %[[ALLOCA_0:[^ ,:)]+]] = memref.alloca() {alignment = 64 : i64} : memref<8x16xf32>
# CHECK-NEXT:     memref.copy %[[A]], %[[ALLOCA_0]] : memref<8x16xf32> to memref<8x16xf32>
# CHECK-NEXT:     %[[SUBVIEW_1:[^ ,:)]+]] = memref.subview %[[ALLOCA_0]][0, 0] [8, 8] [1, 1] : memref<8x16xf32> to memref<8x8xf32, strided<[16, 1]>>
# CHECK-NEXT:     affine.for %[[ARG2:[^ ,:)]+]] = 0 to 8 {
# CHECK-NEXT:       affine.for %[[ARG3:[^ ,:)]+]] = 0 to 8 {
# CHECK-NEXT:         %[[V0:[^ ,:)]+]] = affine.load %[[ALLOCA]][%[[ARG2]], %[[ARG3]]] : memref<8x8xf32>
# CHECK-NEXT:         affine.store %[[V0]], %[[SUBVIEW_1]][%[[ARG2]], %[[ARG3]]] : memref<8x8xf32, strided<[16, 1]>>
# CHECK:     memref.copy %[[ALLOCA_0]], %[[ARG1]] : memref<8x16xf32> to memref<8x16xf32>
# CHECK-NEXT:     return
# CHECK-LABEL: ===== by_rows: poly =====
# CHECK-LABEL:   func.func @by_rows(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: memref<8x16xf32> {mlirtri.updated_by = 0 : i64}, %[[B:[^ ,:)]+]]: memref<16xf32>) {
# CHECK-NEXT:     affine.for %[[ARG2:[^ ,:)]+]] = 0 to 8 {
# CHECK-NEXT:       %[[SUBVIEW:[^ ,:)]+]] = memref.subview %[[A]][%[[ARG2]], 0] [1, 16] [1, 1] : memref<8x16xf32> to memref<16xf32, strided<[1], offset: ?>>
# CHECK-NEXT:       affine.for %[[ARG3:[^ ,:)]+]] = 0 to 16 {
# CHECK-NEXT:         %[[V0:[^ ,:)]+]] = affine.load %[[SUBVIEW]][%[[ARG3]]] : memref<16xf32, strided<[1], offset: ?>>
# CHECK-NEXT:         %[[V1:[^ ,:)]+]] = affine.load %[[B]][%[[ARG3]]] : memref<16xf32>
# CHECK-NEXT:         %[[V2:[^ ,:)]+]] = arith.mulf %[[V0]], %[[V1]] : f32
# CHECK-NEXT:         affine.store %[[V2]], %[[SUBVIEW]][%[[ARG3]]] : memref<16xf32, strided<[1], offset: ?>>
# CHECK:     return
# <<< mlirtri update-checks CHECK
