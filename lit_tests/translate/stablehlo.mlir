// A file of StableHLO needs no --from: its own stage comes first, then those that all programs have.
// RUN: mlirtri translate --stablehlo-to-mlir %s | FileCheck %s
// RUN: mlirtri translate --stablehlo-to-mlir %s --bytecode | mlirtri emit - --stage=linalg | FileCheck %s
// RUN: mlirtri emit %s::main --stage=stablehlo,fused | FileCheck %s --check-prefix=STAGES
// RUN: mlirtri run %s --pipeline=mlir | FileCheck %s --check-prefix=RAN
// RUN: not mlirtri emit %s --stage=tri 2>&1 | FileCheck %s --check-prefix=STAGE

func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %sum = stablehlo.add %x, %y : tensor<4xf32>
  return %sum : tensor<4xf32>
}

// CHECK-LABEL: func.func @main(
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK-NOT: stablehlo
// CHECK-NOT: loc(

// STAGES: // ===== main: stablehlo =====
// STAGES: stablehlo.add
// STAGES: // ===== main: fused =====
// STAGES: linalg.generic

// RAN: result: float32[4]

// STAGE: has no stage 'tri'
// STAGE: its stages are stablehlo, linalg, fused, relax
