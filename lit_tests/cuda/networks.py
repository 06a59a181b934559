# Products go through shared memory, reductions through the threads of a block, halves through float.
# RUN: mlirtri emit "%s::*" --stage=cuda --target=cuda:sm_90 > %t
# RUN: FileCheck %s --input-file %t

import torch

import mlirtri as mt


@mt.jit
def product(a: mt.Tensor[[128, 128], mt.float32], b: mt.Tensor[[128, 128], mt.float32]):
    return a @ b


# CHECK-LABEL: ===== product: cuda =====
# CHECK: __shared__
# CHECK: __syncthreads();


@mt.jit
def softmax(x: mt.Tensor[[64, 256], mt.float32]):
    return torch.softmax(x, -1)


# CHECK-LABEL: ===== softmax: cuda =====
# CHECK: void __launch_bounds__({{[0-9]+}}) max_kernel({{.*}}) {
# CHECK: {{.*}}networks.py:22
# CHECK: void __launch_bounds__({{[0-9]+}}) sub_exp_kernel({{.*}}) {
# CHECK: out_ptr[{{.*}}] = expf(
# The sum of a row of 256 is one block of 256 threads: within warps by shuffles, between them through shared memory.
# CHECK: void __launch_bounds__(256) sum_kernel({{.*}}) {
# CHECK: __shared__
# CHECK: __shfl_down_sync(
# CHECK: __syncthreads();
# CHECK: out_ptr[((int)blockIdx.x)] =


@mt.jit
def doubled(x: mt.Tensor[[256], mt.float16]):
    return x * 2


# CHECK-LABEL: ===== doubled: cuda =====
# CHECK: #include <cuda_fp16.h>
# CHECK: half* __restrict__ x
