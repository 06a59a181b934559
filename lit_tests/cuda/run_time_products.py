# The product of two matrices of run-time sizes, its bias and its relu are one kernel on tensor cores.
# RUN: mlirtri emit %s --target=cuda --stage=cuda | FileCheck %s

import torch

import mlirtri as mt

M, N, K = mt.dyn["M"], mt.dyn["N"], mt.dyn["K"]


@mt.jit
def layer(x: mt.Tensor[[M, K], mt.float16], w: mt.Tensor[[K, N], mt.float16], bias: mt.Tensor[[N], mt.float16]):
    return torch.relu(x @ w + bias)


# CHECK-COUNT-1: __global__ void __launch_bounds__(128) layer_loops_kernel({{.*}}, int64_t k, int64_t m, int64_t n) {
# CHECK: mlirtri_copy_16(
# CHECK: __syncthreads();
# CHECK: mlirtri_fragments(
# CHECK: mlirtri_multiply_float16(
# CHECK: out0_ptr[
# CHECK-NOT: __global__
