// What each pipeline takes of a file, without compiling it; the exit status says whether that is all.
// RUN: not mlirtri translate --report %s::bad > %t.txt
// RUN: FileCheck %s --input-file %t.txt
// RUN: mlirtri translate --report %s::good --pipeline=mlir --json | FileCheck %s --check-prefix=JSON

func.func @good(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = math.exp %x : tensor<4xf32>
  return %e : tensor<4xf32>
}
func.func @bad(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = "other.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %e : tensor<4xf32>
}

// CHECK: operation {{ *}}count  first at  linalg  relax  mlir
// CHECK: other.exp {{ *}}1 {{ *}}[[LINE:[0-9]+]]:8 {{ *}}no {{ *}}no {{ *}}no
// CHECK: linalg: [[LINE]]:8: {{.*}}other.exp

// JSON: "entry": "good"
// JSON: "is_total": true
