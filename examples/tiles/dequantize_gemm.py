"""A product with int4 weights, two in each byte, and a scale for each output: the block makes floats of its weights."""

from __future__ import annotations

import torch

import mlirtri.tile as T

from .example import Example


def dequantize_gemm(x, packed, scales, y, BM=64, BN=64, BK=32):
    columns = packed.shape[0]
    with T.Kernel(T.ceildiv(columns, BN), T.ceildiv(x.shape[0], BM), threads=128) as (bx, by):
        x_shared, bytes_shared = T.alloc_shared((BM, BK), x.dtype), T.alloc_shared((BN, BK // 2), "int8")
        weights, sums = T.alloc_fragment((BN, BK), x.dtype), T.alloc_fragment((BM, BN), "float32")
        for k in T.Pipelined(T.ceildiv(x.shape[1], BK), num_stages=2):
            T.copy(x[by * BM, k * BK], x_shared)
            T.copy(packed[bx * BN, k * (BK // 2)], bytes_shared)
            for i, j in T.Parallel(BN, BK):
                bits = (bytes_shared[i, j // 2].astype("int32") >> (j % 2 * 4)) & 15
                weights[i, j] = T.cast(bits - 8, x.dtype)
            T.gemm(x_shared, weights, sums, transpose_B=True)
        for i, j in T.Parallel(BM, BN):
            sums[i, j] = sums[i, j] * scales[bx * BN + j]
        T.copy(sums, y[by * BM, bx * BN])


def make(scale):
    bits = torch.randint(-128, 128, (50 * scale, 24 * scale), dtype=torch.int8)
    return torch.randn(40 * scale, 48 * scale), bits, torch.rand(50 * scale)


def reference(x, packed, scales):
    bits = packed.int()
    halves = torch.stack([bits & 15, (bits >> 4) & 15], dim=2).reshape(packed.shape[0], -1)
    return x @ ((halves - 8).float() * scales[:, None]).T


EXAMPLES = (
    Example("dequantize gemm", dequantize_gemm, make, reference, constants={"BM": 16, "BN": 32, "BK": 16}),
)  # fmt: skip
