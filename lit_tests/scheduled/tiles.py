# A tile kernel on CPUs: blocks on threads, the pipelined loop inside of the sums, packed columns between the loops.
# RUN: mlirtri emit %s::product --stage=scheduled | FileCheck %s

import mlirtri as mt
import mlirtri.tile as T


@mt.jit
def product(
    a: mt.Tensor[[512, 256], mt.float32], b: mt.Tensor[[256, 512], mt.float32], c: mt.Tensor[[512, 512], mt.float32]
):
    with T.Kernel(8, 8) as (bx, by):
        x, y, z = T.alloc_shared((64, 32)), T.alloc_shared((32, 64)), T.alloc_fragment((64, 64))
        T.clear(z)
        for k in T.Pipelined(8, num_stages=2):
            T.copy(a[by * 64, k * 32], x)
            T.copy(b[k * 32, bx * 64], y)
            T.gemm(x, y, z)
        T.copy(z, c[by * 64, bx * 64])


# CHECK: for [[BX:.+]] in T.{{serial|parallel}}(T.int64(8), annotations={"mlirtri.blocks": 1{{.*}}"mlirtri.independent": 1
# CHECK-NEXT: right = T.alloc_buffer
# CHECK: for [[BY:.+]] in T.serial(T.int64(8), annotations={"mlirtri.blocks": 1{{.*}}"mlirtri.independent": 1
# CHECK: sums0 = T.alloc_buffer
