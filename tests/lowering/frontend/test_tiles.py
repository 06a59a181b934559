"""Tile kernels: `mlirtri.tile` against NumPy in two pipelines, and their errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
import mlirtri.tile as T
from mlirtri.dialect.bindings.mlir import ir

RNG = np.random.default_rng(0)
PIPELINES = pytest.mark.parametrize("pipeline", ["linalg", "mlir"])


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def gemm(a, b, c, BM=32, BN=16, BK=8):
    with T.Kernel(T.ceildiv(b.shape[1], BN), T.ceildiv(a.shape[0], BM), threads=128) as (bx, by):
        sa = T.alloc_shared((BM, BK), "float32")
        sb = T.alloc_shared((BK, BN), "float32")
        acc = T.alloc_fragment((BM, BN), "float32")
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(a.shape[1], BK), num_stages=3):
            T.copy(a[by * BM, k * BK], sa)
            T.copy(b[k * BK : (k + 1) * BK, bx * BN : (bx + 1) * BN], sb)
            T.gemm(sa, sb, acc)
        T.copy(acc, c[by * BM, bx * BN])


@PIPELINES
@pytest.mark.parametrize(("m", "n", "k"), [(70, 45, 50), (64, 32, 16), (5, 3, 2)])
def test_gemm_with_sizes_that_blocks_do_not_divide(pipeline, m, n, k):
    a, b, c = random(m, k), random(k, n), random(m, n)
    mt.jit(gemm, pipeline=pipeline)(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@PIPELINES
def test_gemm_of_a_transposed_tile_into_an_array_of_the_kernel(pipeline):
    @mt.jit(pipeline=pipeline)
    def kernel(a, b):
        c = np.empty((20, 24), dtype=np.float32)
        with T.Kernel(2, 2) as (bx, by):
            sa, sb = T.alloc_shared((16, 12), "float32"), T.alloc_shared((16, 12), "float32")
            acc = T.alloc_fragment((16, 16), T.float32)
            T.fill(acc, 1)
            T.copy(a[by * 16, 0], sa)
            T.copy(b[bx * 16, 0], sb)
            T.gemm(sa, sb, acc, transpose_B=True)
            for i, j in T.Parallel(16, 16):
                acc[i, j] = T.max(acc[i, j], 0)
            T.copy(acc, c[by * 16, bx * 16])
        return c

    a, b = random(20, 12), random(24, 12)
    np.testing.assert_allclose(kernel(a, b), np.maximum(a @ b.T + 1, 0), rtol=1e-5, atol=1e-5)


@PIPELINES
def test_a_softmax_of_rows(pipeline):
    @mt.jit(pipeline=pipeline)
    def softmax(x, y):
        with T.Kernel(T.ceildiv(x.shape[0], 4)) as bx:
            rows, most, total = T.alloc_shared((4, 10)), T.alloc_local((4,)), T.alloc_local((4,))
            T.copy(x[bx * 4, 0], rows)
            T.reduce_max(rows, most, dim=1)
            for i, j in T.Parallel(4, 10):
                rows[i, j] = T.exp(rows[i, j] - most[i])
            T.reduce_sum(rows, total, dim=1)
            for i, j in T.Parallel(4, 10):
                rows[i, j] = rows[i, j] / total[i]
            T.copy(rows, y[bx * 4, 0])

    x, y = random(11, 10), random(11, 10)
    softmax(x, y)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


@PIPELINES
def test_a_corner_before_the_first_element_reads_zero(pipeline):
    @mt.jit(pipeline=pipeline)
    def shifted(x, y):
        with T.Kernel(3) as bx:
            tile = T.alloc_shared((4,))
            T.copy(x[bx * 4 - 6], tile)
            T.copy(tile, y[bx * 4])

    x, y = random(9), random(10)
    shifted(x, y)
    np.testing.assert_array_equal(y, np.concatenate([np.zeros(6, np.float32), x[:4]]))


def _refused(kernel, *arguments, **options):
    with pytest.raises(mt.KernelError) as caught:
        mt.jit(kernel, **options)(*arguments)
    return str(caught.value)


def test_names_outside_of_a_tile_kernel():
    def kernel(x):
        T.clear(x)

    message = _refused(kernel, random(4))
    assert ":9: error: T.clear stands outside of a tile kernel" in message
    assert "with T.Kernel(…)" in message


def test_a_gemm_of_shapes_that_disagree():
    def kernel(x):
        with T.Kernel(1) as _:
            a, b = T.alloc_shared((4, 8)), T.alloc_shared((4, 8))
            T.gemm(a, b, a)

    message = _refused(kernel, random(4))
    assert ":13: error: T.gemm of float32[4, 8] and float32[4, 8] cannot be added to float32[4, 8]" in message


def test_a_copy_of_other_extents():
    def kernel(x):
        with T.Kernel(1) as _:
            tile = T.alloc_shared((4,))
            T.copy(x[0:8], tile)

    assert ":13: error: T.copy from 8 elements to 4 along axis 0" in _refused(kernel, random(16))


def test_a_grid_with_too_few_names():
    def kernel(x):
        with T.Kernel(1, 2) as _:
            T.clear(x)

    assert "this grid has 2 axes, and 1 names stand after `as`" in _refused(kernel, random(4))


def test_a_parallel_loop_that_breaks():
    def kernel(x):
        with T.Kernel(1) as _:
            for i, j in T.Parallel(4, 4):
                if x[i] > 0:
                    break

    assert "without `break` and `else`" in _refused(kernel, random(4))


def test_a_tile_function_of_a_number():
    def kernel(x):
        with T.Kernel(1) as _:
            T.fill(3, 1)

    assert ":13: error: T.fill takes a tile as tile, got" in _refused(kernel, random(4))


@PIPELINES
def test_attention_whose_blocks_do_not_divide(pipeline):
    @mt.jit(pipeline=pipeline)
    def flash(q, k, v, o, BM=16, BN=16):
        S, D = q.shape[1], q.shape[2]
        with T.Kernel(T.ceildiv(S, BM), q.shape[0]) as (bx, bh):
            qs, ks, vs = T.alloc_shared((BM, D)), T.alloc_shared((BN, D)), T.alloc_shared((BN, D))
            s, acc = T.alloc_fragment((BM, BN)), T.alloc_fragment((BM, D))
            most, before = T.alloc_fragment((BM,)), T.alloc_fragment((BM,))
            total, part = T.alloc_fragment((BM,)), T.alloc_fragment((BM,))
            T.copy(q[bh, bx * BM, 0], qs)
            T.fill(most, -1e30)
            for block in T.Pipelined(T.ceildiv(S, BN), num_stages=2):
                T.copy(k[bh, block * BN, 0], ks)
                T.clear(s)
                T.gemm(qs, ks, s, transpose_B=True)
                for i, j in T.Parallel(BM, BN):
                    s[i, j] = T.if_then_else(block * BN + j < S, s[i, j] / D**0.5, -1e30)
                T.copy(most, before)
                T.reduce_max(s, most, dim=1, clear=False)
                for i, j in T.Parallel(BM, BN):
                    s[i, j] = T.exp(s[i, j] - most[i])
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(BM):
                    total[i] = total[i] * T.exp(before[i] - most[i]) + part[i]
                for i, j in T.Parallel(BM, D):
                    acc[i, j] = acc[i, j] * T.exp(before[i] - most[i])
                T.copy(v[bh, block * BN, 0], vs)
                T.gemm(s, vs, acc)
            for i, j in T.Parallel(BM, D):
                acc[i, j] = acc[i, j] / total[i]
            T.copy(acc, o[bh, bx * BM, 0])

    q, k, v = random(2, 40, 8), random(2, 40, 8), random(2, 40, 8)
    out = np.zeros_like(q)
    flash(q, k, v, out)
    scores = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(8))
    np.testing.assert_allclose(out, scores / scores.sum(-1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)


def test_tiles_keep_their_memory_spaces():
    a, b, c = random(70, 50), random(50, 45), random(70, 45)
    kernel = mt.jit(gemm, pipeline="mlir").compile(a, b, c)
    shared, private = (f"mlirtri.memory_space = #gpu.address_space<{space}>" for space in ("workgroup", "private"))
    for stage in ("tri", "linalg", "fused", "bufferized"):
        text = kernel.ir[stage]
        assert shared in text, stage
        assert private in text, stage
        # Upstream's dialects alone parse it; what is ours is no operation.
        if stage != "tri":
            ir.Module.parse(text, ir.Context())
    # Blocks do not divide the arrays, so that tiles have memory of their own.
    allocations = [line for line in kernel.ir["bufferized"].splitlines() if "memref.alloc" in line and "f32>" in line]
    assert [line for line in allocations if shared in line and "memref<32x8xf32>" in line]
    assert [line for line in allocations if shared in line and "memref<8x16xf32>" in line]
    assert [line for line in allocations if private in line and "memref<32x16xf32>" in line]
    assert "mlirtri" not in kernel.to_mlir("bufferized", bare=True)


def test_two_grids_in_one_statement():
    def kernel(a):
        with T.Kernel(2) as bx, T.Kernel(3) as by:
            a[bx, by] = 1

    with pytest.raises(mt.KernelError, match="a tile kernel has one grid") as caught:
        mt.jit(kernel)(random(2, 3))
    assert caught.value.span.line == kernel.__code__.co_firstlineno + 1
    assert caught.value.span.column == 33


def test_fp8_is_refused_with_what_to_pass_instead():
    def words(a):
        with T.Kernel(1):
            tile = T.alloc_shared((4,), "float8_e4m3")
            T.copy(a, tile)

    def name(a):
        with T.Kernel(1):
            tile = T.alloc_shared((4,), T.float8_e5m2)
            T.copy(a, tile)

    def elements(a):
        for i in mt.prange(a.shape[0]):
            a[i] += a[i].astype("float8_e4m3fn")

    for kernel in (words, name, elements):
        assert "float16" in _refused(kernel, random(4))
    match = r"'a': dtype torch.float8_e4m3fn is not supported: .* pass kernels float16"
    with pytest.raises(mt.KernelError, match=match):
        mt.jit(elements)(torch.zeros(4).to(torch.float8_e4m3fn))
