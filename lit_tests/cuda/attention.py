# The products of attention are copied an iteration ahead, and what is between them stays in registers: the weights are
# the left factor of the second product as the first one left its sums. On sm_90a they are products of warpgroups.
# RUN: mlirtri emit %s --target=cuda:sm_90a --stage=cuda | FileCheck %s --check-prefixes=CHECK,GROUPS
# RUN: mlirtri emit %s --target=cuda:sm_80 --stage=cuda | FileCheck %s --check-prefixes=CHECK,WARPS

import mlirtri as mt
import mlirtri.tile as T


@mt.jit
def attention(
    q: mt.Tensor[[4096, 64], mt.float16],
    k: mt.Tensor[[4096, 64], mt.float16],
    v: mt.Tensor[[4096, 64], mt.float16],
    out: mt.Tensor[[4096, 64], mt.float16],
):
    with T.Kernel(64, threads=128) as bx:
        queries, keys, values = (T.alloc_shared((64, 64), "float16") for _ in range(3))
        scores, weights = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float16")
        result, most = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64,), "float32")
        before = T.alloc_fragment((64,), "float32")
        T.copy(q[bx * 64, 0], queries)
        T.clear(result)
        T.fill(most, -1e30)
        for block in T.Pipelined(64, num_stages=2):
            T.copy(k[block * 64, 0], keys)
            T.clear(scores)
            T.gemm(queries, keys, scores, transpose_B=True)
            T.copy(most, before)
            T.reduce_max(scores, most, dim=1, clear=False)
            for i, j in T.Parallel(64, 64):
                scores[i, j] = T.exp2(scores[i, j] - most[i])
            for i, j in T.Parallel(64, 64):
                result[i, j] = result[i, j] * T.exp2(before[i] - most[i])
            T.copy(scores, weights)
            T.copy(v[block * 64, 0], values)
            T.gemm(weights, values, result)
        T.copy(result, out[bx * 64, 0])


# CHECK: __global__ void __launch_bounds__(128) attention{{.*}}_kernel({{.*}}) {
# CHECK-NOT: __shared__ alignas(64) float
# CHECK: mlirtri_commit_copies();
# CHECK: mlirtri_commit_copies();
# CHECK: for (int [[I:i.*]] = 0; [[I]] < 64; ++[[I]]) {
# CHECK: mlirtri_wait_for_all_but_1();
# GROUPS: mlirtri_group_multiply_float16_64_00(
# WARPS: mlirtri_multiply_float16(
# CHECK: __syncthreads();
# CHECK: if ([[I]] < 63) {
# CHECK: mlirtri_commit_copies();
# CHECK: mlirtri_exchange_float32_1(
# CHECK-NOT: __syncthreads();
# CHECK: mlirtri_wait_for_all_but_1();
# GROUPS: mlirtri_group_multiply_float16_64_h1(
# WARPS: mlirtri_multiply_float16_held(
# CHECK-NOT: temporary{{.*}}shared
