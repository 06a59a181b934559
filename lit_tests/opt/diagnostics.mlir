// RUN: mlirtri-opt --split-input-file --verify-diagnostics %s | FileCheck %s
// RUN: not mlirtri-opt --split-input-file %s 2>&1 | FileCheck --check-prefix=ERROR %s

// Every piece is its own module; what is wrong in one leaves the others alone.

// ERROR: diagnostics.mlir:9:10: error: use of undeclared SSA value name
func.func @undeclared(%a: f32) -> f32 {
  // expected-error@+1 {{undeclared SSA value}}
  return %b : f32
}

// -----

func.func @mixed(%a: tensor<4xf32>, %b: tensor<4xi32>) {
  // expected-error@below {{'tri.add' op operands have different dtypes}}
  %0 = "tri.add"(%a, %b) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>
  return
}

// -----

// CHECK: func.func @fine
func.func @fine() {
  return
}
