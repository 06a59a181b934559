// What Python calls takes and gives tensors: numbers are tensors of rank 0, `index` is i64, signs are attributes.
// RUN: mlirtri emit %s::f --stage=linalg | FileCheck %s
// RUN: mlirtri emit %s::narrow --stage=linalg | FileCheck %s --check-prefix=NARROW
// RUN: not mlirtri emit %s::refused --stage=linalg 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not mlirtri emit %s::foreign --stage=linalg 2>&1 | FileCheck %s --check-prefix=FOREIGN

// CHECK-LABEL: func.func @f(
// CHECK-SAME: %n: tensor<i64>, %x: tensor<4xi8> {mlirtri.dtype = "uint8"})
// CHECK-SAME: -> (tensor<f32> {mlirtri.number}, tensor<4xi8> {mlirtri.dtype = "uint8"}, tensor<2xi64>)
// CHECK: %[[N:.*]] = tensor.extract %n[] : tensor<i64>
// CHECK: arith.index_cast %[[N]] : i64 to index
// CHECK: %[[S:.*]] = arith.sitofp %{{.*}} : i64 to f32
// CHECK: %[[T:.*]] = tensor.from_elements %[[S]] : tensor<f32>
// CHECK: return %[[T]], %x, %{{.*}} : tensor<f32>, tensor<4xi8>, tensor<2xi64>
func.func @f(%n: index loc("n"), %x: tensor<4xui8> loc("x")) -> (f32, tensor<4xui8>, tensor<2xindex>)
    attributes {llvm.emit_c_interface} {
  %m = arith.index_cast %n : index to i64
  %s = arith.sitofp %m : i64 to f32
  %c = arith.constant dense<[1, 2]> : tensor<2xindex>
  return %s, %x, %c : f32, tensor<4xui8>, tensor<2xindex>
}

// 8-bit floats are stored, and converted by arithmetic on their bits.
// NARROW-LABEL: func.func @narrow(
// NARROW-SAME: tensor<4xi8> {mlirtri.dtype = "float8_e5m2"}
// NARROW-NOT: f8E5M2
// NARROW: arith.extui %{{.*}} : i8 to i32
// NARROW: arith.bitcast %{{.*}} : i32 to f32
func.func @narrow(%x: tensor<4xf8E5M2>) -> tensor<4xf32> {
  %y = arith.extf %x : tensor<4xf8E5M2> to tensor<4xf32>
  return %y : tensor<4xf32>
}

// REFUSED: boundary.mlir:[[# @LINE + 6]]:1: error: argument 'x' is a memref<4xf32>
// REFUSED-NEXT: func.func @refused(%x: memref<4xf32> loc("x"), %y: tensor<4xi4> loc("y")) {
// REFUSED-NEXT: ^
// REFUSED-NEXT: help: give the module as it is before bufferization, on tensors
// REFUSED: error: argument 'y' is a tensor<4xi4>, and there are no tensors of i4 here
// REFUSED: help: cast it to i8
func.func @refused(%x: memref<4xf32> loc("x"), %y: tensor<4xi4> loc("y")) {
  return
}

// limits: operations that nothing lowers are refused on their line.
// FOREIGN: boundary.mlir:[[# @LINE + 2]]:8: error: no translation to linalg for 'toy.shift'
func.func @foreign(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "toy.shift"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
