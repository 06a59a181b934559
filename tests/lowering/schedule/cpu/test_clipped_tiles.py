"""Blocks and steps that do not divide an array are apart from the others, where their order does not matter."""

from __future__ import annotations

import numpy as np

import mlirtri as mt
import mlirtri.tile as T

RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def gemm(a, b, c, BM=32, BN=32, BK=16):
    with T.Kernel(T.ceildiv(b.shape[1], BN), T.ceildiv(a.shape[0], BM)) as (bx, by):
        x, y, z = T.alloc_shared((BM, BK)), T.alloc_shared((BK, BN)), T.alloc_fragment((BM, BN))
        for k in T.Pipelined(T.ceildiv(a.shape[1], BK), num_stages=2):
            T.copy(a[by * BM, k * BK], x)
            T.copy(b[k * BK, bx * BN], y)
            T.gemm(x, y, z)
        T.copy(z, c[by * BM, bx * BN])


def test_edges_of_a_product_are_apart():
    a, b, c = random(100, 72), random(72, 90), np.zeros((100, 90), np.float32)
    kernel = mt.jit(gemm).compile(a, b, c)
    kernel(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    scheduled = kernel.ir["scheduled"]
    # Whole blocks, two edges and the corner; no size is left that depends on the block.
    assert scheduled.count('"mlirtri.blocks": 1') == 8
    assert "T.max(" in kernel.ir["tir"]
    assert "T.max(" not in scheduled
    # Four steps are one sum in registers.
    assert "for i_4, i_16 in T.grid(T.int64(4), T.int64(16))" in scheduled


def test_blocks_that_depend_on_each_other_keep_their_order():
    @mt.jit
    def sums(x, y):
        with T.Kernel(T.ceildiv(x.shape[0], 8)) as bx:
            tile = T.alloc_shared((8,))
            T.copy(x[bx * 8], tile)
            T.reduce_sum(tile, total := T.alloc_fragment((1,)), dim=0)
            y[bx + 1] = y[bx] * 0.5 + total[0]

    x, y = random(30), np.zeros(5, np.float32)
    sums(x, y)
    expected = np.zeros(5)
    for block, part in enumerate(np.pad(x, (0, 2)).reshape(4, 8)):
        expected[block + 1] = expected[block] * 0.5 + part.sum()
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
