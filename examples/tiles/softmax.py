"""A softmax of rows, a block of rows at a time."""

from __future__ import annotations

import torch

import mlirtri.tile as T

from .example import Example


def softmax(x, y, BM=8):
    columns = x.shape[1]
    with T.Kernel(T.ceildiv(x.shape[0], BM), threads=128) as bx:
        rows, most, total = T.alloc_shared((BM, columns)), T.alloc_fragment((BM,)), T.alloc_fragment((BM,))
        T.copy(x[bx * BM, 0], rows)
        T.reduce_max(rows, most, dim=1)
        for i, j in T.Parallel(BM, columns):
            rows[i, j] = T.exp(rows[i, j] - most[i])
        T.reduce_sum(rows, total, dim=1)
        for i, j in T.Parallel(BM, columns):
            rows[i, j] = rows[i, j] / total[i]
        T.copy(rows, y[bx * BM, 0])


def make(scale):
    return (torch.randn(30 * scale, 50 * scale),)


def reference(x):
    return torch.softmax(x, 1)


EXAMPLES = (Example("softmax", softmax, make, reference),)
