// Of several functions one is named; sizes that its types leave open are said.
// RUN: mlirtri emit %s::open --stage=linalg --arg x=f32[3] | FileCheck %s
// RUN: mlirtri run %s::open --arg x=f32[3] | FileCheck %s --check-prefix=RAN
// RUN: not mlirtri run %s::open 2>&1 | FileCheck %s --check-prefix=OPEN
// RUN: not mlirtri run %s 2>&1 | FileCheck %s --check-prefix=NAME

func.func @closed(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = math.exp %x : tensor<4xf32>
  return %e : tensor<4xf32>
}
func.func @open(%x: tensor<?xf32>) -> tensor<?xf32> {
  %e = math.exp %x : tensor<?xf32>
  return %e : tensor<?xf32>
}

// CHECK: func.func @open(%{{.*}}: tensor<3xf32>)
// RAN: result: float32[3]
// OPEN: sizes of x: float32[?] are open
// OPEN: say --arg x=float32[…]
// NAME: the program has 2 public functions
// NAME: closed, open
