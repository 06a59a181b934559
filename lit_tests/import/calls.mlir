// One function is left, under a name that every language has, with all that it calls inside of it.
// RUN: mlirtri emit %s::main.1 --stage=linalg | FileCheck %s --implicit-check-not=func.func
// RUN: not mlirtri emit %s::even --stage=linalg 2>&1 | FileCheck %s --check-prefix=CYCLE

func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK: func.func @main_1(
// CHECK-COUNT-2: arith.addf
// CHECK-NOT: arith.addf
func.func @main.1(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = call @twice(%y) : (tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}

// CYCLE: calls.mlir:[[# @LINE + 3]]:8: error: 'even' calls itself through 'odd'
// CYCLE: calls.mlir:[[# @LINE + 6]]:8: note: 'odd' calls 'even' here
func.func @even(%n: i32) -> i1 {
  %r = call @odd(%n) : (i32) -> i1
  return %r : i1
}
func.func @odd(%n: i32) -> i1 {
  %r = call @even(%n) : (i32) -> i1
  return %r : i1
}
