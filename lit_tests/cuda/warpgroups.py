# On sm_90a a large product of halves is one kernel of warpgroups, which add up in registers while copies go on; on sm_90
# it is one of warps.
# RUN: mlirtri emit %s --target=cuda:sm_90a --stage=cuda | FileCheck %s
# RUN: mlirtri emit %s --target=cuda:sm_90 --stage=cuda | FileCheck %s --check-prefix=WARPS

import torch

import mlirtri as mt


@mt.jit
def layer(
    x: mt.Tensor[[4096, 1024], mt.float16], w: mt.Tensor[[2048, 1024], mt.float16], bias: mt.Tensor[[2048], mt.float16]
):
    return torch.relu(x @ w.T + bias)


# CHECK: wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16
# CHECK-COUNT-1: __global__ void __launch_bounds__(256) [[KERNEL:.*]]_kernel({{.*}}) {
# CHECK: extern __shared__ __align__(1024)
# CHECK: for (int step
# CHECK: mlirtri_wait_for_all_but_1();
# CHECK-NEXT: mlirtri_show_tiles();
# CHECK-NEXT: __syncthreads();
# CHECK-NEXT: mlirtri_order_sums();
# CHECK-COUNT-4: mlirtri_group_multiply_float16_256_00(
# CHECK: mlirtri_commit_products();
# CHECK: mlirtri_copy_16(
# CHECK: mlirtri_await_products_but_1();
# CHECK: mlirtri_await_products_float32_128(
# CHECK: bias_ptr[
# CHECK: mlirtri_transpose_among_four(
# CHECK-NEXT: *(uint4*)(
# CHECK-NOT: __global__

# WARPS-NOT: wgmma
# WARPS: mma.sync.aligned.m16n8k16
