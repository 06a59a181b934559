"""A product of two matrices, of whatever size: blocks that do not divide it read zeros at the edges."""

from __future__ import annotations

import torch

import mlirtri.tile as T

from .example import Example


def gemm(a, b, c, BM=64, BN=64, BK=32):
    with T.Kernel(T.ceildiv(b.shape[1], BN), T.ceildiv(a.shape[0], BM), threads=128) as (bx, by):
        a_shared = T.alloc_shared((BM, BK), a.dtype)
        b_shared = T.alloc_shared((BK, BN), b.dtype)
        sums = T.alloc_fragment((BM, BN), "float32")
        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(a.shape[1], BK), num_stages=3):
            T.copy(a[by * BM, k * BK], a_shared)
            T.copy(b[k * BK, bx * BN], b_shared)
            T.gemm(a_shared, b_shared, sums)
        T.copy(sums, c[by * BM, bx * BN])


def make(dtype):
    def inputs(scale):
        return torch.randn(70 * scale, 50 * scale).to(dtype), torch.randn(50 * scale, 90 * scale).to(dtype)

    return inputs


def reference(a, b):
    return a.float() @ b.float()


BLOCKS = {"BM": 32, "BN": 32, "BK": 16}
EXAMPLES = (
    Example("gemm fp32", gemm, make(torch.float32), reference, constants=BLOCKS),
    Example("gemm fp16", gemm, make(torch.float16), reference, constants=BLOCKS),
)
