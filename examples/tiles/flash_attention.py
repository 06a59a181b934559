"""Causal attention in one pass over the keys: each block of queries keeps a running maximum, sum and result."""

from __future__ import annotations

import torch

import mlirtri.tile as T

from .example import Example

LOG2_E = 1.44269504


def flash_attention(q, k, v, out, BM=64, BN=64, causal=True):
    batch, heads, length, dim = q.shape
    scale = dim**-0.5 * LOG2_E
    with T.Kernel(T.ceildiv(length, BM), heads, batch, threads=128) as (bx, by, bz):
        queries = T.alloc_shared((BM, dim), q.dtype)
        keys, values = T.alloc_shared((BN, dim), q.dtype), T.alloc_shared((BN, dim), q.dtype)
        scores, weights = T.alloc_fragment((BM, BN), "float32"), T.alloc_fragment((BM, BN), q.dtype)
        result = T.alloc_fragment((BM, dim), "float32")
        most, most_before = T.alloc_fragment((BM,), "float32"), T.alloc_fragment((BM,), "float32")
        total, part = T.alloc_fragment((BM,), "float32"), T.alloc_fragment((BM,), "float32")
        factor = T.alloc_fragment((BM,), "float32")
        T.copy(q[bz, by, bx * BM, 0], queries)
        T.clear(result)
        T.clear(total)
        T.fill(most, -1e30)
        blocks = T.min(T.ceildiv(length, BN), T.ceildiv((bx + 1) * BM, BN)) if causal else T.ceildiv(length, BN)
        for block in T.Pipelined(blocks, num_stages=2):
            T.copy(k[bz, by, block * BN, 0], keys)
            T.clear(scores)
            T.gemm(queries, keys, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(BM, BN):
                last = bx * BM + i if causal else length - 1
                scores[i, j] = T.if_then_else(block * BN + j <= last, scores[i, j] * scale, -1e30)
            T.copy(most, most_before)
            T.reduce_max(scores, most, dim=1, clear=False)
            for i, j in T.Parallel(BM, BN):
                scores[i, j] = T.exp2(scores[i, j] - most[i])
            T.reduce_sum(scores, part, dim=1)
            for i in T.Parallel(BM):
                factor[i] = T.exp2(most_before[i] - most[i])
                total[i] = total[i] * factor[i] + part[i]
            for i, j in T.Parallel(BM, dim):
                result[i, j] = result[i, j] * factor[i]
            T.copy(scores, weights)
            T.copy(v[bz, by, block * BN, 0], values)
            T.gemm(weights, values, result, policy=T.GemmWarpPolicy.FullRow)
        for i, j in T.Parallel(BM, dim):
            result[i, j] = result[i, j] / total[i]
        T.copy(result, out[bz, by, bx * BM, 0])


def make(dtype):
    def inputs(scale):
        return tuple(torch.randn(1, 2, 40 * scale, 16 * min(scale, 4)).to(dtype) for _ in range(3))

    return inputs


def reference(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)


BLOCKS = {"BM": 16, "BN": 16}
EXAMPLES = (
    Example("flash attention fp32", flash_attention, make(torch.float32), reference, constants=BLOCKS),
    Example(
        "flash attention fp16", flash_attention, make(torch.float16), reference, torch.float16, BLOCKS, tolerance=2e-3
    ),
)
