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
