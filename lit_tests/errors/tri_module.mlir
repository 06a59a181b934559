// What stage tri does not have is refused where it stands.
// RUN: not mlirtri-opt --tri-to-linalg --split-input-file %s 2>&1 | FileCheck %s

// CHECK: tri_module.mlir:[[# @LINE + 2]]:8: error: math.exp is not an operation of the tri dialect
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.exp %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK: tri_module.mlir:[[# @LINE + 1]]:1: error: the function @ext has no body
func.func private @ext(tensor<4xf32>) -> tensor<4xf32>
