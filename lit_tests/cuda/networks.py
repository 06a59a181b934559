# Products go through shared memory in loops that nvcc unrolls, reductions through the threads of a block, halves through float.
# RUN: mlirtri emit "%s::*" --stage=cuda --target=cuda:sm_90 > %t
# RUN: FileCheck %s --input-file %t

import torch

import mlirtri as mt


@mt.jit
def product(a: mt.Tensor[[128, 128], mt.float32], b: mt.Tensor[[128, 128], mt.float32]):
    return a @ b


# CHECK-LABEL: ===== product: cuda =====
# CHECK: __shared__ {{.*}} float tiles_ptr[];
# CHECK: mlirtri_copy_16(
# CHECK: __syncthreads();
# CHECK: *(float4*)(left_part_ptr
# CHECK: #pragma unroll
# CHECK: for (int [[K:[a-z0-9_]+]] = 0; [[K]] < 4; ++[[K]]) {
# CHECK: sums_ptr[{{.*}}] = (sums_ptr[{{.*}}] + (left_part_ptr[{{.*}}] * right_part_ptr[


@mt.jit
def softmax(x: mt.Tensor[[64, 256], mt.float32]):
    return torch.softmax(x, -1)


# CHECK-LABEL: ===== softmax: cuda =====
# One kernel: what a row needs twice stays in shared memory, and its maximum and its sum come from the threads of a block.
# CHECK: void __launch_bounds__({{[0-9]+}}) max_sub_exp_sum_div_kernel({{.*}}) {
# CHECK: {{.*}}networks.py:27
# CHECK: __shared__
# CHECK: __syncthreads();
# CHECK: = expf(
# CHECK: __syncthreads();
# CHECK: _ptr[{{.*}}] / {{.*}}_ptr[
# CHECK-NOT: __global__


@mt.jit
def doubled(x: mt.Tensor[[256], mt.float16]):
    return x * 2


# CHECK-LABEL: ===== doubled: cuda =====
# CHECK: #include <cuda_fp16.h>
# CHECK: half* __restrict__ x
