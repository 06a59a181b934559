# A tile kernel on CUDA: a block per tile, copies ahead of the products, which tensor cores compute.
# RUN: mlirtri emit %s::product --stage=cuda --target=cuda | FileCheck %s
# RUN: mlirtri emit %s::row_sums --stage=cuda --target=cuda | FileCheck %s --check-prefix=ROWS
# RUN: not mlirtri emit %s::too_large --stage=cuda --target=cuda 2>&1 | FileCheck %s --check-prefix=LARGE

import mlirtri as mt
import mlirtri.tile as T


@mt.jit
def product(
    a: mt.Tensor[[128, 256], mt.float16], b: mt.Tensor[[256, 128], mt.float16], c: mt.Tensor[[128, 128], mt.float32]
):
    with T.Kernel(2, 2, threads=128) as (bx, by):
        x, y = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
        z = T.alloc_fragment((64, 64), "float32")
        for k in T.Pipelined(8, num_stages=3):
            T.copy(a[by * 64, k * 32], x)
            T.copy(b[k * 32, bx * 64], y)
            T.gemm(x, y, z)
        T.copy(z, c[by * 64, bx * 64])


@mt.jit
def row_sums(x: mt.Tensor[[30, 32], mt.float32], y: mt.Tensor[[30], mt.float32]):
    with T.Kernel(4, threads=64) as bx:
        rows, sums = T.alloc_shared((8, 32)), T.alloc_fragment((8,))
        T.copy(x[bx * 8, 0], rows)
        T.reduce_sum(rows, sums, dim=1)
        T.copy(sums, y[bx * 8])


@mt.jit
def too_large(x: mt.Tensor[[100, 1000], mt.float32]):
    with T.Kernel(2) as bx:
        tile = T.alloc_shared((64, 1000))
        T.copy(x[bx * 64, 0], tile)
        for i, j in T.Parallel(64, 1000):
            x[bx * 64 + i, j] = tile[i, 999 - j]


# CHECK: __global__ void __launch_bounds__(128) product
# CHECK: __shared__ {{.*}} tiles_ptr
# Results stay in registers until they are copied.
# CHECK: alignas(64) float z_ptr[32];
# CHECK: mlirtri_copy_16(
# CHECK: for (int step = 0; step < 8; ++step) {
# CHECK-NEXT: mlirtri_wait_for_all_but_1();
# CHECK-NEXT: __syncthreads();
# CHECK: mlirtri_fragments(
# CHECK: mlirtri_multiply_float16(
# ROWS: __launch_bounds__(64)
# ROWS: __shared__
# ROWS: __syncthreads();
# LARGE: cuda/tiles.py:[[#]]:1: error: the tiles of a block take 256000 bytes of shared memory, and a block has 166912: tile float32[64, 1000] 256000
