"""A convolution of images (batch, height, width, channels) as an implicit product.

Rows are pixels of the result, the sum runs over the window and the channels. Pixels outside of an image read zero.
"""

from __future__ import annotations

import torch

import mlirtri.tile as T

from .example import Example


def convolution(x, w, y, BM=64, BN=32, BK=32, stride=1, padding=1):
    batch, channels = x.shape[0], x.shape[3]
    window_h, window_w, _, filters = w.shape
    rows, columns = y.shape[1], y.shape[2]
    depth = window_h * window_w * channels
    with T.Kernel(T.ceildiv(filters, BN), T.ceildiv(batch * rows * columns, BM), threads=128) as (bx, by):
        pixels, weights = T.alloc_shared((BM, BK), x.dtype), T.alloc_shared((BK, BN), x.dtype)
        sums = T.alloc_fragment((BM, BN), "float32")
        flat_w = w.reshape(depth, filters)
        for k in T.Pipelined(T.ceildiv(depth, BK), num_stages=2):
            for i, j in T.Parallel(BM, BK):
                pixel, tap = by * BM + i, k * BK + j
                h = pixel % (rows * columns) // columns * stride + tap // (window_w * channels) - padding
                c = pixel % columns * stride + tap // channels % window_w - padding
                pixels[i, j] = x[pixel // (rows * columns), h, c, tap % channels]
            T.copy(flat_w[k * BK, bx * BN], weights)
            T.gemm(pixels, weights, sums)
        flat_y = y.reshape(batch * rows * columns, filters)
        T.copy(sums, flat_y[by * BM, bx * BN])


def make(scale):
    return torch.randn(2, 7 * scale, 6 * scale, 4 * scale), torch.randn(3, 3, 4 * scale, 10 * scale)


def reference(x, w):
    result = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1)
    return result.permute(0, 2, 3, 1).contiguous()


EXAMPLES = (Example("convolution", convolution, make, reference, constants={"BM": 16, "BN": 16, "BK": 16}),)
