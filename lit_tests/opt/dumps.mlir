// RUN: mlirtri-opt --canonicalize --cse --mlir-print-ir-after-all %s 2>&1 >%t | FileCheck --check-prefix=DUMP %s
// RUN: FileCheck %s < %t
// RUN: mlirtri-opt --cse --mlir-print-debuginfo --mlir-print-local-scope %s | FileCheck --check-prefix=PLACE %s

// IR dumps go to stderr, the result to stdout.

// DUMP: // -----// IR Dump After Canonicalizer
// DUMP: // -----// IR Dump After CSE

// CHECK-NOT: Dump
// CHECK: func.func @same
// CHECK-COUNT-1: tri.exp
// CHECK-NOT: tri.exp

// PLACE: tri.exp{{.*}} loc("{{.*}}dumps.mlir":17:8)
func.func @same(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "tri.exp"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "tri.exp"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "tri.add"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
