// Passes of ours before bufferization, one by one: each function changes if its pass is dropped.
// RUN: mlirtri-opt --drop-unread-results --splats-to-fills --constant-bodies-to-fills --fill-at-use %s --split-input-file | FileCheck %s --check-prefixes=CHECK,FILLS
// RUN: mlirtri-opt --one-empty-per-loop --insert-into-latest --concat-to-slices --elementwise-in-place --split-input-file %s | FileCheck %s --check-prefixes=CHECK,PLACES
// RUN: mlirtri-opt --separate-shared-memory --while-carries-everything --split-input-file %s | FileCheck %s --check-prefixes=CHECK,SHARED
// RUN: mlirtri-opt --tiles-apart --split-input-file %s | FileCheck %s --check-prefixes=CHECK,TILES

#map = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>

// drop-unread-results: a sum alone, without the maximum that nobody reads.
// CHECK-LABEL: func.func @unread
// FILLS: linalg.generic {{.*}} ins(%{{.*}}) outs(%{{[^,]*}} : tensor<f32>)
// FILLS-NOT: arith.maximumf
// CHECK: return
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

// -----

// splats-to-fills: memory is filled, not copied from a constant.
// CHECK-LABEL: func.func @splat
// FILLS-NOT: dense
// FILLS: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<4xf32>)
// CHECK: return
func.func @splat(%a: tensor<4xf32>) -> tensor<4xf32> {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  %0 = linalg.add ins(%a, %a : tensor<4xf32>, tensor<4xf32>) outs(%ones : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// constant-bodies-to-fills.
// CHECK-LABEL: func.func @constant_body
// FILLS: %[[ONE:.*]] = arith.constant 1.0
// FILLS-NOT: linalg.generic
// FILLS: linalg.fill ins(%[[ONE]] : f32)
// CHECK: return
func.func @constant_body(%e: tensor<4xf32>) -> tensor<4xf32> {
  %one = arith.constant 1.0 : f32
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      outs(%e : tensor<4xf32>) {
  ^bb0(%out: f32):
    linalg.yield %one : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// fill-at-use: each insertion fills the array that it writes into.
// CHECK-LABEL: func.func @two_starts
// FILLS: linalg.fill
// FILLS-NEXT: tensor.insert_slice
// FILLS-NEXT: linalg.fill
// FILLS-NEXT: tensor.insert_slice
// CHECK: return
func.func @two_starts(%a: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %0 = tensor.insert_slice %a into %f[0] [2] [1] : tensor<2xf32> into tensor<4xf32>
  %1 = tensor.insert_slice %a into %f[2] [2] [1] : tensor<2xf32> into tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// one-empty-per-loop: loop-carried values that start alike have memory of their own.
// CHECK-LABEL: func.func @two_carried
// PLACES: tensor.empty
// PLACES-NEXT: %[[FIRST:.*]] = tensor.empty
// PLACES-NEXT: %[[SECOND:.*]] = tensor.empty
// PLACES: scf.for {{.*}} iter_args(%{{.*}} = %[[SECOND]], %{{.*}} = %[[FIRST]])
// CHECK: return
func.func @two_carried(%x: f32, %n: index) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %e = tensor.empty() : tensor<4xf32>
  %0:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %e, %b = %e) -> (tensor<4xf32>, tensor<4xf32>) {
    %1 = tensor.insert %x into %a[%i] : tensor<4xf32>
    %2 = tensor.insert %x into %b[%c0] : tensor<4xf32>
    scf.yield %1, %2 : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// insert-into-latest: one array, not the one before the first insertion as well.
// CHECK-LABEL: func.func @inserted_twice
// PLACES: %[[EARLIER:.*]] = tensor.insert_slice
// PLACES-NEXT: tensor.insert_slice %{{.*}} into %[[EARLIER]]
// CHECK: return
func.func @inserted_twice(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tensor.insert_slice %a into %c[0] [2] [1] : tensor<2xf32> into tensor<4xf32>
  %1 = tensor.insert_slice %b into %c[0] [2] [1] : tensor<2xf32> into tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// concat-to-slices: parts are written where they go.
// CHECK-LABEL: func.func @joined
// PLACES-NOT: tensor.concat
// PLACES: tensor.insert_slice %{{.*}} into %{{.*}}[0] [2] [1]
// PLACES: tensor.insert_slice %{{.*}} into %{{.*}}[2] [3] [1]
// CHECK: return
func.func @joined(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<5xf32> {
  %0 = tensor.concat dim(0) %a, %b : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

// elementwise-in-place: the second operation writes over the first one's result.
// CHECK-LABEL: func.func @in_place
// PLACES: %[[SUM:.*]] = linalg.add
// PLACES: linalg.generic {{.*}} ins(%[[SUM]] : {{.*}}) outs(%[[SUM]] :
// CHECK: return
func.func @in_place(%a: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.add ins(%a, %a : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %1 = tensor.empty() : tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%0 : tensor<4xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%x: f32, %out: f32):
    %3 = math.exp %x : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// separate-shared-memory: an array that two results are computed from is in neither's buffer.
// tiles-apart: an empty tensor is an allocation.
// CHECK-LABEL: func.func @two_results
// SHARED: bufferization.alloc_tensor
// TILES-NOT: tensor.empty
// TILES: bufferization.alloc_tensor
// CHECK: return
func.func @two_results(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.add ins(%a, %a : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.exp ins(%a : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = linalg.log ins(%a : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// -----

// while-carries-everything: the condition forwards both values, in their order.
// CHECK-LABEL: func.func @loop
// SHARED: scf.while (%[[A:.*]] = %{{.*}}, %[[N:.*]] = %{{.*}}) : (tensor<4xf32>, index) -> (tensor<4xf32>, index)
// SHARED: scf.condition(%{{.*}}) %[[A]], %[[N]]
// CHECK: return
func.func @loop(%a: tensor<4xf32>, %n: index, %x: f32) -> tensor<4xf32> {
  %c1 = arith.constant 1 : index
  %0 = scf.while (%t = %a, %i = %n) : (tensor<4xf32>, index) -> tensor<4xf32> {
    %goes_on = arith.cmpi ugt, %i, %c1 : index
    scf.condition(%goes_on) %t : tensor<4xf32>
  } do {
  ^bb0(%t: tensor<4xf32>):
    %1 = tensor.insert %x into %t[%c1] : tensor<4xf32>
    scf.yield %1, %c1 : tensor<4xf32>, index
  }
  return %0 : tensor<4xf32>
}
