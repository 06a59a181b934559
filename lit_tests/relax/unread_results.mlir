// drop-unread-results: the block computes a sum alone, without the maximum that nobody reads.
// RUN: mlirtri emit %s --from=fused --stage=relax | FileCheck %s
#map = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>

// CHECK-LABEL: class Module:
// CHECK: def sum(s: T.Buffer((), "float32"), a: T.Buffer((T.int64(4),), "float32"), out: T.Buffer((), "float32"))
// CHECK: R.call_tir(cls.sum, (s, a)
func.func @unread(%a: tensor<4xf32>, %s: tensor<f32>, %m: tensor<f32>) -> tensor<f32> {
  %0:2 = linalg.generic {indexing_maps = [#map, #none, #none], iterator_types = ["reduction"]}
      ins(%a : tensor<4xf32>) outs(%s, %m : tensor<f32>, tensor<f32>) {
  ^bb0(%x: f32, %sum: f32, %most: f32):
    %1 = arith.addf %sum, %x : f32
    %2 = arith.maximumf %most, %x : f32
    linalg.yield %1, %2 : f32, f32
  } -> (tensor<f32>, tensor<f32>)
  return %0#0 : tensor<f32>
}
