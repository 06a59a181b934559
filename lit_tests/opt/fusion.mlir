// RUN: mlirtri-opt --linalg-fuse-elementwise-ops --canonicalize %s | FileCheck %s
// RUN: mlirtri-opt --pass-pipeline='builtin.module(func.func(linalg-fuse-elementwise-ops),canonicalize)' - < %s | FileCheck %s

// Two additions become one structured operation, whose body adds twice.

#id = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @add_twice
// CHECK-COUNT-1: linalg.generic
// CHECK: %[[SUM:.*]] = arith.addf %[[A:.*]], %{{.*}} : f32
// CHECK-NEXT: %[[OUT:.*]] = arith.addf %[[SUM]], %[[A]] : f32
// CHECK-NEXT: linalg.yield %[[OUT]]
// CHECK-NOT: linalg.generic
func.func @add_twice(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %e = tensor.empty() : tensor<2x3xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %b : tensor<2x3xf32>, tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<2x3xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0, %a : tensor<2x3xf32>, tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
