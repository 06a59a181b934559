// A batch of matrices times one matrix that is repeated is one product with all rows.
// RUN: mlirtri-opt --split-input-file --flatten-batches %s | FileCheck %s
// RUN: mlirtri-opt --split-input-file --linalg-to-fused %s | FileCheck %s --check-prefix=FUSED

#repeated = affine_map<(b, k, n) -> (k, n)>
#id = affine_map<(b, k, n) -> (b, k, n)>
#last = affine_map<(b, k, n) -> (n)>

// CHECK-LABEL: func.func @heads(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x8xf32>, %[[W:.*]]: tensor<8x6xf32>, %{{.*}}: tensor<6xf32>
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1], [2]] : tensor<2x4x8xf32> into tensor<8x8xf32>
// CHECK: %[[PRODUCT:.*]] = linalg.matmul ins(%[[ROWS]], %[[W]] :
// CHECK: tensor.expand_shape %[[PRODUCT]] {{\[\[}}0, 1], [2]] output_shape [2, 4, 6]
// CHECK-NOT: linalg.batch_matmul
// The columns stay whole until the heads move, so that the weight can be packed.
// FUSED-LABEL: func.func @heads(
// FUSED: %[[PRODUCT:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<2x4x8xf32>, tensor<8x6xf32>)
// FUSED: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[PRODUCT]], %{{.*}} : tensor<2x4x6xf32>, tensor<6xf32>)
// FUSED: tensor.expand_shape %[[SUM]] {{\[\[}}0], [1], [2, 3]] output_shape [2, 4, 3, 2]
func.func @heads(%x: tensor<2x4x8xf32>, %w: tensor<8x6xf32>, %bias: tensor<6xf32>) -> tensor<2x3x4x2xf32> {
  %zero = arith.constant 0.0 : f32
  %ew = tensor.empty() : tensor<2x8x6xf32>
  %repeated = linalg.generic {indexing_maps = [#repeated, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w : tensor<8x6xf32>) outs(%ew : tensor<2x8x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x8x6xf32>
  %e = tensor.empty() : tensor<2x4x6xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %p = linalg.batch_matmul ins(%x, %repeated : tensor<2x4x8xf32>, tensor<2x8x6xf32>) outs(%zeros : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %s = linalg.generic {indexing_maps = [#id, #last, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %bias : tensor<2x4x6xf32>, tensor<6xf32>) outs(%e : tensor<2x4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  } -> tensor<2x4x6xf32>
  %r = tensor.expand_shape %s [[0], [1], [2, 3]] output_shape [2, 4, 3, 2] : tensor<2x4x6xf32> into tensor<2x4x3x2xf32>
  %et = tensor.empty() : tensor<2x3x4x2xf32>
  %t = linalg.transpose ins(%r : tensor<2x4x3x2xf32>) outs(%et : tensor<2x3x4x2xf32>) permutation = [0, 2, 1, 3]
  return %t : tensor<2x3x4x2xf32>
}

// -----

// CHECK-LABEL: func.func @named(
// CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<8x8xf32>, tensor<8x6xf32>)
func.func @named(%x: tensor<2x4x8xf32>, %w: tensor<8x6xf32>) -> tensor<2x4x6xf32> {
  %zero = arith.constant 0.0 : f32
  %ew = tensor.empty() : tensor<2x8x6xf32>
  %repeated = linalg.broadcast ins(%w : tensor<8x6xf32>) outs(%ew : tensor<2x8x6xf32>) dimensions = [0]
  %e = tensor.empty() : tensor<2x4x6xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %p = linalg.batch_matmul ins(%x, %repeated : tensor<2x4x8xf32>, tensor<2x8x6xf32>) outs(%zeros : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  return %p : tensor<2x4x6xf32>
}

// -----

// Other products are as they were: a matrix for each of the batch, a row that is repeated, a sum that goes on.
// CHECK-LABEL: func.func @others(
// CHECK-COUNT-3: linalg.batch_matmul
// CHECK-NOT: linalg.matmul
#row = affine_map<(b, k, n) -> (b, n)>
#id3 = affine_map<(b, k, n) -> (b, k, n)>
func.func @others(%x: tensor<2x4x8xf32>, %w: tensor<2x8x6xf32>, %v: tensor<2x6xf32>, %m: tensor<8x6xf32>, %y: tensor<2x4x6xf32>)
    -> (tensor<2x4x6xf32>, tensor<2x4x6xf32>, tensor<2x4x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x6xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x4x8xf32>, tensor<2x8x6xf32>) outs(%zeros : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %ew = tensor.empty() : tensor<2x8x6xf32>
  %rows = linalg.generic {indexing_maps = [#row, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%v : tensor<2x6xf32>) outs(%ew : tensor<2x8x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x8x6xf32>
  %q = linalg.batch_matmul ins(%x, %rows : tensor<2x4x8xf32>, tensor<2x8x6xf32>) outs(%zeros : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %repeated = linalg.broadcast ins(%m : tensor<8x6xf32>) outs(%ew : tensor<2x8x6xf32>) dimensions = [0]
  %r = linalg.batch_matmul ins(%x, %repeated : tensor<2x4x8xf32>, tensor<2x8x6xf32>) outs(%y : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  return %p, %q, %r : tensor<2x4x6xf32>, tensor<2x4x6xf32>, tensor<2x4x6xf32>
}
