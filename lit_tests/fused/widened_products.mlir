// A product of widened copies of 16-bit floats reads them as they are; other operands stay.
// RUN: mlirtri-opt --split-input-file --widen-in-products %s | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @linear(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[W:.*]]: tensor<8x6xbf16>
// CHECK: linalg.matmul ins(%[[X]], %[[W]] : tensor<4x8xbf16>, tensor<8x6xbf16>) outs({{.*}} : tensor<4x6xf32>)
func.func @linear(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %start: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %ex = tensor.empty() : tensor<4x8xf32>
  %wide_x = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x8xbf16>) outs(%ex : tensor<4x8xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %wide = arith.extf %a : bf16 to f32
    linalg.yield %wide : f32
  } -> tensor<4x8xf32>
  %ew = tensor.empty() : tensor<8x6xf32>
  %wide_w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<8x6xbf16>) outs(%ew : tensor<8x6xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %wide = arith.extf %a : bf16 to f32
    linalg.yield %wide : f32
  } -> tensor<8x6xf32>
  %y = linalg.matmul ins(%wide_x, %wide_w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%start : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>

// A product with one operand of fp32 has no instruction of 16-bit floats.
// CHECK-LABEL: func.func @mixed(
// CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8x6xf32>)
func.func @mixed(%x: tensor<4x8xf32>, %w: tensor<8x6xf16>, %start: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %ew = tensor.empty() : tensor<8x6xf32>
  %wide_w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<8x6xf16>) outs(%ew : tensor<8x6xf32>) {
  ^bb0(%a: f16, %o: f32):
    %wide = arith.extf %a : f16 to f32
    linalg.yield %wide : f32
  } -> tensor<8x6xf32>
  %y = linalg.matmul ins(%x, %wide_w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%start : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
