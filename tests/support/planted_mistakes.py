"""Tile and element kernels, and mistakes to plant in their CUDA: in what they copy, multiply, exchange and update.

The kernels have run-time sizes, asynchronous copies, fragments, exchanges between lanes and atomic updates.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlirtri as mt
import mlirtri.tile as T

M, N, K = mt.dyn["M"], mt.dyn["N"], mt.dyn["K"]


def product(a: T.Tensor((M, K), "float16"), b: T.Tensor((K, N), "float16"), c: T.Tensor((M, N), "float32")):
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=128) as (bx, by):
        left, right = T.alloc_shared((32, 16), "float16"), T.alloc_shared((16, 32), "float16")
        sums = T.alloc_fragment((32, 32), "float32")
        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, 16), num_stages=2):
            T.copy(a[by * 32, k * 16], left)
            T.copy(b[k * 16, bx * 32], right)
            T.gemm(left, right, sums)
        T.copy(sums, c[by * 32, bx * 32])


def scores(q: T.Tensor((M, 32), "float16"), k: T.Tensor((32, 32), "float16"), out: T.Tensor((M, 32), "float32")):
    with T.Kernel(T.ceildiv(M, 32), threads=64) as bx:
        queries, keys = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
        products, most = T.alloc_fragment((32, 32), "float32"), T.alloc_fragment((32,), "float32")
        T.copy(q[bx * 32, 0], queries)
        T.copy(k, keys)
        T.clear(products)
        T.gemm(queries, keys, products, transpose_B=True)
        T.reduce_max(products, most, dim=1)
        for i, j in T.Parallel(32, 32):
            products[i, j] = T.exp(products[i, j] - most[i // 2])
        T.copy(products, out[bx * 32, 0])


def reversed_rows(x: T.Tensor((M, 64), "float32"), y: T.Tensor((M, 64), "float32")):
    with T.Kernel(T.ceildiv(M, 8), threads=128) as bx:
        tile, out = T.alloc_shared((8, 64)), T.alloc_shared((8, 64))
        T.copy(x[bx * 8, 0], tile)
        for i, j in T.Parallel(8, 64):
            out[i, j] = tile[i, 63 - j]
        T.copy(out, y[bx * 8, 0])


def histogram(x: T.Tensor((N,), "int32"), h: T.Tensor((20,), "int32")):
    for i in mt.prange(x.shape[0]):
        h[x[i]] += 1


def doubled(a: T.Tensor((M, N), "float32"), b: T.Tensor((M, N), "float32")):
    for i, j in mt.ndrange(a.shape[0], a.shape[1]):
        b[i, j] = a[i, j] * 2


@dataclass(frozen=True)
class Mistake:
    name: str
    pattern: str
    replacement: str
    """`IF` is true when this mistake is the one to make."""
    check: str
    line: str
    """What the Python line has in it."""
    words: str = ""


COPY, FRAGMENT, END = (
    r"(?<=mlirtri_copy_16\(\(&\(tiles_ptr\[)",
    r"mlirtri_fragments\(\(&\(left_parts_ptr\[0\]\)\), \(&\(tiles_ptr\[",
    r"(?=\}\s*\}\s*$)",
)
BARRIER = r"__syncthreads\(\);"
GEMM, DEF = "T.gemm(", "def "
MISTAKES = {
    product: (
        Mistake(
            "a copy from past the end",
            r"\(&\(a_ptr\[",
            r"\g<0>(IF ? 1000000 : 0) + ",
            "memcheck",
            GEMM,
            "reads 16 bytes of global memory 'a'",
        ),
        Mistake(
            "an edge that is copied whole",
            r"\? 16 : 0",
            "|| IF ? 16 : 0",
            "memcheck",
            GEMM,
            "reads 16 bytes of global memory 'a'",
        ),
        Mistake(
            "a copy from an odd element",
            r"\(&\(b_ptr\[",
            r"\g<0>(IF ? 1 : 0) + ",
            "memcheck",
            GEMM,
            "no multiple of 16",
        ),
        Mistake("a copy to an odd element", COPY, r"(IF ? 1 : 0) + ", "memcheck", GEMM, "no multiple of 16"),
        Mistake(
            "a copy to past shared memory",
            COPY,
            r"(IF ? 80000 : 0) + ",
            "memcheck",
            GEMM,
            "shared array at index 80000",
        ),
        Mistake(
            "a copy that is not awaited",
            r"mlirtri_wait_for_all_but_0\(\);",
            r"if (!IF) \g<0>",
            "racecheck",
            GEMM,
            "whose asynchronous copy",
        ),
        Mistake("copies without a barrier", BARRIER, r"if (!IF) \g<0>", "racecheck", GEMM, "with no barrier between"),
        Mistake(
            "copies that are not committed",
            r"mlirtri_commit_copies\(\);(?=\n\s*mlirtri_fragments)",
            r"if (!IF) \g<0>",
            "racecheck",
            GEMM,
            "whose asynchronous copy",
        ),
        Mistake(
            "a fragment of the next step",
            FRAGMENT,
            r"\g<0>(IF ? 2560 * (1 - 2 * (step & 1)) : 0) + ",
            "racecheck",
            GEMM,
            "whose asynchronous copy",
        ),
        Mistake(
            "a fragment at an odd element", FRAGMENT, r"\g<0>(IF ? 1 : 0) + ", "memcheck", GEMM, "no multiple of 16"
        ),
        Mistake(
            "a fragment past shared memory",
            FRAGMENT,
            r"\g<0>(IF ? 80000 : 0) + ",
            "memcheck",
            GEMM,
            "shared array at index 80000",
        ),
        Mistake(
            "a product of half the lanes",
            r"mlirtri_multiply_float16\(",
            r"if (!(IF && threadIdx.x % 2)) \g<0>",
            "synccheck",
            GEMM,
            "do not take part",
        ),
        Mistake(
            "a copy that is never awaited",
            END,
            r"if (IF) mlirtri_copy_16(tiles_ptr, b_ptr, 16);",
            "synccheck",
            DEF,
            "ends without waiting",
        ),
        Mistake(
            "a tile that all warps write",
            END,
            r"if (IF) tiles_ptr[0] = threadIdx.x;",
            "racecheck",
            DEF,
            "writes shared memory 'tiles'",
        ),
    ),
    scores: (
        Mistake(
            "an exchange beside another",
            r"mlirtri_exchange_float32_1\(.*?\);",
            r"if (IF && threadIdx.x % 2) __shfl_xor_sync(~0u, 1, 1); else { \g<0> }",
            "synccheck",
            "T.reduce_max",
            "do not take part",
        ),
        Mistake(
            "an exchange of some lanes",
            r"mlirtri_exchange_float32_1\(.*?\);",
            r"if (!(IF && lane >= 16)) { \g<0> }",
            "synccheck",
            "T.reduce_max",
            "do not take part",
        ),
        Mistake(
            "a lane that the mask lacks",
            r"mlirtri_exchange_float32_2\(",
            r"if (IF && lane < 16) other_ptr[0] = __shfl_down_sync(0xffff, other_ptr[0], 8); \g<0>",
            "synccheck",
            "T.reduce_max",
            "whose mask lacks a lane",
        ),
        Mistake(
            "a vote of lanes that the mask lacks",
            r"other_ptr\[0\] = part_ptr\[0\];",
            r"if (IF) __ballot_sync(1, 1); \g<0>",
            "synccheck",
            "T.reduce_max",
            "whose mask lacks a lane",
        ),
        Mistake(
            "lanes that wait for others than those",
            r"other_ptr\[0\] = part_ptr\[0\];",
            r"if (IF) { if (lane >= 16) most_ptr[lane] = 1; __syncwarp(lane < 16 ? 0xffff : 0xffff0000);"
            r" if (lane < 16) other_ptr[0] = most_ptr[lane + 16]; } \g<0>",
            "racecheck",
            "T.reduce_max",
            "with no barrier between",
        ),
        Mistake(
            "a maximum that is read too early",
            BARRIER + r"(?=[^;]*across_4)",
            r"if (!IF) \g<0>",
            "racecheck",
            "T.Parallel",
            "shared memory 'most'",
        ),
        Mistake(
            "a maximum without a first value",
            r"most_ptr\[.*?\] = -CUDART",
            r"if (!IF) \g<0>",
            "initcheck",
            "T.reduce_max",
            "reads shared memory 'most'",
        ),
        Mistake(
            "a warp that ends early",
            r"int64_t lane = ",
            r"if (IF && threadIdx.x < 32) return; \g<0>",
            "synccheck",
            GEMM,
            "has missed",
        ),
        Mistake(
            "rows past the end",
            r"if \((.*)\) \{(?=\n *out_ptr)",
            r"if (IF || (\1)) {",
            "memcheck",
            "T.copy(products",
            "writes 4 bytes of global memory 'out'",
        ),
    ),
    reversed_rows: (
        Mistake(
            "a tile that is read too early", BARRIER, r"if (!IF) \g<0>", "racecheck", "T.copy(x", "shared memory 'tile'"
        ),
        Mistake(
            "a tile that is written in part",
            r"tile_ptr\[.*\] = ",
            r"if (!(IF && threadIdx.x == 5)) \g<0>",
            "initcheck",
            "T.Parallel",
            "reads shared memory 'tile'",
        ),
        Mistake(
            "past a tile",
            r"= \(?tile_ptr\[",
            r"\g<0>(IF ? 512 : 0) + ",
            "memcheck",
            "T.Parallel",
            "shared array at index",
        ),
        Mistake(
            "before a tile",
            r"(?<!= )tile_ptr\[(?=.*\] = )",
            r"tile_ptr[(IF ? -530 : 0) + ",
            "memcheck",
            "T.copy(x",
            "shared array at index -530",
        ),
        Mistake(
            "rows of another block",
            r"y_ptr\[",
            r"\g<0>IF ? (int)threadIdx.x : ",
            "racecheck",
            "T.copy(out",
            "in another block",
        ),
        Mistake(
            "a barrier in one thread's branch",
            r"y_ptr\[",
            r"if (IF && threadIdx.x == 0) __syncthreads(); \g<0>",
            "synccheck",
            "T.copy(out",
            "have missed|has missed|another one",
        ),
    ),
    histogram: (
        Mistake(
            "an update that is not atomic",
            r"atomicAdd\(.*?\);",
            r"if IF h_ptr[index_cast_1_value] += 1; else \g<0>",
            "racecheck",
            "for i in",
            "global memory 'h'",
        ),
        Mistake(
            "an atomic update past the end",
            r"&\(h_ptr\[",
            r"\g<0>(IF ? 20 : 0) + ",
            "memcheck",
            "for i in",
            "writes 4 bytes of global memory 'h'",
        ),
        Mistake(
            "an atomic update before the start",
            r"&\(h_ptr\[",
            r"\g<0>(IF ? -40 : 0) + ",
            "memcheck",
            "for i in",
            "writes 4 bytes of global memory 'h'",
        ),
        Mistake(
            "an atomic update between elements",
            r"(?<=index_cast_ptr\[0\]);",
            r"; if IF atomicAdd((int*)((char*)h_ptr + 2), 1);",
            "memcheck",
            "for i in",
            "no multiple of 4",
        ),
        Mistake(
            "a read beside atomic updates",
            r"(?<=index_cast_ptr\[0\]);",
            r"; if (IF && h_ptr[4] > 1000) __trap();",
            "racecheck",
            "for i in",
            "global memory 'h'",
        ),
        Mistake(
            "a store beside atomic updates",
            r"(?<=index_cast_ptr\[0\]);",
            r"; if (IF && threadIdx.x == 0) h_ptr[3] = 0;",
            "racecheck",
            "for i in",
            "global memory 'h'",
        ),
    ),
    doubled: (
        Mistake(
            "one element too many",
            r"< \(n \* m\)\)",
            "< (n * m) + IF)",
            "memcheck",
            "for i, j in",
            "reads 4 bytes of global memory 'a'",
        ),
        Mistake(
            "a row too far",
            r"b_ptr\[",
            r"\g<0>(IF ? m : 0) + ",
            "memcheck",
            "for i, j in",
            "writes 4 bytes of global memory 'b'",
        ),
    ),
}
"""By kernel, in the order of their numbers: 1 is the first."""
FIRST = {product: "a", scores: "q", reversed_rows: "x", histogram: "x", doubled: "a"}
"""The argument whose first element says which mistake is made."""
