// Passes of stage bufferized that few programs need: each function changes if its pass is dropped.
// RUN: mlirtri-opt --fused-to-bufferized --split-input-file %s | FileCheck %s

// compute-in-destinations: the product reads its part of the array where it lies, not a copy of it.
// CHECK-LABEL: func.func @reads_its_destination
// CHECK: scf.for
// CHECK: %[[PART:.*]] = memref.subview %{{.*}}[4] [4] [1]
// CHECK-NEXT: linalg.mul ins(%[[PART]], %{{.*}}) outs(%[[NEW:.*]] : memref<4xf32>)
// CHECK-NEXT: linalg.copy {{.*}}ins(%[[NEW]] : {{.*}}) outs(%[[PART]]
func.func @reads_its_destination(%a: tensor<8xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %empty = tensor.empty() : tensor<8xf32>
  %copy = linalg.copy ins(%a : tensor<8xf32>) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
  %all = scf.for %i = %c0 to %c4 step %c1 iter_args(%x = %copy) -> (tensor<8xf32>) {
    %first = tensor.empty() : tensor<4xf32>
    %sum = linalg.add ins(%b, %b : tensor<4xf32>, tensor<4xf32>) outs(%first : tensor<4xf32>) -> tensor<4xf32>
    %second = tensor.empty() : tensor<4xf32>
    %part = tensor.extract_slice %x[4] [4] [1] : tensor<8xf32> to tensor<4xf32>
    %product = linalg.mul ins(%part, %b : tensor<4xf32>, tensor<4xf32>) outs(%second : tensor<4xf32>) -> tensor<4xf32>
    %half = tensor.insert_slice %product into %x[4] [4] [1] : tensor<4xf32> into tensor<8xf32>
    %whole = tensor.insert_slice %sum into %half[0] [4] [1] : tensor<4xf32> into tensor<8xf32>
    scf.yield %whole : tensor<8xf32>
  }
  return %all : tensor<8xf32>
}

// -----

// convert-bufferization-to-memref: a function that may return its argument returns a copy, which is a clone at first.
// CHECK-LABEL: func.func private @one_of_both
// CHECK-NOT: bufferization.
// CHECK: memref.copy
// CHECK-LABEL: func.func @calls
// CHECK-NOT: bufferization.
// CHECK: return
func.func private @one_of_both(%a: tensor<8xf32>, %is_doubled: i1) -> tensor<8xf32> {
  %empty = tensor.empty() : tensor<8xf32>
  %sum = linalg.add ins(%a, %a : tensor<8xf32>, tensor<8xf32>) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
  %chosen = arith.select %is_doubled, %sum, %a : tensor<8xf32>
  return %chosen : tensor<8xf32>
}
func.func @calls(%a: tensor<8xf32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %first = tensor.extract %a[%c0] : tensor<8xf32>
  %is_negative = arith.cmpf olt, %first, %zero : f32
  %result = func.call @one_of_both(%a, %is_negative) : (tensor<8xf32>, i1) -> tensor<8xf32>
  return %result : tensor<8xf32>
}

// -----

// one-fill-per-use: each product starts from zeros of its own, in its result.
// CHECK-LABEL: func.func @one_zero
// CHECK-NOT: {{alloc|copy}}
// CHECK: linalg.fill {{.*}} outs(%[[SECOND:.*]] : memref<8x8xf32>)
// CHECK: linalg.fill {{.*}} outs(%[[FIRST:.*]] : memref<8x8xf32>)
// CHECK: linalg.matmul {{.*}} outs(%[[FIRST]] : memref<8x8xf32>)
// CHECK: linalg.matmul {{.*}} outs(%[[SECOND]] : memref<8x8xf32>)
// CHECK-NOT: {{alloc|copy}}
// CHECK: return
func.func @one_zero(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = linalg.matmul ins(%b, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// elementwise-in-place: the second operation writes over the first one's result.
// CHECK-LABEL: func.func @in_place
// CHECK-NOT: memref.alloc
// CHECK: linalg.add {{.*}} outs(%[[RESULT:.*]] : memref<4xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[RESULT]] : memref<4xf32>) outs(%[[RESULT]] : memref<4xf32>)
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

// separate-shared-memory: what two results are computed from is in neither's buffer.
// promote-buffers-to-stack: small buffers are on the stack.
// CHECK-LABEL: func.func @two_results
// CHECK: %[[SHARED:.*]] = memref.alloca()
// CHECK-NEXT: linalg.add {{.*}} outs(%[[SHARED]] : memref<4xf32>)
func.func @two_results(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.add ins(%a, %a : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.exp ins(%a : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = linalg.log ins(%a : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
