// Marked loops that multiply matrices become a contraction; loops that add to another buffer than they store to do not.
// RUN: mlirtri-opt --loops-to-contractions %s | FileCheck %s

// CHECK-LABEL: func.func @product
// CHECK-NOT: scf.for
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "reduction", "parallel"]
// CHECK: return
func.func @product(%a: memref<32x32xf32>, %b: memref<32x32xf32>, %c: memref<32x32xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %size = arith.constant 32 : index
  scf.for %i = %zero to %size step %one {
    scf.for %k = %zero to %size step %one {
      scf.for %j = %zero to %size step %one {
        %left = memref.load %a[%i, %k] : memref<32x32xf32>
        %right = memref.load %b[%k, %j] : memref<32x32xf32>
        %total = memref.load %c[%i, %j] : memref<32x32xf32>
        %term = arith.mulf %left, %right : f32
        %sum = arith.addf %total, %term {mlirtri.product_loops = 3 : i64} : f32
        memref.store %sum, %c[%i, %j] : memref<32x32xf32>
      }
    }
  }
  return
}

// CHECK-LABEL: func.func @of_another_buffer
// CHECK-NOT: linalg.generic
// CHECK-COUNT-3: scf.for
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @of_another_buffer(
    %a: memref<32x32xf32>, %b: memref<32x32xf32>, %c: memref<32x32xf32>, %d: memref<32x32xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %size = arith.constant 32 : index
  scf.for %i = %zero to %size step %one {
    scf.for %k = %zero to %size step %one {
      scf.for %j = %zero to %size step %one {
        %left = memref.load %a[%i, %k] : memref<32x32xf32>
        %right = memref.load %b[%k, %j] : memref<32x32xf32>
        %total = memref.load %d[%i, %j] : memref<32x32xf32>
        %term = arith.mulf %left, %right : f32
        %sum = arith.addf %total, %term {mlirtri.product_loops = 3 : i64} : f32
        memref.store %sum, %c[%i, %j] : memref<32x32xf32>
      }
    }
  }
  return
}
