"""Programs as users of TileLang write them, each a factory with `out_idx`; only the two import lines are ours."""

import torch

import mlirtri.tile as T
import mlirtri.tile as tilelang


def product(M, N, K, BM, BN, BK, dtype="float16", accum="float"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
            A_shared = T.alloc_shared((BM, BK), dtype)
            B_shared = T.alloc_shared((BK, BN), dtype)
            C_local = T.alloc_fragment((BM, BN), accum)
            T.annotate_layout({A_shared: tilelang.layout.make_swizzled_layout(A_shared)})
            T.use_swizzle(panel_size=10, enable=True)
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, BK), num_stages=3):
                T.copy(A[by * BM, ko * BK], A_shared)
                for k, j in T.Parallel(BK, BN):
                    B_shared[k, j] = B[ko * BK + k, bx * BN + j]
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(BM, BN):
                C_local[i, j] = T.max(C_local[i, j], 0)
            T.copy(C_local, C[by * BM, bx * BN])

    return main


@tilelang.jit(out_idx=[3])
def attention(batch, heads, length, dim, BM, BN, causal=True):  # noqa: C901 - as TileLang's programs are written
    scale = (1.0 / dim) ** 0.5 * 1.44269504

    @T.macro
    def scores_of(K, Q_shared, K_shared, scores, k, bx, by, bz):
        T.copy(K[bz, k * BN : (k + 1) * BN, by, :], K_shared)
        if causal:
            for i, j in T.Parallel(BM, BN):
                scores[i, j] = T.if_then_else(bx * BM + i >= k * BN + j, 0, -T.infinity(scores.dtype))
        else:
            T.clear(scores)
        T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, length, heads, dim), "float16"), K: T.Tensor((batch, length, heads, dim), "float16"),
        V: T.Tensor((batch, length, heads, dim), "float16"), Out: T.Tensor((batch, length, heads, dim), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(length, BM), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared([BM, dim], "float16")
            K_shared, V_shared = T.alloc_shared([BN, dim], "float16"), T.alloc_shared([BN, dim], "float16")
            O_shared = T.alloc_shared([BM, dim], "float16")
            scores, weights = T.alloc_fragment([BM, BN], "float"), T.alloc_fragment([BM, BN], "float16")
            out = T.alloc_fragment([BM, dim], "float")
            most, before = T.alloc_fragment([BM], "float"), T.alloc_fragment([BM], "float")
            factor, part = T.alloc_fragment([BM], "float"), T.alloc_fragment([BM], "float")
            total = T.alloc_fragment([BM], "float")
            T.copy(Q[bz, bx * BM : (bx + 1) * BM, by, :], Q_shared)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(most, -T.infinity("float"))
            blocks = T.min(T.ceildiv(length, BN), T.ceildiv((bx + 1) * BM, BN)) if causal else T.ceildiv(length, BN)
            for k in T.Pipelined(blocks, num_stages=2):
                scores_of(K, Q_shared, K_shared, scores, k, bx, by, bz)
                T.copy(most, before)
                T.reduce_max(scores, most, dim=1, clear=False)
                for i in T.Parallel(BM):
                    factor[i] = T.exp2(before[i] * scale - most[i] * scale)
                for i, j in T.Parallel(BM, BN):
                    scores[i, j] = T.exp2(scores[i, j] * scale - most[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(BM):
                    total[i] = total[i] * factor[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(BM, dim):
                    out[i, j] *= factor[i]
                T.copy(V[bz, k * BN : (k + 1) * BN, by, :], V_shared)
                T.gemm(weights, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(BM, dim):
                out[i, j] /= total[i]
            T.copy(out, O_shared)
            T.copy(O_shared, Out[bz, bx * BM : (bx + 1) * BM, by, :])

    return main


def nibble(value, position, dtype):
    return ((value >> (position * 4).astype("uint8")) & 15).astype(dtype)


@tilelang.jit(out_idx=-1, execution_backend="cython", pass_configs={"tl.disable_tma_lower": True})
def int4_product(M, N, K, BM, BN, BK):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K // 2), "uint8"), Ct: T.Tensor((N, M), "float16")):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
            A_shared, B_shared = T.alloc_shared((BM, BK), "float16"), T.alloc_shared((BN, BK // 2), "uint8")
            B_local, B_wide = T.alloc_fragment((BN, BK // 2), "uint8"), T.alloc_fragment((BN, BK), "float16")
            Ct_local, Ct_shared = T.alloc_fragment((BN, BM), "float32"), T.alloc_shared((BN, BM), "float16")
            T.clear(Ct_local)
            for k in T.Pipelined(K // BK, num_stages=2):
                T.copy(A[by * BM, k * BK], A_shared)
                T.copy(B[bx * BN, k * BK // 2], B_shared)
                T.copy(B_shared, B_local)
                for i, j in T.Parallel(BN, BK):
                    B_wide[i, j] = nibble(B_local[i, j // 2], j % 2, "float16")
                T.gemm(B_wide, A_shared, Ct_local, transpose_B=True)
            T.copy(Ct_local, Ct_shared)
            T.copy(Ct_shared, Ct[bx * BN : (bx + 1) * BN, by * BM : (by + 1) * BM])

    return main


@tilelang.jit(out_idx=[2])
def convolution(N, C, H, W, F, K, S, D, P, BM, BN, BK):
    OH, OW = (H + 2 * P - D * (K - 1) - 1) // S + 1, (W + 2 * P - D * (K - 1) - 1) // S + 1

    @T.prim_func
    def main(
        data: T.Tensor((N, H, W, C), "float16"), kernel: T.Tensor((K, K, C, F), "float16"),
        out: T.Tensor((N, OH, OW, F), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(F, BN), T.ceildiv(N * OH * OW, BM), threads=128) as (bx, by):
            data_shared, kernel_shared = T.alloc_shared((BM, BK), "float16"), T.alloc_shared((BK, BN), "float16")
            sums, out_shared = T.alloc_fragment((BM, BN), "float"), T.alloc_shared((BM, BN), "float16")
            kernel_flat = T.Tensor((K * K * C, F), "float16", kernel.data)
            out_flat = T.Tensor((N * OH * OW, F), "float16", out.data)
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(K * K * C, BK), num_stages=2):
                for i, j in T.Parallel(BM, BK):
                    k, m = step * BK + j, by * BM + i
                    h = m % (OH * OW) // OW * S + k // (K * C) * D - P
                    w = m % OW * S + k // C % K * D - P
                    inside = (h >= 0) and (w >= 0) and (h < H) and (w < W)
                    data_shared[i, j] = T.if_then_else(inside, data[m // (OH * OW), h, w, k % C], 0)
                T.copy(kernel_flat[step * BK, bx * BN], kernel_shared)
                T.gemm(data_shared, kernel_shared, sums)
            T.copy(sums, out_shared)
            T.copy(out_shared, out_flat[by * BM, bx * BN])

    return main


@tilelang.jit(out_idx=[-1])
def rms_norm(N, BM):
    M = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((M, N), "float"), B: T.Tensor((M, N), "float")):
        with T.Kernel(T.ceildiv(M, BM), threads=128) as bx:
            A_shared = T.alloc_shared((BM, N), "float")
            A_local, squares = T.alloc_fragment((BM, N), "float"), T.alloc_fragment((BM, N), "float")
            sums = T.alloc_fragment((BM,), "float")
            T.copy(A[bx * BM : (bx + 1) * BM, :], A_shared)
            T.copy(A_shared, A_local)
            for i, j in T.Parallel(BM, N):
                squares[i, j] = A_local[i, j] * A_local[i, j]
            T.reduce_sum(squares, sums, dim=1)
            for i in T.Parallel(BM):
                sums[i] = T.rsqrt(sums[i] / N + 1e-12)
            for i, j in T.Parallel(BM, N):
                A_local[i, j] *= sums[i]
            T.copy(A_local, B[bx * BM : (bx + 1) * BM, :])

    return main


@tilelang.jit(out_idx=[1, 2])
def largest(M, N, count, BM):
    @T.prim_func
    def main(X: T.Tensor([M, N], "float"), values: T.Tensor([M, count], "float"), at: T.Tensor([M, count], "int32")):
        with T.Kernel(T.ceildiv(M, BM), threads=128) as bx:
            row, most = T.alloc_fragment([BM, N], dtype="float"), T.alloc_fragment([BM], dtype="float")
            places, place = T.alloc_fragment([BM, N], "int32"), T.alloc_fragment([BM], "int32")
            T.copy(X[bx * BM, 0], row)
            for k in T.serial(count):
                T.fill(places, -1)
                T.reduce_max(row, most, dim=1, clear=True)
                for i, j in T.Parallel(BM, N):
                    places[i, j] = T.if_then_else(most[i] == row[i, j], j, places[i, j])
                T.reduce_max(places, place, dim=1, clear=True)
                for i, j in T.Parallel(BM, N):
                    row[i, j] = T.if_then_else(most[i] == row[i, j], -10000.0, row[i, j])
                for i in T.Parallel(BM):
                    values[bx * BM + i, k], at[bx * BM + i, k] = most[i], place[i]

    return main


@tilelang.jit(out_idx=[-1])
def split_product(M, N, K, BM, BN, BK, splits):
    part = K // splits

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), splits, threads=128) as (bx, by, bz):
            A_shared, B_shared = T.alloc_shared((BM, BK), "float16"), T.alloc_shared((BN, BK), "float16")
            C_shared, C_local = T.alloc_shared((BM, BN), "float32"), T.alloc_fragment((BM, BN), "float")
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(part, BK), num_stages=0):
                T.copy(A[by * BM, bz * part + ko * BK], A_shared)
                T.copy(B[bx * BN, bz * part + ko * BK], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C_shared)
            for i, j in T.Parallel(BM, BN):
                T.atomic_add(C[by * BM + i, bx * BN + j], C_shared[i, j])

    return main


def halves(*shape):
    return torch.randn(*shape).half()


def attention_of_torch(q, k, v):
    wide = [x.float().transpose(1, 2) for x in (q, k, v)]
    return torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=True).transpose(1, 2)


def weights_of(packed):
    return torch.stack([packed & 15, packed >> 4], 2).reshape(packed.shape[0], -1).float()


def convolution_of_torch(x, w):
    result = torch.nn.functional.conv2d(x.float().permute(0, 3, 1, 2), w.float().permute(3, 2, 0, 1), padding=1)
    return result.permute(0, 2, 3, 1)


PROGRAMS = {
    "product": (
        lambda: tilelang.compile(product(70, 45, 64, 32, 32, 32), out_idx=[2]),
        lambda: (halves(70, 64), halves(64, 45)),
        lambda a, b: torch.relu(a.float() @ b.float()),
    ),
    "attention": (
        lambda: attention(1, 2, 64, 32, 32, 32),
        lambda: tuple(halves(1, 64, 2, 32) for _ in range(3)),
        attention_of_torch,
    ),
    "int4 product": (
        lambda: int4_product(64, 96, 64, 32, 32, 32),
        lambda: (halves(64, 64), torch.randint(0, 256, (96, 32), dtype=torch.uint8)),
        lambda a, b: weights_of(b) @ a.float().T,
    ),
    "convolution": (
        lambda: convolution(2, 16, 8, 8, 32, 3, 1, 1, 1, 32, 32, 32),
        lambda: (halves(2, 8, 8, 16), halves(3, 3, 16, 32)),
        convolution_of_torch,
    ),
    "rms norm": (
        lambda: rms_norm(48, 4),
        lambda: (torch.randn(19, 48),),
        lambda a: a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-12),
    ),
    "largest": (
        lambda: largest(32, 24, 3, 8),
        lambda: (torch.randn(32, 24),),
        lambda x: torch.topk(x, 3),
    ),
    "split product": (
        lambda: split_product(64, 32, 128, 32, 32, 32, 4),
        lambda: (halves(64, 128), halves(32, 128)),
        lambda a, b: a.float() @ b.float().T,
    ),
}
"""From a name to the kernel, its inputs, and what torch computes of them."""
