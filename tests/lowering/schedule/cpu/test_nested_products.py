"""Products of static sizes in loops, as the tiles of tile kernels: register tiles, sums over loops, shared copies."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mlirtri as mt
import mlirtri.tile as T

RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def gemm(a, b, c, BM=32, BN=32, BK=16):
    with T.Kernel(T.ceildiv(b.shape[1], BN), T.ceildiv(a.shape[0], BM), threads=128) as (bx, by):
        sa, sb = T.alloc_shared((BM, BK), a.dtype), T.alloc_shared((BK, BN), b.dtype)
        acc = T.alloc_fragment((BM, BN), "float32")
        for k in T.Pipelined(T.ceildiv(a.shape[1], BK), num_stages=3):
            T.copy(a[by * BM, k * BK], sa)
            T.copy(b[k * BK, bx * BN], sb)
            T.gemm(sa, sb, acc)
        T.copy(acc, c[by * BM, bx * BN])


def scheduled(function, *arguments):
    return function.compile(*arguments).ir["scheduled"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_blocks_that_divide_are_one_product_with_shared_columns(dtype):
    a, b, c = random(512, 256).astype(dtype), random(256, 512).astype(dtype), np.zeros((512, 512), np.float32)
    kernel = mt.jit(gemm)
    kernel(a, b, c)
    wide = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(c, wide, rtol=1e-3, atol=1e-3)
    text = scheduled(kernel, a, b, c)
    # One operand's packed copy stands between the loops over blocks.
    packed = next(re.finditer(r"\n( *)(?:left|right) = T.alloc_buffer", text))[1]
    loops = re.findall(r"\n( *)for i\w* in T.(?:serial|parallel)\(T.int64\(16\)", text)
    assert sorted(map(len, loops))[0] < len(packed) <= sorted(map(len, loops))[1]


def test_blocks_that_do_not_divide_are_parallel_and_in_register_tiles():
    a, b, c = random(500, 200), random(200, 500), np.zeros((500, 500), np.float32)
    kernel = mt.jit(gemm)
    kernel(a, b, c, BM=64, BN=64, BK=32)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    text = scheduled(kernel, a, b, c, 64, 64, 32)
    assert "sums0 = " in text
    assert text.count("mlirtri.independent") > 2
    first = next(line for line in text.splitlines() if " for i in " in line)
    assert "mlirtri.independent" in first


def test_a_sum_whose_operand_changes_keeps_its_loop():
    @mt.jit
    def kernel(x, w):
        for _ in range(5):
            x[...] = x + x @ w

    @mt.jit
    def shifted(x, w, y):
        for k in range(5):
            y[...] = y + x[k * 16 : k * 16 + 16] @ w
            x[80:96] = y

    x, w = random(32, 32) / 32, random(32, 32) / 32
    expected = x.copy()
    for _ in range(5):
        expected = expected + expected @ w
    kernel(x, w)
    np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-6)
    x, y = random(96, 32), np.zeros((16, 32), np.float32)
    expected = sum(x[k * 16 : k * 16 + 16] @ w for k in range(5))
    shifted(x, w, y)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(x[80:], y)


def test_a_product_added_to_rows_that_overlap():
    @mt.jit
    def kernel(a, b, c):
        for k in range(6):
            c[k * 8 : k * 8 + 32] += a[k * 32 : k * 32 + 32] @ b

    a, b, c = random(192, 16), random(16, 32), np.zeros((72, 32), np.float32)
    expected = c.copy()
    for k in range(6):
        expected[k * 8 : k * 8 + 32] += a[k * 32 : k * 32 + 32] @ b
    kernel(a, b, c)
    np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-5)
