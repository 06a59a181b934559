// Functions that are no bufferized kernels are refused where they stand.
// RUN: not mlirtri-opt --bufferized-to-llvmdialect --split-input-file %s 2>&1 | FileCheck %s

// CHECK: bufferized_module.mlir:[[# @LINE + 1]]:1: error: @f has an argument of type f32, and a bufferized kernel takes memrefs alone
func.func @f(%a: memref<4xf32>, %s: f32) {
  return
}

// -----

// CHECK: bufferized_module.mlir:[[# @LINE + 1]]:1: error: @g has results
func.func @g(%a: memref<4xf32>) -> memref<4xf32> {
  return %a : memref<4xf32>
}
