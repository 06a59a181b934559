# Blocks and pipelined loops are marked: their schedules read that.
# RUN: mlirtri emit %s::product --stage=tir | FileCheck %s

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


# CHECK: T.func_attr({{.*}}"mlirtri.tile_kernel": 128
# CHECK: for [[BY:.+]] in T.serial(T.int64(8), annotations={"mlirtri.blocks": 1
# CHECK-NEXT: for [[BX:.+]] in T.serial(T.int64(8), annotations={"mlirtri.blocks": 1
# CHECK: for [[K:.+]] in T.serial(T.int64(8), annotations={{{.*}}"mlirtri.stages": 2
# CHECK: a[[[BY]] * T.int64(64) + {{.*}}] * b[
