# Sizes known at run time only: named once, computed before the body, one symbol in TIR, and integers after the pointers.
# RUN: mlirtri emit %s --stage=tri | FileCheck %s
# RUN: mlirtri emit %s --stage=linalg | FileCheck %s --check-prefix=LINALG
# RUN: mlirtri emit %s --stage=relax | FileCheck %s --check-prefix=RELAX
# RUN: mlirtri emit %s --stage=llvmdialect --pipeline=mlir | FileCheck %s --check-prefix=MLIR
# RUN: mlirtri emit %s --stage=fused > %t.mlir
# RUN: mlirtri run %t.mlir --from=fused --pipeline=mlir --arg 'a=f32[2,3]:2' --arg 'b=f32[3]:3' | FileCheck %s --check-prefix=RESULT

import mlirtri as mt

M, K = mt.dyn["M"], mt.dyn["K"]


@mt.jit
def scaled(a: mt.Tensor[[M, K], mt.float32], b: mt.Tensor[[K], mt.float32]):
    m, k = a.shape
    for i in range(m):
        a[i] *= b
    return a.reshape(k * m)


# CHECK: func.func @scaled(%a: tensor<?x?xf32> {mlirtri.sizes = ["M", "K"], mlirtri.updated_by = 1 : i64},
# CHECK-SAME: %b: tensor<?xf32> {mlirtri.sizes = ["K"]}) -> (tensor<?xf32>, tensor<?x?xf32>)
# CHECK-DAG: %[[M:.*]] = "tri.size"(%a) {axis = 0 : i64}
# CHECK-DAG: %[[K:.*]] = "tri.size"(%a) {axis = 1 : i64}
# CHECK: %[[COUNT:.*]] = "tri.multiply"(%{{m|k}}, %{{m|k}})
# CHECK: scf.for
# CHECK: "tri.dynamic_reshape"(%{{.*}}, %[[COUNT]])

# LINALG: scf.for
# LINALG: tensor.extract_slice %{{.*}}[%{{.*}}, 0] [1, %{{.*}}] [1, 1] : tensor<?x?xf32> to tensor<?xf32>
# LINALG: tensor.collapse_shape

# RELAX: def scaled(a: R.Tensor((n, m), dtype="float32"), b: R.Tensor((m,), dtype="float32"))

# MLIR: llvm.func @mlirtri_scaled(%a: !llvm.ptr {{.*}}, %b: !llvm.ptr {{.*}}, %{{.*}}: !llvm.ptr {{.*}}, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64

# RESULT: result: float32[6]
# RESULT-NEXT: 6., 6., 6., 6., 6., 6.
