# A tile kernel is a loop over blocks: the product of two tiles is one operation.
# RUN: mlirtri emit %s::product --stage=tri | FileCheck %s

import mlirtri as mt
import mlirtri.tile as T


@mt.jit
def product(
    a: mt.Tensor[[1000, 8], mt.float32], b: mt.Tensor[[8, 32], mt.float32], c: mt.Tensor[[1000, 32], mt.float32]
):
    with T.Kernel(63) as bx:
        x, y, z = T.alloc_shared((16, 8)), T.alloc_shared((8, 32)), T.alloc_fragment((16, 32))
        T.copy(a[bx * 16, 0], x)
        T.copy(b, y)
        T.gemm(x, y, z)
        T.copy(z, c[bx * 16, 0])


# CHECK-LABEL: func.func @product
# CHECK: scf.for
# CHECK: %[[X:.*]] = "tri.constant"() {{.*}}mlirtri.memory_space = #gpu.address_space<workgroup>
# CHECK: "tri.matmul"{{.*}} {mlirtri.memory_space = #gpu.address_space<private>} : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
