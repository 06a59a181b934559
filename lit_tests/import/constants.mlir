// Large constants are arguments whose tensors the program holds; globals are constants, or states that calls hand on.
// RUN: mlirtri emit %s::weights --stage=linalg | FileCheck %s
// RUN: mlirtri emit %s::next --stage=linalg | FileCheck %s --check-prefix=STATE
// RUN: mlirtri emit %s::filled --stage=linalg | FileCheck %s --check-prefix=FILLED
// RUN: mlirtri emit %s::narrow --stage=linalg | FileCheck %s --check-prefix=NARROW
// RUN: mlirtri emit %s::splat --stage=linalg | FileCheck %s --check-prefix=SPLAT

// CHECK-LABEL: func.func @weights(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %w: tensor<4xf32> {mlirtri.bound = "w"}) -> tensor<4xf32>
// CHECK-NOT: arith.constant
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[X]], %w : tensor<4xf32>, tensor<4xf32>)
func.func @weights(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = arith.constant dense_resource<w> : tensor<4xf32>
  %y = arith.addf %x, %w : tensor<4xf32>
  return %y : tensor<4xf32>
}

ml_program.global private mutable @seed(dense<5> : tensor<i64>) : tensor<i64>
ml_program.global private @step(dense<3> : tensor<i64>) : tensor<i64>

// STATE-NOT: ml_program
// STATE-LABEL: func.func @next(
// STATE-SAME: %seed: tensor<i64> {mlirtri.bound = "seed"})
// STATE-SAME: -> (tensor<i64>, tensor<i64> {mlirtri.state = "seed"})
// STATE: arith.constant dense<3> : tensor<i64>
func.func @next() -> tensor<i64> {
  %s = ml_program.global_load @seed : tensor<i64>
  %c = ml_program.global_load_const @step : tensor<i64>
  %t = arith.addi %s, %c : tensor<i64>
  ml_program.global_store @seed = %t : tensor<i64>
  return %t : tensor<i64>
}

// FILLED-LABEL: func.func @filled(
// FILLED: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// FILLED: tensor.empty() : tensor<100000xf32>
// FILLED: linalg.fill ins(%[[ONE]] : f32)
func.func @filled() -> tensor<100000xf32> {
  %x = arith.constant dense<1.0> : tensor<100000xf32>
  return %x : tensor<100000xf32>
}

// constants-to-parameters: weights of 8-bit floats are arguments before arguments are stored as integers.
// NARROW-LABEL: func.func @narrow(
// NARROW-SAME: %bytes: tensor<4xi8> {mlirtri.bound = "bytes", mlirtri.dtype = "float8_e5m2"})
func.func @narrow(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = arith.constant dense_resource<bytes> : tensor<4xf8E5M2>
  %y = arith.extf %w : tensor<4xf8E5M2> to tensor<4xf32>
  %z = arith.addf %x, %y : tensor<4xf32>
  return %z : tensor<4xf32>
}

// new-constants-to-parameters: where sizes are inferred, constants are folded, and long ones become loops.
// SPLAT-LABEL: func.func @splat(
// SPLAT-NOT: dense<1.0
// SPLAT: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<100000xf32>)
func.func @splat(%x: tensor<?xf32> loc("x")) -> (tensor<?xf32>, tensor<100000xf32>) {
  %one = arith.constant 1.0 : f32
  %s = tensor.splat %one : tensor<100000xf32>
  %y = arith.addf %x, %x : tensor<?xf32>
  return %y, %s : tensor<?xf32>, tensor<100000xf32>
}

{-#
  dialect_resources: {
    builtin: {
      w: "0x040000000000803F000000400000404000008040",
      bytes: "0x0100000000010203"
    }
  }
#-}
