# ruff: noqa: F821  (TVM gives its parser these names)
# A Relax module becomes linalg: operators by TVM's TIR, PrimFuncs of blocks as generics, the rest as loops.
# RUN: mlirtri translate --relax-to-mlir %s | FileCheck %s
# RUN: mlirtri translate --relax-to-mlir %s | mlirtri-opt --linalg-generalize-named-ops | FileCheck %s --check-prefix=PARSED
# RUN: mlirtri translate --relax-to-mlir %s | mlirtri translate --mlir-to-relax - | FileCheck %s --check-prefix=BACK
# RUN: not mlirtri translate - < %s 2>&1 | FileCheck %s --check-prefix=WRONG
# RUN: not mlirtri translate --relax-to-mlir %S/inputs/mean.py 2>&1 | FileCheck %s --check-prefix=TEXT


@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def halve(a: T.Buffer((T.int64(4),), "float32"), out: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.sblock("halve"):
                v = T.axis.spatial(T.int64(4), i)
                out[v] = a[v] * T.float32(0.5)

    @R.function
    def main(x: R.Tensor((4, 8), "float32"), u: R.Tensor((4,), "uint8")):
        cls = Module
        sums = R.sum(x, axis=[1])
        halves = R.call_tir(cls.halve, (sums,), out_ty=R.Tensor((4,), "float32"))
        return R.add(halves, R.astype(u, "float32"))


# CHECK: func.func @main(%x: tensor<4x8xf32>, %u: tensor<4xi8>) -> tensor<4xf32>
# CHECK: %[[START:.*]] = linalg.fill
# CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]{{.*}} ins(%x
# CHECK-SAME: outs(%[[START]]
# CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %[[OUT:.*]]: f32):
# CHECK-NEXT: arith.addf %[[OUT]], %[[IN]]
# CHECK: arith.mulf %{{.*}}
# CHECK: arith.uitofp %{{.*}} : i8 to f32
# CHECK-NOT: mlirtri
# PARSED: func.func @main
# BACK: R.call_tir
# WRONG: say from what to what
# TEXT: error: this is not TVMScript
