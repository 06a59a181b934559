"""Tile kernels as CUDA source, run on the emulated device, which checks every access: numbers, barriers, refusals."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import torch
from tiles import EXAMPLES

import mlirtri as mt
import mlirtri.tile as T
from mlirtri.errors import DeviceCheckError

RNG = np.random.default_rng(0)
emulated = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
QUICK = ("gemm fp16", "softmax")


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@emulated
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in EXAMPLES]
)
def test_an_example_on_the_emulated_device(name):
    example = EXAMPLES[name]
    torch.manual_seed(0)
    inputs = example.make(1)
    expected = example.reference(*inputs)
    out = torch.zeros(expected.shape, dtype=example.dtype)
    mt.jit(example.kernel, target="cuda:emulated")(*inputs, out, **example.constants)
    torch.testing.assert_close(out.double(), expected.double(), rtol=example.tolerance, atol=example.tolerance)


M, N = mt.dyn["M"], mt.dyn["N"]


@emulated
def test_sizes_of_run_time():
    @mt.jit(target="cuda:emulated")
    def kernel(x: T.Tensor((M, N)), y: T.Tensor((M, N))):
        with T.Kernel(T.ceildiv(N, 16), T.ceildiv(M, 8), threads=64) as (bx, by):
            tile = T.alloc_shared((8, 16))
            T.copy(x[by * 8, bx * 16], tile)
            for i, j in T.Parallel(8, 16):
                tile[i, j] = tile[i, j] * 2 + M
            T.copy(tile, y[by * 8, bx * 16])

    # A number of the sizes stands before the grid, and no launch has a grid of no blocks.
    for shape in ((8, 16), (13, 21), (1, 1), (0, 4)):
        x, y = random(*shape), np.zeros(shape, np.float32)
        kernel(x, y)
        np.testing.assert_array_equal(y, x * 2 + np.float32(shape[0]))
    assert kernel.compiles == 1
    source = kernel.compile(x, y).ir["cuda"]
    assert "blockIdx.y) < (" in source
    assert "%" not in source


@emulated
def test_fp16_products_use_tensor_cores_with_copies_ahead():
    example = EXAMPLES["gemm fp16"]
    a, b, c = torch.randn(64, 96).half(), torch.randn(96, 64).half(), torch.zeros(64, 64)
    kernel = mt.jit(example.kernel, target="cuda:emulated")
    kernel(a, b, c, BM=32, BN=32, BK=32)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)
    source = kernel.compile(a, b, c, BM=32, BN=32, BK=32).ir["cuda"]
    assert "mma.sync.aligned.m16n8k16" in source
    assert "ldmatrix.sync" in source
    assert source.count("mlirtri_copy_16((&(tiles") == 6  # three steps ahead, two operands
    assert "mlirtri_wait_for_all_but_1();" in source


K = mt.dyn["K"]


@emulated
def test_a_sum_of_run_time_is_copied_ahead_where_its_rows_are_aligned():
    @mt.jit(target="cuda:emulated")
    def kernel(a: T.Tensor((M, K), "float16"), b: T.Tensor((N, K), "float16"), c: T.Tensor((M, N))):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=64) as (bx, by):
            a_shared, b_shared = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            sums = T.alloc_fragment((32, 32))
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                T.copy(a[by * 32, k * 32], a_shared)
                T.copy(b[bx * 32, k * 32], b_shared)
                T.gemm(a_shared, b_shared, sums, transpose_B=True)
            T.copy(sums, c[by * 32, bx * 32])

    for m, n, k in ((40, 50, 72), (33, 1, 41), (64, 32, 160), (1, 2, 0)):
        a, b, c = torch.randn(m, k).half(), torch.randn(n, k).half(), torch.zeros(m, n)
        kernel(a, b, c)
        torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-3, atol=1e-3)
    assert kernel.compiles == 1
    source = kernel.compile(a, b, c).ir["cuda"]
    # Rows of 8 k elements lie at multiples of 16 bytes; others are copied by elements.
    assert source.count("mlirtri_copy_16((&(tiles") == 6
    assert "mlirtri_wait_for_all_but_1();" in source
    assert "mlirtri_put_uint16" in source


@emulated
def test_edges_are_zeros_of_the_same_copies():
    a, b, c = torch.randn(70, 104).half(), torch.randn(104, 90).half(), torch.zeros(70, 90)
    kernel = mt.jit(EXAMPLES["gemm fp16"].kernel, target="cuda:emulated")
    kernel(a, b, c, BM=32, BN=32, BK=32)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)
    source = kernel.compile(a, b, c, BM=32, BN=32, BK=32).ir["cuda"]
    assert source.count("mlirtri_copy_16((&(tiles") == 3  # rows of 104 halves
    assert source.count("mlirtri_copy_4((&(tiles") == 3  # rows of 90
    assert source.count("__syncthreads();") == 1  # in the loop


def test_bf16_products_use_tensor_cores():
    a, b = mt.Tensor((64, 96), mt.bfloat16), mt.Tensor((96, 64), mt.bfloat16)
    kernel = mt.jit(EXAMPLES["gemm fp16"].kernel)
    source = kernel.compile(a, b, mt.Tensor((64, 64), mt.float32), BM=32, BN=32, BK=32, target="cuda").ir["cuda"]
    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in source
    assert source.count("mlirtri_copy_16((&(tiles") == 6


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_products_of_tiles_that_blocks_do_not_divide(dtype):
    @mt.jit(target="cuda:emulated")
    def kernel(a, b, c):
        sums = "int32" if dtype == "int8" else "float32"
        with T.Kernel(T.ceildiv(b.shape[0], 32), T.ceildiv(a.shape[0], 32), threads=64) as (bx, by):
            x, y, z = T.alloc_shared((32, 32), dtype), T.alloc_shared((32, 32), dtype), T.alloc_fragment((32, 32), sums)
            for k in T.Pipelined(T.ceildiv(a.shape[1], 32), num_stages=2):
                T.copy(a[by * 32, k * 32], x)
                T.copy(b[bx * 32, k * 32], y)
                T.gemm(x, y, z, transpose_B=True)
            T.copy(z, c[by * 32, bx * 32])

    a, b = (RNG.integers(-9, 9, shape).astype(dtype) for shape in ((50, 70), (40, 70)))
    c = np.zeros((50, 40), np.int32 if dtype == "int8" else np.float32)
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.T.astype(np.int32))
    assert "mma.sync" in kernel.compile(a, b, c).ir["cuda"]


@emulated
@pytest.mark.slow
def test_attention_in_dynamic_shared_memory():
    example = EXAMPLES["flash attention fp16"]
    q, k, v = (torch.randn(1, 1, 128, 64).half() for _ in range(3))
    out = torch.zeros_like(q)
    kernel = mt.jit(example.kernel, target="cuda:emulated")
    kernel(q, k, v, out, BM=64, BN=64)
    torch.testing.assert_close(out.float(), example.reference(q, k, v), rtol=2e-3, atol=2e-3)
    source = kernel.compile(q, k, v, out, BM=64, BN=64).ir["cuda"]
    assert "extern __shared__" in source
    assert source.count("mlirtri_multiply_float16((&(") >= 2


def scaled(x, y):
    with T.Kernel(2, T.ceildiv(x.shape[0], 8), threads=64) as (bx, by):
        tile, most = T.alloc_shared((8, 16)), T.alloc_fragment((8,))
        T.copy(x[by * 8, bx * 16], tile)
        T.reduce_max(tile, most, dim=1)
        for i, j in T.Parallel(8, 16):
            tile[i, j] = tile[i, j] / most[i]
        T.copy(tile, y[by * 8, bx * 16])


@emulated
def test_a_barrier_that_is_removed_is_a_race():
    x, y = random(24, 32), np.zeros((24, 32), np.float32)
    mt.jit(scaled, target="cuda:emulated")(x, y)
    tiles = x.reshape(24, 2, 16)
    np.testing.assert_allclose(y, (tiles / tiles.max(2, keepdims=True)).reshape(24, 32), rtol=1e-6)
    kernel = mt.jit(scaled).compile(x, y, target="cuda:emulated")
    source = kernel.ir["cuda"]
    assert "blockIdx.y" in source
    assert "__shared__" in source
    barriers = list(re.finditer(r"  __syncthreads\(\);\n", source))
    # The one before the row maxima are read by other threads.
    needed = barriers[-2]
    raced = kernel.compilation.executable.with_source(source[: needed.start()] + source[needed.end() :])
    tensors = [torch.tensor(x), torch.tensor(y)]
    with pytest.raises(DeviceCheckError):
        raced.launch(tensors, [tensors[1]])


@emulated
def test_blocks_that_add_to_one_tile_run_in_order():
    @mt.jit(target="cuda:emulated")
    def kernel(x, y):
        with T.Kernel(2, 4) as (bx, bk):
            tile = T.alloc_shared((16,))
            T.copy(x[bk, bx * 16], tile)
            T.atomic_add(y[bx * 16], tile)

    x, y = random(4, 32), np.zeros(32, np.float32)
    kernel(x, y)
    np.testing.assert_allclose(y, x.sum(0), rtol=1e-5, atol=1e-6)


@emulated
def test_numbers_and_elements_that_one_thread_stores():
    @mt.jit(target="cuda:emulated")
    def kernel(x, y, factor):
        with T.Kernel(3) as bx:
            tile = T.alloc_shared((8,))
            T.copy(x[bx * 8], tile)
            total = T.alloc_var("float32")
            for i in T.serial(8):
                total = total + tile[i]
            if bx == 1:
                tile[2] = total * factor
            for i in T.serial(1, 8):
                tile[i] = tile[i] + tile[i - 1]
            T.copy(tile, y[bx * 8])

    x, y = random(20), np.zeros(20, np.float32)
    kernel(x, y, 0.5)
    blocks = np.pad(x, (0, 4)).reshape(3, 8)
    blocks[1, 2] = blocks[1].sum() * 0.5
    np.testing.assert_allclose(y, blocks.cumsum(1).reshape(-1)[:20], rtol=1e-5, atol=1e-6)


@emulated
def test_kernels_after_each_other_beside_whole_arrays():
    @mt.jit(target="cuda:emulated")
    def kernel(x):
        y = np.empty((24, 16), dtype=np.float32)
        z = np.zeros((24, 16), dtype=np.float32)
        with T.Kernel(3) as bx:
            tile = T.alloc_shared((8, 16))
            T.copy(x[bx * 8, 0], tile)
            count = 0
            while tile[0, 0] < 100 and count < 3:
                for i, j in T.Parallel(8, 16):
                    tile[i, j] = tile[i, j] * 2 + tile[i, j]
                count += 1
            T.copy(tile, y[bx * 8, 0])
        with T.Kernel(2, 3) as (bx, by):
            tile = T.alloc_shared((8, 8))
            T.copy(y[by * 8, bx * 8], tile)
            for i, j in T.Parallel(8, 8):
                z[by * 8 + i, bx * 8 + j] = tile[7 - i, j]
        return z + 1

    x = random(24, 16)
    expected = x.reshape(3, 8, 16).copy()
    for tile in expected:
        for _ in range(3):
            if tile[0, 0] < 100:
                tile *= 3
    np.testing.assert_allclose(kernel(x), expected[:, ::-1].reshape(24, 16) + 1, rtol=1e-5)


def test_tiles_that_are_too_large_are_listed():
    def kernel(x, y):
        with T.Kernel(4) as bx:
            large, small = T.alloc_shared((352, 128)), T.alloc_shared((8, 128))
            T.copy(x[bx * 352, 0], large)
            for i, j in T.Parallel(8, 128):
                small[i, j] = large[i * 2, 127 - j]
            for i, j in T.Parallel(8, 128):
                y[bx * 8 + i, j] = small[7 - i, j] + large[i, 127 - j]

    with pytest.raises(mt.KernelError) as caught:
        mt.jit(kernel).compile(random(1400, 128), random(32, 128), target="cuda:sm_80")
    assert "bytes of shared memory, and a block has 166912" in str(caught.value)
    assert "float32[352, 128] 180224" in str(caught.value)
    # A block of another architecture may have more.
    mt.jit(kernel).compile(random(1400, 128), random(32, 128), target="cuda:sm_90")


def test_threads_are_whole_warps():
    def kernel(x):
        with T.Kernel(4, threads=100) as _:
            T.clear(x)

    with pytest.raises(mt.KernelError, match="32 to 1024 threads, in whole warps of 32, got threads=100"):
        mt.jit(kernel)(random(4))


@emulated
def test_a_convolution_has_a_block_for_each_tile_of_pixels():
    torch.manual_seed(0)
    example = EXAMPLES["convolution"]
    inputs = example.make(1)
    out = torch.zeros(example.reference(*inputs).shape)
    kernel = mt.jit(example.kernel).compile(*inputs, out, **example.constants, target="cuda:emulated")
    kernel(*inputs, out)
    torch.testing.assert_close(out, example.reference(*inputs), rtol=1e-4, atol=1e-4)
    # 84 pixels, in tiles of 16: quotients and remainders of a pixel's number are its image, row and column.
    assert kernel.stats["launches"][0].grid == (6, 1, 1)
    # The elements of a tile of pixels are divided among all threads, with the numbers that each computes.
    assert "pixels_ptr[((iteration_2 * (int64_t)128) + ((int64_t)threadIdx.x))] = condval;" in kernel.ir["cuda"]
