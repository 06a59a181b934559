"""A product whose sum is divided among blocks, which add their parts to the result: for few rows and long sums."""

from __future__ import annotations

import torch

import mlirtri.tile as T

from .example import Example


def split_k(a, b, c, BM=64, BN=64, BK=32, splits=4):
    part = T.ceildiv(T.ceildiv(a.shape[1], BK), splits)
    with T.Kernel(T.ceildiv(b.shape[1], BN), T.ceildiv(a.shape[0], BM), splits, threads=128) as (bx, by, bz):
        a_shared, b_shared = T.alloc_shared((BM, BK), a.dtype), T.alloc_shared((BK, BN), b.dtype)
        sums = T.alloc_fragment((BM, BN), "float32")
        for k in T.Pipelined(part, num_stages=2):
            T.copy(a[by * BM, (bz * part + k) * BK], a_shared)
            T.copy(b[(bz * part + k) * BK, bx * BN], b_shared)
            T.gemm(a_shared, b_shared, sums)
        T.atomic_add(c[by * BM, bx * BN], sums)


def make(scale):
    return torch.randn(20 * scale, 150 * scale), torch.randn(150 * scale, 40 * scale)


def reference(a, b):
    return a @ b


EXAMPLES = (Example("split k", split_k, make, reference, constants={"BM": 16, "BN": 16, "BK": 16}),)
