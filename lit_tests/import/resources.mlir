// A constant whose data is in the section of resources is a parameter, by the pass alone as in a whole compilation.
// RUN: mlirtri-opt --import-mlir %s | FileCheck %s
// RUN: mlirtri emit %s --stage=linalg | FileCheck %s

// CHECK-LABEL: func.func @f(
// CHECK-SAME: tensor<4xf32>, %[[W:.*]]: tensor<4xf32> {mlirtri.bound = "w"})
// CHECK: linalg.add ins(%{{.*}}, %[[W]] :
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = arith.constant dense_resource<w> : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.add ins(%x, %w : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

{-# dialect_resources: { builtin: { w: "0x040000000000803F000000400000404000008040" } } #-}
