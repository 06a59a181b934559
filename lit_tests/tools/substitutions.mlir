// The tools answer by their plain names, and names inside paths and options are left alone.
// RUN: mlirtri-opt --canonicalize %s | FileCheck %s
// RUN: mkdir -p %t.mlirtri && mlirtri-opt %s -o %t.mlirtri/mlirtri.mlir && FileCheck %s --input-file %t.mlirtri/mlirtri.mlir

// CHECK-LABEL: func.func @keeps_its_argument
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>)
// CHECK: return %[[X]]
func.func @keeps_its_argument(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
