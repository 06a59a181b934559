// TOSA comes from a file or from stdin; locations and our attributes come along only when asked for.
// RUN: mlirtri translate --tosa-to-mlir %s | FileCheck %s '--implicit-check-not=loc(' --implicit-check-not=mlirtri
// RUN: cat %s | mlirtri translate --tosa-to-mlir - --complete | FileCheck %s --check-prefix=COMPLETE
// RUN: mlirtri translate --mlir-to-relax %s | FileCheck %s --check-prefix=RELAX
// RUN: mlirtri translate %s | FileCheck %s
// RUN: not mlirtri translate - < %s 2>&1 | FileCheck %s --check-prefix=USAGE

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tosa.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  return %e : tensor<4xf32>
}

// CHECK-LABEL: func.func @main(
// CHECK: math.exp

// COMPLETE: mlirtri.imported
// COMPLETE: loc(

// RELAX: T.exp(
// RELAX: def main(
// RELAX: R.call_tir(

// USAGE: --mlir-to-relax, --onnx-to-mlir, --stablehlo-to-mlir, --tosa-to-mlir, --torch-to-mlir, --relax-to-mlir
