"""Sources in TileLang's spellings, with the import line changed, against NumPy and torch in two pipelines.

Annotations are evaluated at the definition, since they use names that bodies do not.
"""

import numpy as np
import pytest
import torch

import mlirtri as mt
import mlirtri.tile as T

RNG = np.random.default_rng(0)
PIPELINES = pytest.mark.parametrize("pipeline", ["linalg", "mlir"])


def matmul(M, N, K, block_M, block_N, block_K, pipeline, dtype="float16", accum_dtype="float"):
    @T.prim_func(pipeline=pipeline)
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.annotate_layout({A_shared: make_swizzled_layout(A_shared)})  # noqa: F821 - a hint, which is not read
            T.use_swizzle(panel_size=10, enable=True)
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, ko * block_K], A_shared)
                for k, j in T.Parallel(block_K, block_N):
                    B_shared[k, j] = B[ko * block_K + k, bx * block_N + j]
                T.gemm(A_shared, B_shared, C_local, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.max(C_local[i, j], 0)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@PIPELINES
def test_gemm_whose_elements_out_of_bounds_read_zero(pipeline):
    a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((70, 50), (50, 45)))
    c = np.zeros((70, 45), np.float16)
    matmul(70, 45, 50, 32, 32, 16, pipeline)(a, b, c)
    np.testing.assert_allclose(c, np.maximum(a.astype("f") @ b.astype("f"), 0), rtol=2e-3, atol=2e-3)


def flash_attention(batch, heads, seq_len, dim, is_causal, block_M, block_N, pipeline, dtype="float16"):  # noqa: C901
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape, accum_dtype = [batch, seq_len, heads, dim], "float"

    @T.macro
    def scores(
        K: T.Tensor(shape, dtype), Q_shared: T.SharedBuffer([block_M, dim], dtype),
        K_shared: T.SharedBuffer([block_N, dim], dtype), acc_s: T.FragmentBuffer([block_M, block_N], accum_dtype),
        k: T.int32, bx: T.int32, by: T.int32, bz: T.int32,
    ):  # fmt: skip
        T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
        if is_causal:
            for i, j in T.Parallel(block_M, block_N):
                acc_s[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0, -T.infinity(acc_s.dtype))
        else:
            T.clear(acc_s)
        T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

    @T.macro
    def softmax(acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum):
        T.copy(scores_max, scores_max_prev)
        T.fill(scores_max, -T.infinity(accum_dtype))
        T.reduce_max(acc_s, scores_max, dim=1, clear=False)
        for i in T.Parallel(block_M):
            scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
            scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
        for i, j in T.Parallel(block_M, block_N):
            acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
        T.reduce_sum(acc_s, scores_sum, dim=1)
        for i in T.Parallel(block_M):
            logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
        T.copy(acc_s, acc_s_cast)

    @T.prim_func(pipeline=pipeline)
    def main(
        Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype), Output: T.Tensor(shape, dtype)
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared, V_shared = T.alloc_shared([block_N, dim], dtype), T.alloc_shared([block_N, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
            scores_max, scores_max_prev = T.alloc_fragment([block_M], "float"), T.alloc_fragment([block_M], "float")
            scores_scale, scores_sum = T.alloc_fragment([block_M], "float"), T.alloc_fragment([block_M], "float")
            logsum = T.alloc_fragment([block_M], accum_dtype)
            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(scores_max, -T.infinity(accum_dtype))
            loop_range = (
                T.min(T.ceildiv(seq_len, block_N), T.ceildiv((bx + 1) * block_M, block_N))
                if is_causal
                else T.ceildiv(seq_len, block_N)
            )
            for k in T.Pipelined(loop_range, num_stages=2):
                scores(K, Q_shared, K_shared, acc_s, k, bx, by, bz)
                softmax(acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


@PIPELINES
@pytest.mark.parametrize(("is_causal", "length"), [(True, 40), (False, 48)])
def test_flash_attention_of_macros(pipeline, is_causal, length):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, length, 2, 16, dtype=torch.float16) for _ in range(3))
    out = torch.zeros_like(q)
    flash_attention(1, 2, length, 16, is_causal, 16, 16, pipeline)(q, k, v, out)
    wide = [x.float().transpose(1, 2) for x in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=is_causal).transpose(1, 2)
    torch.testing.assert_close(out.float(), expected, rtol=2e-3, atol=2e-3)


@PIPELINES
def test_split_k_adds_atomically_elements_and_tiles(pipeline):
    @T.prim_func(pipeline=pipeline)
    def split_k(A: T.Tensor((40, 64)), B: T.Tensor((50, 64)), C: T.Tensor((40, 50)), D: T.Tensor((40, 50))):
        with T.Kernel(T.ceildiv(50, 16), T.ceildiv(40, 16), 4, threads=128) as (bx, by, bz):
            A_shared, B_shared = T.alloc_shared((16, 8)), T.alloc_shared((16, 8))
            C_local = T.alloc_fragment((16, 16), "float")
            for ko in T.Pipelined(T.ceildiv(16, 8), num_stages=0):
                T.copy(A[by * 16, bz * 16 + ko * 8], A_shared)
                T.copy(B[bx * 16, bz * 16 + ko * 8], B_shared[0:16, 0:8])
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            for i, j in T.Parallel(16, 16):
                T.atomic_add(C[by * 16 + i, bx * 16 + j], C_local[i, j])
            T.atomic_add(D[by * 16, bx * 16], C_local)

    a, b = (RNG.standard_normal((n, 64)).astype(np.float32) for n in (40, 50))
    c, d = np.ones((40, 50), np.float32), np.zeros((40, 50), np.float32)
    split_k(a, b, c, d)
    np.testing.assert_allclose(c - 1, a @ b.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(d, a @ b.T, rtol=1e-4, atol=1e-4)


@PIPELINES
def test_sizes_of_run_time_by_name(pipeline):
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func(pipeline=pipeline)
    def scale(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, 16), T.ceildiv(m, 8)) as (bx, by):
            tile = T.alloc_shared((8, 16))
            T.copy(X[by * 8, bx * 16], tile)
            for i, j in T.Parallel(8, 16):
                tile[i, j] = tile[i, j] * 2 + n
            T.copy(tile, Y[by * 8, bx * 16])

    for shape in ((8, 16), (13, 21), (1, 1)):
        x, y = RNG.standard_normal(shape).astype(np.float32), np.zeros(shape, np.float32)
        scale(x, y)
        np.testing.assert_allclose(y, x * 2 + shape[1], rtol=1e-6)
    assert scale.compiles == 1


def test_block_sizes_are_tuned():
    @mt.autotune([mt.Config({"BM": 8}), mt.Config({"BM": 16})], key=["x"])
    @mt.jit
    def double(x, y, BM):
        with T.Kernel(T.ceildiv(x.shape[0], BM)) as bx:
            tile = T.alloc_shared((BM,))
            T.copy(x[bx * BM], tile)
            for i in T.Parallel(BM):
                tile[i] = tile[i] + tile[i]
            T.copy(tile, y[bx * BM])

    x, y = RNG.standard_normal(50).astype(np.float32), np.zeros(50, np.float32)
    double(x, y)
    np.testing.assert_array_equal(y, x + x)
    assert double.best_config in double.configs
