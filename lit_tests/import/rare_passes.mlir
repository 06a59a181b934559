// Passes that imported MLIR goes through: each function changes if its pass is dropped.
// RUN: mlirtri-opt --import-mlir --split-input-file %s | FileCheck %s

// zero-sized-tensors: nothing is computed of tensors without elements.
// CHECK-LABEL: func.func @empty
// CHECK-NOT: linalg
// CHECK: return
func.func @empty(%a: tensor<0x4xf32>, %b: tensor<0x4xf32>) -> tensor<0x4xf32> {
  %e = tensor.empty() : tensor<0x4xf32>
  %0 = linalg.add ins(%a, %b : tensor<0x4xf32>, tensor<0x4xf32>) outs(%e : tensor<0x4xf32>) -> tensor<0x4xf32>
  return %0 : tensor<0x4xf32>
}

// -----

// complex-to-parts: a modulus is computed of the real and the imaginary part.
// CHECK-LABEL: func.func @parts
// CHECK: complex.re
// CHECK: complex.im
// CHECK-NOT: complex.abs
// CHECK: return
func.func @parts(%a: tensor<4xcomplex<f32>>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%a : tensor<4xcomplex<f32>>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: complex<f32>, %o: f32):
    %r = complex.abs %x : complex<f32>
    linalg.yield %r : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// lift-cf-to-scf: branches between blocks are structured.
// CHECK-LABEL: func.func @branch
// CHECK: scf.if %{{.*}} -> (tensor<4xf32>)
// CHECK-NOT: {{ cf[.]}}
func.func @branch(%a: tensor<4xf32>, %flag: tensor<i1>) -> tensor<4xf32> {
  %f = tensor.extract %flag[] : tensor<i1>
  cf.cond_br %f, ^bb1, ^bb2(%a : tensor<4xf32>)
^bb1:
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.exp ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  cf.br ^bb2(%0 : tensor<4xf32>)
^bb2(%r: tensor<4xf32>):
  return %r : tensor<4xf32>
}

// -----

// control-flow: a switch becomes branches.
// CHECK-LABEL: func.func @switch
// CHECK: %[[IS_CASE:.*]] = arith.cmpi eq
// CHECK: scf.if %[[IS_CASE]]
// CHECK-NOT: scf.index_switch
// CHECK: return
func.func @switch(%x: tensor<4xf32>, %i: tensor<i64>) -> tensor<4xf32> {
  %n = tensor.extract %i[] : tensor<i64>
  %k = arith.index_cast %n : i64 to index
  %r = scf.index_switch %k -> tensor<4xf32>
  case 2 {
    %y = arith.addf %x, %x : tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  default {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// structured-operations: elements by a function of their index are a loop nest like others.
// CHECK-LABEL: func.func @generated
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: tensor.extract %{{.*}}[%[[I]]]
// CHECK-NOT: tensor.generate
// CHECK: return
func.func @generated(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tensor.generate {
  ^bb0(%i: index):
    %x = tensor.extract %a[%i] : tensor<4xf32>
    tensor.yield %x : f32
  } : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// tm-tensor-to-loops: a scan is a loop.
// CHECK-LABEL: func.func @scanned
// CHECK: scf.for {{.*}} iter_args(
// CHECK: arith.addf
// CHECK-NOT: tm_tensor
// CHECK: return
func.func @scanned(%a: tensor<4xf32>, %i: tensor<f32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r, %t = tm_tensor.scan dimension(0) inclusive(true) ins(%a : tensor<4xf32>) outs(%e, %i : tensor<4xf32>, tensor<f32>) {
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    tm_tensor.yield %s : f32
  } -> tensor<4xf32>, tensor<f32>
  return %r : tensor<4xf32>
}

// -----

// undefined-elements: the memory of an earlier call is not returned.
// CHECK-LABEL: func.func @undefined
// CHECK: %[[ZEROS:.*]] = linalg.fill
// CHECK: return %[[ZEROS]]
func.func @undefined() -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  return %e : tensor<4xf32>
}

// -----

// partial-outputs-to-loops: elements beside the diagonal stay as they are.
// CHECK-LABEL: func.func @diagonal
// CHECK: scf.for %[[I:.*]] = %{{.*}} iter_args(%[[S:.*]] = %{{.*}})
// CHECK: tensor.insert %{{.*}} into %[[S]][%[[I]], %[[I]]]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @diagonal(%a: tensor<4xf32>, %s: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i, i)>], iterator_types = ["parallel"]}
      ins(%a : tensor<4xf32>) outs(%s : tensor<4x4xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// straight-line-bodies: an index that may be out of bounds is clamped.
// CHECK-LABEL: func.func @gathered
// CHECK: %[[LAST:.*]] = arith.constant 3 : index
// CHECK: %[[LOW:.*]] = arith.minsi %{{.*}}, %[[LAST]]
// CHECK: %[[INDEX:.*]] = arith.maxsi %[[LOW]]
// CHECK: tensor.extract %{{.*}}[%[[INDEX]]]
func.func @gathered(%a: tensor<4xf32>, %n: tensor<4xi64>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%n : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%k: i64, %o: f32):
    %i = arith.index_cast %k : i64 to index
    %x = tensor.extract %a[%i] : tensor<4xf32>
    linalg.yield %x : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// inline: a function with branches between blocks is structured where it is called.
// CHECK-LABEL: func.func @caller
// CHECK: scf.if
// CHECK-NOT: call
func.func @caller(%a: tensor<4xf32>, %flag: tensor<i1>) -> tensor<4xf32> {
  %0 = call @callee(%a, %flag) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
  %1 = arith.addf %0, %a : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @callee(%a: tensor<4xf32>, %flag: tensor<i1>) -> tensor<4xf32> {
  %f = tensor.extract %flag[] : tensor<i1>
  cf.cond_br %f, ^bb1, ^bb2
^bb1:
  %0 = arith.mulf %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
^bb2:
  return %a : tensor<4xf32>
}
