// Operators of Relax that a function with loops calls get bodies, which are then compiled with the loops.
// RUN: mlirtri-opt --external-bodies %s | FileCheck %s
// RUN: mlirtri emit %s --from=fused --stage=relax | FileCheck %s --check-prefix=RELAX

// CHECK-LABEL: func.func @f(
// CHECK: scf.for
// CHECK: call @relax.sigmoid(
// CHECK-LABEL: func.func private @relax.sigmoid(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[BODY:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<8xf32>)
// CHECK: math.exp
// CHECK: arith.divf
// CHECK: return %[[BODY]]
// RELAX-LABEL: def f_loops(
// RELAX: for {{.*}} in T.serial(T.int64(4),
// RELAX: temporary{{\[}}[[E:[a-z_0-9]+]]] = T.float32(1.0) / (T.exp(temporary{{\[}}[[E]]] * T.float32(-1.0)) + T.float32(1.0))
// RELAX-LABEL: def f(
// RELAX-NOT: R.sigmoid
// RELAX: R.call_tir(cls.f_loops,
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%y = %x) -> (tensor<8xf32>) {
    %s = func.call @relax.sigmoid(%y) : (tensor<8xf32>) -> tensor<8xf32>
    scf.yield %s : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}
func.func private @relax.sigmoid(tensor<8xf32>) -> tensor<8xf32> attributes {mlirtri.arguments = "x=_0", mlirtri.dtypes = ["float32", "float32"], mlirtri.external = "relax", mlirtri.function = "sigmoid"}
