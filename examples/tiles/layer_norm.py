"""A layer norm of rows with weight and bias, a block of rows at a time."""

from __future__ import annotations

import torch

import mlirtri.tile as T

from .example import Example


def layer_norm(x, weight, bias, y, BM=8, eps=1e-5):
    columns = x.shape[1]
    with T.Kernel(T.ceildiv(x.shape[0], BM), threads=128) as bx:
        rows, squares = T.alloc_shared((BM, columns)), T.alloc_shared((BM, columns))
        mean, variance = T.alloc_fragment((BM,)), T.alloc_fragment((BM,))
        T.copy(x[bx * BM, 0], rows)
        T.reduce_sum(rows, mean, dim=1)
        for i, j in T.Parallel(BM, columns):
            rows[i, j] = rows[i, j] - mean[i] / columns
        for i, j in T.Parallel(BM, columns):
            squares[i, j] = rows[i, j] * rows[i, j]
        T.reduce_sum(squares, variance, dim=1)
        for i, j in T.Parallel(BM, columns):
            rows[i, j] = rows[i, j] * T.rsqrt(variance[i] / columns + eps) * weight[j] + bias[j]
        T.copy(rows, y[bx * BM, 0])


def make(scale):
    return torch.randn(30 * scale, 50 * scale), torch.rand(50 * scale), torch.randn(50 * scale)


def reference(x, weight, bias):
    return torch.nn.functional.layer_norm(x, x.shape[1:], weight, bias)


EXAMPLES = (Example("layer norm", layer_norm, make, reference),)
