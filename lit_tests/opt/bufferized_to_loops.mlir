// Passes that make loops of imperative functions, on CPUs and devices: each function changes if its pass is dropped.
// RUN: mlirtri-opt --bufferized-to-loops --split-input-file %s | FileCheck %s

// private-arrays: each iteration allocates the array that it alone uses, so that all may run at once.
// CHECK-LABEL: func.func @private
// CHECK-NOT: memref.alloca
// CHECK: scf.parallel
// CHECK-NEXT: memref.alloca() : memref<4xf32>
func.func @private(%a: memref<8x4xf32>, %b: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %t = memref.alloca() : memref<4xf32>
  scf.for %i = %c0 to %c8 step %c1 {
    scf.for %j = %c0 to %c4 step %c1 {
      %x = memref.load %a[%i, %j] : memref<8x4xf32>
      memref.store %x, %t[%j] : memref<4xf32>
    }
    %k = arith.remui %i, %c4 : index
    %y = memref.load %t[%k] : memref<4xf32>
    memref.store %y, %b[%i] : memref<8xf32>
  } {mlirtri.parallel}
  return
}

// -----

// forward-copies: a row is read where it lies, though another row of the array is written.
// CHECK-LABEL: func.func @row_update
// CHECK-NOT: memref.alloc
// CHECK: scf.parallel
// CHECK-COUNT-2: memref.load %[[ARRAY:.*]][
// CHECK: memref.store %{{.*}}, %[[ARRAY]][
// CHECK-NOT: memref.{{alloc|dealloc}}
// CHECK: return
func.func @row_update(%a: memref<4x8xf32>, %s: memref<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c3 step %c1 {
    %k = arith.addi %i, %c1 : index
    %x = memref.load %s[] : memref<f32>
    %row = memref.subview %a[%i, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    %next = memref.subview %a[%k, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    %u = memref.alloc() : memref<8xf32>
    linalg.copy ins(%row : memref<8xf32, strided<[1], offset: ?>>) outs(%u : memref<8xf32>)
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
       ins(%u : memref<8xf32>) outs(%next : memref<8xf32, strided<[1], offset: ?>>) {
    ^bb0(%p: f32, %o: f32):
      %m = arith.mulf %p, %x : f32
      %q = arith.subf %o, %m : f32
      linalg.yield %q : f32
    }
    memref.dealloc %u : memref<8xf32>
  }
  return
}

// -----

// order-loops: columns are summed row by row, so that the elements of the innermost loop are neighbours.
// CHECK-LABEL: func.func @columns
// CHECK: scf.for
// CHECK: scf.for %[[ROW:.*]] = %{{.*}} to %c16
// CHECK-NEXT: scf.parallel (%[[COLUMN:.*]]) = (%{{.*}}) to (%c8)
// CHECK: memref.load %{{.*}}[%[[ROW]], %[[COLUMN]]]
// CHECK: fastmath<reassoc,contract>
func.func @columns(%a: memref<16x8xf32>, %b: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c3 step %c1 {
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
       ins(%a : memref<16x8xf32>) outs(%b : memref<8xf32>) {
    ^bb0(%p: f32, %o: f32):
      %q = arith.addf %o, %p : f32
      linalg.yield %q : f32
    }
  }
  return
}

// -----

// join-reductions: a sum of all elements of an open matrix has one loop, in chunks.
// CHECK-LABEL: func.func @open_total
// CHECK: %[[FLAT:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%{{.*}}], strides: [1]
// CHECK: scf.parallel
// CHECK: memref.load %[[FLAT]][
func.func @open_total(%a: memref<?x?xf32>, %b: memref<f32>) {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
     ins(%a : memref<?x?xf32>) outs(%b : memref<f32>) {
  ^bb0(%p: f32, %o: f32):
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  }
  return
}

// -----

// loops-in-chunks: 64 chunks of a sum, and pairs of their sums.
// CHECK-LABEL: func.func @total
// CHECK: memref.alloca() : memref<64xf32>
// CHECK: scf.parallel (%{{.*}}) = (%{{.*}}) to (%c64)
// CHECK: arith.addf {{.*}} fastmath<reassoc>
// CHECK: scf.for %{{.*}} = %{{.*}} to %c32
func.func @total(%a: memref<100000xf32>, %b: memref<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 100000 : index
  %z = arith.constant 0.0 : f32
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%t = %z) -> f32 {
    %x = memref.load %a[%i] : memref<100000xf32>
    %u = arith.addf %t, %x : f32
    scf.yield %u : f32
  }
  memref.store %s, %b[] : memref<f32>
  return
}
