"""The product of matrices whose sizes are known at run time only, transposed as in a linear layer; compiled once."""

from __future__ import annotations

import torch

import mlirtri as mt
import mlirtri.tile as T

from .example import Example

M, N, K = mt.dyn["M"], mt.dyn["N"], mt.dyn["K"]


def linear(
    x: T.Tensor((M, K)), w: T.Tensor((N, K)), bias: T.Tensor((N,)), y: T.Tensor((M, N)), BM=64, BN=64, BK=32
):  # fmt: skip
    with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
        x_shared, w_shared = T.alloc_shared((BM, BK)), T.alloc_shared((BN, BK))
        b_shared, sums = T.alloc_shared((BN,)), T.alloc_fragment((BM, BN))
        T.copy(bias[bx * BN], b_shared)
        for k in T.Pipelined(T.ceildiv(K, BK), num_stages=2):
            T.copy(x[by * BM, k * BK], x_shared)
            T.copy(w[bx * BN, k * BK], w_shared)
            T.gemm(x_shared, w_shared, sums, transpose_B=True)
        for i, j in T.Parallel(BM, BN):
            sums[i, j] = T.max(sums[i, j] + b_shared[j], 0)
        T.copy(sums, y[by * BM, bx * BN])


def make(scale):
    return torch.randn(45 * scale, 40 * scale), torch.randn(37 * scale, 40 * scale), torch.randn(37 * scale)


def reference(x, w, bias):
    return torch.relu(torch.nn.functional.linear(x, w, bias))


EXAMPLES = (Example("dynamic gemm", linear, make, reference, constants={"BM": 16, "BN": 32, "BK": 16}),)
