// Passes of stage llvmdialect for imperative functions: each function changes if one of its passes is dropped.
// RUN: env MLIRTRI_NUM_THREADS=1 mlirtri-opt --bufferized-to-llvmdialect --split-input-file %s | FileCheck %s

// fold-memref-alias-ops, lower-affine: an element of another shape is read where it lies.
// CHECK-LABEL: llvm.func @mlirtri_reshaped
// CHECK: llvm.sdiv
// CHECK: llvm.srem
// CHECK-NOT: {{affine|unrealized}}
func.func @reshaped(%a: memref<8x6xf32>, %b: memref<48xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c48 = arith.constant 48 : index
  %flat = memref.collapse_shape %a [[0, 1]] : memref<8x6xf32> into memref<48xf32>
  %part = memref.subview %b[1] [40] [1] : memref<48xf32> to memref<40xf32, strided<[1], offset: 1>>
  scf.for %i = %c0 to %c48 step %c1 {
    %x = memref.load %flat[%i] : memref<48xf32>
    %j = arith.remui %i, %c48 : index
    memref.store %x, %part[%j] : memref<40xf32, strided<[1], offset: 1>>
  }
  return
}

// -----

// canonicalize before lower-affine: an axis of one element takes no division.
// CHECK-LABEL: llvm.func @mlirtri_one_row
// CHECK-NOT: llvm.sdiv
func.func @one_row(%a: memref<1x?x6xf32>, %b: memref<?x6xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %b, %c0 : memref<?x6xf32>
  %flat = memref.collapse_shape %a [[0, 1], [2]] : memref<1x?x6xf32> into memref<?x6xf32>
  scf.for %i = %c0 to %n step %c1 {
    %x = memref.load %flat[%i, %c0] : memref<?x6xf32>
    memref.store %x, %b[%i, %c0] : memref<?x6xf32>
  }
  return
}

// -----

// copies-to-linalg: copies are loops. hoist-buffers: memory is allocated once, before the loop.
// CHECK-LABEL: llvm.func @mlirtri_copied
// CHECK-NOT: llvm.icmp "slt"
// CHECK: llvm.call @malloc
// CHECK-NOT: memcpy
// CHECK: llvm.icmp "slt"
// CHECK-NOT: memcpy
// CHECK: llvm.call @free
func.func @copied(%a: memref<8xf32>, %b: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %t = memref.alloc() : memref<8xf32>
    memref.copy %a, %t : memref<8xf32> to memref<8xf32>
    %x = memref.load %t[%i] : memref<8xf32>
    memref.store %x, %b[%i] : memref<8xf32>
    memref.dealloc %t : memref<8xf32>
  }
  return
}

// -----

// selects-to-branches: buffers are chosen by branches.
// CHECK-LABEL: llvm.func @mlirtri_selected
// CHECK-NOT: llvm.select
// CHECK: llvm.cond_br %{{.*}}, ^{{.*}}(%{{.*}} : !llvm.struct<
// CHECK-NOT: llvm.select
func.func @selected(%a: memref<8xf32>, %b: memref<8xf32>, %c: memref<8xf32>, %flag: memref<i1>) {
  %f = memref.load %flag[] : memref<i1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %s = arith.select %f, %a, %b : memref<8xf32>
  scf.for %i = %c0 to %c8 step %c1 {
    %x = memref.load %s[%i] : memref<8xf32>
    memref.store %x, %c[%i] : memref<8xf32>
  }
  return
}

// -----

// loop-invariant-code-motion: a factor is computed before the loop. structured-to-loops: indices are those of the array.
#v = affine_map<(i) -> (i)>
// CHECK-LABEL: llvm.func @mlirtri_scaled_rows
// CHECK-SAME: (%[[A:[a-z0-9_]+]]: !llvm.ptr
// CHECK-NOT: llvm.icmp "slt"
// CHECK: llvm.sitofp
// CHECK: llvm.icmp "slt"
// CHECK-NOT: llvm.getelementptr %
// CHECK: llvm.getelementptr inbounds|nuw %[[A]][
// CHECK-NOT: llvm.getelementptr %
// CHECK: llvm.return
func.func @scaled_rows(%a: memref<8x100xf32>, %b: memref<8x100xf32>, %number: memref<i64>) {
  %k = memref.load %number[] : memref<i64>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %t = memref.alloc() : memref<100xf32>
    %row = memref.subview %a[%i, 0] [1, 100] [1, 1] : memref<8x100xf32> to memref<100xf32, strided<[1], offset: ?>>
    %to = memref.subview %b[%i, 0] [1, 100] [1, 1] : memref<8x100xf32> to memref<100xf32, strided<[1], offset: ?>>
    %n = arith.muli %k, %k : i64
    %f = arith.sitofp %n : i64 to f32
    linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%row : memref<100xf32, strided<[1], offset: ?>>) outs(%t : memref<100xf32>) {
    ^bb0(%x: f32, %o: f32):
      %y = arith.mulf %x, %f : f32
      linalg.yield %y : f32
    }
    linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%t : memref<100xf32>) outs(%to : memref<100xf32, strided<[1], offset: ?>>) {
    ^bb0(%x: f32, %o: f32):
      %y = arith.mulf %x, %x : f32
      linalg.yield %y : f32
    }
    memref.dealloc %t : memref<100xf32>
  }
  return
}

// -----

// keep-outer-loops: the outer loop has an annotation for LLVM, the long one inside has none.
// CHECK-LABEL: llvm.func @mlirtri_kept
// CHECK: llvm.icmp "slt"
// CHECK-NOT: loop_annotation
// CHECK: llvm.icmp "slt"
// CHECK-NOT: loop_annotation
// CHECK: llvm.br
// CHECK: llvm.br ^{{.*}} {loop_annotation = #loop_annotation}
// CHECK-NOT: loop_annotation
// CHECK: llvm.return
func.func @kept(%a: memref<3x128xf32>, %b: memref<3x128xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c128 = arith.constant 128 : index
  scf.for %i = %c0 to %c3 step %c1 {
    scf.for %j = %c0 to %c128 step %c1 {
      %x = memref.load %a[%i, %j] : memref<3x128xf32>
      memref.store %x, %b[%i, %j] : memref<3x128xf32>
    }
  }
  return
}
