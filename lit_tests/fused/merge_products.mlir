// Products of one matrix with several weights are one product, whose columns are split into heads once.
// RUN: mlirtri-opt --split-input-file --merge-products %s | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// CHECK-LABEL: func.func @queries_and_keys(
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<4x16xf32>, %[[WQ:arg[0-9]+]]: {{.*}}, %[[BQ:arg[0-9]+]]: {{.*}}, %[[WK:arg[0-9]+]]: {{.*}}, %[[BK:arg[0-9]+]]:
// CHECK: %[[W:.*]] = tensor.concat dim(0) %[[WQ]], %[[WK]] : {{.*}} -> tensor<12x16xf32>
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[W]]
// CHECK: %[[P:.*]] = linalg.matmul ins(%[[X]], %[[T]] :
// CHECK: %[[B:.*]] = tensor.concat dim(0) %[[BQ]], %[[BK]]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[B]] :
// CHECK: %[[HEADS:.*]] = tensor.expand_shape %[[S]] {{.*}} into tensor<4x3x4xf32>
// CHECK: %[[Q:.*]] = tensor.extract_slice %[[HEADS]][0, 0, 0] [4, 2, 4]
// CHECK: %[[K:.*]] = tensor.extract_slice %[[HEADS]][0, 2, 0] [4, 1, 4]
// CHECK: return %[[Q]], %[[K]]
func.func @queries_and_keys(
    %x: tensor<4x16xf32>, %wq: tensor<8x16xf32> {mlirtri.bound = "wq"}, %bq: tensor<8xf32> {mlirtri.bound = "bq"},
    %wk: tensor<4x16xf32> {mlirtri.bound = "wk"}, %bk: tensor<4xf32> {mlirtri.bound = "bk"})
    -> (tensor<4x2x4xf32>, tensor<4x1x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e8 = tensor.empty() : tensor<4x8xf32>
  %z8 = linalg.fill ins(%zero : f32) outs(%e8 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %t8 = tensor.empty() : tensor<16x8xf32>
  %tq = linalg.transpose ins(%wq : tensor<8x16xf32>) outs(%t8 : tensor<16x8xf32>) permutation = [1, 0]
  %q = linalg.matmul ins(%x, %tq : tensor<4x16xf32>, tensor<16x8xf32>) outs(%z8 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %sq = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %bq : tensor<4x8xf32>, tensor<8xf32>) outs(%e8 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %hq = tensor.expand_shape %sq [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xf32> into tensor<4x2x4xf32>
  %e4 = tensor.empty() : tensor<4x4xf32>
  %z4 = linalg.fill ins(%zero : f32) outs(%e4 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %t4 = tensor.empty() : tensor<16x4xf32>
  %tk = linalg.transpose ins(%wk : tensor<4x16xf32>) outs(%t4 : tensor<16x4xf32>) permutation = [1, 0]
  %k = linalg.matmul ins(%x, %tk : tensor<4x16xf32>, tensor<16x4xf32>) outs(%z4 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %sk = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%k, %bk : tensor<4x4xf32>, tensor<4xf32>) outs(%e4 : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %hk = tensor.expand_shape %sk [[0], [1, 2]] output_shape [4, 1, 4] : tensor<4x4xf32> into tensor<4x1x4xf32>
  return %hq, %hk : tensor<4x2x4xf32>, tensor<4x1x4xf32>
}

// -----

// A weight that calls change, or that the caller passes, is concatenated in each call: it stays alone.
// CHECK-LABEL: func.func @changed
// CHECK-NOT: tensor.concat
// CHECK-COUNT-2: linalg.matmul
func.func @changed(
    %x: tensor<4x16xf32>, %a: tensor<16x8xf32>, %b: tensor<16x8xf32> {mlirtri.bound = "b"})
    -> (tensor<4x2x4xf32>, tensor<4x2x4xf32>, tensor<16x8xf32> {mlirtri.state = "b"}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = linalg.matmul ins(%x, %a : tensor<4x16xf32>, tensor<16x8xf32>) outs(%z : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = linalg.matmul ins(%x, %b : tensor<4x16xf32>, tensor<16x8xf32>) outs(%z : tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xf32> into tensor<4x2x4xf32>
  %3 = tensor.expand_shape %1 [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xf32> into tensor<4x2x4xf32>
  return %2, %3, %b : tensor<4x2x4xf32>, tensor<4x2x4xf32>, tensor<16x8xf32>
}

// -----

// Where others have a bias or a factor, -0 is added and 1 multiplied, which change nothing.
// CHECK-LABEL: func.func @scaled_queries(
// CHECK-SAME: %{{.*}}: tensor<4x16xf32>, %{{.*}}: {{.*}}, %[[BQ:arg[0-9]+]]: tensor<8xf32> {{.*}}, %{{.*}}: tensor<16x4xf32>
// CHECK: %[[P:.*]] = linalg.matmul
// CHECK-NOT: linalg.matmul
// CHECK: %[[NONE:.*]] = arith.constant dense<-0.000000e+00> : tensor<4xf32>
// CHECK: %[[B:.*]] = tensor.concat dim(0) %[[BQ]], %[[NONE]]
// CHECK: %[[HALF:.*]] = arith.constant dense<5.000000e-01> : tensor<8xf32>
// CHECK: %[[ONE:.*]] = arith.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK: %[[F:.*]] = tensor.concat dim(0) %[[HALF]], %[[ONE]]
// CHECK: linalg.generic {{.*}} ins(%[[P]], %[[B]], %[[F]] :
// CHECK: arith.addf
// CHECK: arith.mulf
// CHECK: tensor.expand_shape {{.*}} {{\[\[}}0, 1], [2, 3]] output_shape [1, 4, 3, 4]
func.func @scaled_queries(
    %x: tensor<4x16xf32>, %wq: tensor<16x8xf32> {mlirtri.bound = "wq"}, %bq: tensor<8xf32> {mlirtri.bound = "bq"},
    %wk: tensor<16x4xf32> {mlirtri.bound = "wk"}) -> (tensor<1x4x2x4xf32>, tensor<1x4x1x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e8 = tensor.empty() : tensor<4x8xf32>
  %z8 = linalg.fill ins(%zero : f32) outs(%e8 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %q = linalg.matmul ins(%x, %wq : tensor<4x16xf32>, tensor<16x8xf32>) outs(%z8 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %vq = tensor.expand_shape %q [[0, 1], [2]] output_shape [1, 4, 8] : tensor<4x8xf32> into tensor<1x4x8xf32>
  %o8 = tensor.empty() : tensor<1x4x8xf32>
  %sq = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%vq, %bq : tensor<1x4x8xf32>, tensor<8xf32>) outs(%o8 : tensor<1x4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<1x4x8xf32>
  %mq = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%sq : tensor<1x4x8xf32>) outs(%o8 : tensor<1x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %half : f32
    linalg.yield %s : f32
  } -> tensor<1x4x8xf32>
  %hq = tensor.expand_shape %mq [[0], [1], [2, 3]] output_shape [1, 4, 2, 4] : tensor<1x4x8xf32> into tensor<1x4x2x4xf32>
  %e4 = tensor.empty() : tensor<4x4xf32>
  %z4 = linalg.fill ins(%zero : f32) outs(%e4 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %k = linalg.matmul ins(%x, %wk : tensor<4x16xf32>, tensor<16x4xf32>) outs(%z4 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %hk = tensor.expand_shape %k [[0, 1], [2, 3]] output_shape [1, 4, 1, 4] : tensor<4x4xf32> into tensor<1x4x1x4xf32>
  return %hq, %hk : tensor<1x4x2x4xf32>, tensor<1x4x1x4xf32>
}

// -----

// Products of bf16, which are rounded before their columns are split, are rounded together.
#id = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @rounded
// CHECK: %[[W:.*]] = tensor.concat dim(1) {{.*}} -> tensor<16x12xbf16>
// CHECK: %[[P:.*]] = linalg.matmul ins(%{{.*}}, %[[W]] : tensor<4x16xbf16>, tensor<16x12xbf16>)
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<4x12xf32>) outs({{.*}} : tensor<4x12xbf16>)
// CHECK: %[[HEADS:.*]] = tensor.expand_shape %[[R]] {{.*}} into tensor<4x3x4xbf16>
// CHECK: tensor.extract_slice %[[HEADS]][0, 0, 0] [4, 2, 4]
// CHECK: tensor.extract_slice %[[HEADS]][0, 2, 0] [4, 1, 4]
func.func @rounded(
    %x: tensor<4x16xbf16>, %wq: tensor<16x8xbf16> {mlirtri.bound = "wq"}, %wk: tensor<16x4xbf16> {mlirtri.bound = "wk"})
    -> (tensor<4x2x4xbf16>, tensor<4x1x4xbf16>) {
  %zero = arith.constant 0.0 : f32
  %e8 = tensor.empty() : tensor<4x8xf32>
  %z8 = linalg.fill ins(%zero : f32) outs(%e8 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %q = linalg.matmul ins(%x, %wq : tensor<4x16xbf16>, tensor<16x8xbf16>) outs(%z8 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b8 = tensor.empty() : tensor<4x8xbf16>
  %rq = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<4x8xf32>) outs(%b8 : tensor<4x8xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = arith.truncf %a : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<4x8xbf16>
  %hq = tensor.expand_shape %rq [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xbf16> into tensor<4x2x4xbf16>
  %e4 = tensor.empty() : tensor<4x4xf32>
  %z4 = linalg.fill ins(%zero : f32) outs(%e4 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %k = linalg.matmul ins(%x, %wk : tensor<4x16xbf16>, tensor<16x4xbf16>) outs(%z4 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %b4 = tensor.empty() : tensor<4x4xbf16>
  %rk = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%k : tensor<4x4xf32>) outs(%b4 : tensor<4x4xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = arith.truncf %a : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<4x4xbf16>
  %hk = tensor.expand_shape %rk [[0], [1, 2]] output_shape [4, 1, 4] : tensor<4x4xbf16> into tensor<4x1x4xbf16>
  return %hq, %hk : tensor<4x2x4xbf16>, tensor<4x1x4xbf16>
}
