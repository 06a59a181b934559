// Passes, conversions and translations of mlirtri stand among those of upstream.
// RUN: mlirtri-opt --tri-to-linalg --linalg-fuse-elementwise-ops --canonicalize %s | FileCheck %s
// RUN: mlirtri-opt --tri-to-linalg --guard-producers --mlir-print-ir-after=tri-to-linalg %s 2>&1 | FileCheck %s --check-prefix=DUMP
// RUN: mlirtri-opt --pass-pipeline='builtin.module(tri-to-linalg,cse,linalg-to-fused,linalg-to-relax)' %s | FileCheck %s --check-prefix=RELAX
// RUN: not mlirtri-opt --tri-to-lnalg %s 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not mlirtri-opt --tri-to-relax --cse %s 2>&1 | FileCheck %s --check-prefix=LAST

// CHECK-LABEL: func.func @add_twice
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK-NEXT: arith.addf %[[SUM]]
// CHECK-NOT: linalg.generic

// DUMP: IR Dump After TriToLinalg: tri-to-linalg
// DUMP-NOT: IR Dump

// RELAX: class Module:
// RELAX: [v_i0] + {{.*}}[v_i0] + {{.*}}[v_i0]

// NEAR: --tri-to-lnalg is neither an option nor a pass; did you mean 'tri-to-linalg'

// LAST: --tri-to-relax gives no MLIR: it comes last
func.func @add_twice(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "tri.add"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "tri.add"(%0, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
