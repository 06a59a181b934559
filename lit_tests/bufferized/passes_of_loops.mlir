// Passes of stage bufferized for imperative functions: each function changes if its pass is dropped.
// RUN: mlirtri-opt --fused-to-bufferized --split-input-file %s | FileCheck %s

// constant-bodies-to-fills: rows are filled where they lie, not copied from a row of ones.
// CHECK-LABEL: func.func @constant_body
// CHECK: scf.for
// CHECK-NEXT: %[[ROW:.*]] = memref.subview
// CHECK-NEXT: linalg.fill ins(%{{.*}} : f32) outs(%[[ROW]] :
// CHECK: linalg.fill
// CHECK-NOT: linalg.{{generic|copy}}
// CHECK: return
func.func @constant_body(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %n = arith.constant 4 : index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %all = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (tensor<4x4xf32>) {
    %e = tensor.empty() : tensor<4xf32>
    %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
        outs(%e : tensor<4xf32>) {
    ^bb0(%out: f32):
      linalg.yield %one : f32
    } -> tensor<4xf32>
    %1 = tensor.insert_slice %0 into %x[%i, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<4x4xf32>
    %2 = tensor.insert_slice %0 into %1[%c0, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<4x4xf32>
    scf.yield %2 : tensor<4x4xf32>
  }
  return %all : tensor<4x4xf32>
}

// -----

// insert-into-latest: both insertions write into one array.
// CHECK-LABEL: func.func @inserted_twice
// CHECK: scf.for
// CHECK-NOT: memref<4xf32> to memref<4xf32>
// CHECK: memref.subview %[[ARRAY:.*]][0] [2] [1]
// CHECK: memref.load %[[ARRAY]]
// CHECK-NOT: memref<4xf32> to memref<4xf32>
// CHECK: }
func.func @inserted_twice(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<4xf32>) -> tensor<4xf32> {
  %n = arith.constant 4 : index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %all = scf.for %i = %c0 to %n step %c1 iter_args(%x = %c) -> (tensor<4xf32>) {
    %0 = tensor.insert_slice %a into %x[0] [2] [1] : tensor<2xf32> into tensor<4xf32>
    %v = tensor.extract %0[%i] : tensor<4xf32>
    %w = tensor.insert %v into %b[%c1] : tensor<2xf32>
    %1 = tensor.insert_slice %w into %x[0] [2] [1] : tensor<2xf32> into tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %all : tensor<4xf32>
}

// -----

// while-carries-everything: the array is in one buffer, which no iteration copies or frees.
// CHECK-LABEL: func.func @loop
// CHECK: scf.while (%{{[^,]*}} = %{{.*}}) : (index) -> index
// CHECK-NOT: memref.{{alloc|copy|dealloc}}
// CHECK: scf.yield
func.func @loop(%a: tensor<4xf32>, %rank0: tensor<f32>) -> tensor<4xf32> {
  %x = tensor.extract %rank0[] : tensor<f32>
  %n = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %0:2 = scf.while (%t = %a, %i = %n) : (tensor<4xf32>, index) -> (index, tensor<4xf32>) {
    %goes_on = arith.cmpi ugt, %i, %c1 : index
    scf.condition(%goes_on) %i, %t : index, tensor<4xf32>
  } do {
  ^bb0(%i: index, %t: tensor<4xf32>):
    %1 = tensor.insert %x into %t[%c1] : tensor<4xf32>
    %j = arith.subi %i, %c1 : index
    scf.yield %1, %j : tensor<4xf32>, index
  }
  return %0#1 : tensor<4xf32>
}

// -----

// one-buffer-per-carried-value: the condition computes in the loop's buffer.
// CHECK-LABEL: func.func @condition_computes
// CHECK: scf.while
// CHECK-NOT: memref.{{alloc|copy|dealloc}}
// CHECK: linalg.add ins(%[[ARRAY:.*]], %[[ARRAY]] : {{.*}}) outs(%[[ARRAY]] :
// CHECK-NOT: memref.{{alloc|copy|dealloc}}
// CHECK: memref.store %{{.*}}, %[[ARRAY]][
func.func @condition_computes(%a: tensor<4xf32>, %rank0: tensor<f32>) -> tensor<4xf32> {
  %x = tensor.extract %rank0[] : tensor<f32>
  %n = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %0 = scf.while (%t = %a, %i = %n) : (tensor<4xf32>, index) -> tensor<4xf32> {
    %goes_on = arith.cmpi ugt, %i, %c1 : index
    %e = tensor.empty() : tensor<4xf32>
    %s = linalg.add ins(%t, %t : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.condition(%goes_on) %s : tensor<4xf32>
  } do {
  ^bb0(%t: tensor<4xf32>):
    %1 = tensor.insert %x into %t[%c1] : tensor<4xf32>
    scf.yield %1, %c1 : tensor<4xf32>, index
  }
  return %0 : tensor<4xf32>
}

// -----

// updates-in-another-shape: an element of the flat array is written where it lies.
// CHECK-LABEL: func.func @another_shape
// CHECK: scf.for
// CHECK: %[[FLAT:.*]] = memref.collapse_shape
// CHECK-NEXT: memref.store %{{.*}}, %[[FLAT]][
// CHECK-NOT: memref.copy
// CHECK: }
func.func @another_shape(%a: tensor<4x4xf32>, %rank0: tensor<f32>) -> tensor<4x4xf32> {
  %x = tensor.extract %rank0[] : tensor<f32>
  %n = arith.constant 4 : index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %all = scf.for %i = %c0 to %n step %c1 iter_args(%y = %a) -> (tensor<4x4xf32>) {
    %flat = tensor.collapse_shape %y [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
    %0 = tensor.insert %x into %flat[%i] : tensor<16xf32>
    %back = tensor.expand_shape %0 [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>
    scf.yield %back : tensor<4x4xf32>
  }
  return %all : tensor<4x4xf32>
}
