"""Tiles in registers: which statements take the layout of a product's sums, and numbers on the emulated device."""

from __future__ import annotations

import re
import shutil

import pytest
import torch
from tiles import EXAMPLES

import mlirtri as mt
import mlirtri.tile as T
from mlirtri.errors import LayoutWarning

emulated = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")


def shared_floats(source: str) -> list[int]:
    """The sizes of a kernel's fp32 arrays in shared memory."""
    return [int(size) for size in re.findall(r"__shared__ alignas\(64\) float \w+\[(\d+)\]", source)]


@emulated
def test_attention_keeps_its_scores_and_results_in_registers():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 128, 32).half() for _ in range(3))
    out = torch.zeros_like(q)
    kernel = mt.jit(EXAMPLES["flash attention fp16"].kernel, target="cuda:emulated")
    kernel(q, k, v, out, BM=64, BN=32)
    expected = EXAMPLES["flash attention fp16"].reference(q, k, v)
    torch.testing.assert_close(out.float(), expected, rtol=2e-3, atol=2e-3)
    source = kernel.compile(q, k, v, out, BM=64, BN=32).ir["cuda"]
    # Maxima, sums and factors of the rows, too.
    assert not shared_floats(source)
    assert source.count("mlirtri_exchange_float32_1((&") == 2  # the maximum and the sum of a row


def fused(a, b, bias, c, BM=32, BN=32, BK=32, reduces="rows"):
    with T.Kernel(T.ceildiv(b.shape[1], BN), T.ceildiv(a.shape[0], BM), threads=64) as (bx, by):
        a_shared, b_shared = T.alloc_shared((BM, BK), a.dtype), T.alloc_shared((BK, BN), b.dtype)
        sums, extra = T.alloc_fragment((BM, BN)), T.alloc_fragment((BM,) if reduces == "rows" else (BN,))
        for k in T.Pipelined(T.ceildiv(a.shape[1], BK), num_stages=2):
            T.copy(a[by * BM, k * BK], a_shared)
            T.copy(b[k * BK, bx * BN], b_shared)
            T.gemm(a_shared, b_shared, sums)
        for i, j in T.Parallel(BM, BN):
            sums[i, j] = T.max(sums[i, j] + bias[bx * BN + j], 0)
        if reduces == "rows":
            T.reduce_absmax(sums, extra, dim=1)
        else:
            T.reduce_sum(sums, extra, dim=0)
        for i, j in T.Parallel(BM, BN):
            sums[i, j] = sums[i, j] - extra[i if reduces == "rows" else j]
        T.copy(sums, c[by * BM, bx * BN])


@emulated
@pytest.mark.parametrize(("reduces", "m", "kept"), [("rows", 64, True), ("rows", 50, True), ("columns", 64, False)])
def test_what_takes_the_layout_of_sums(reduces, m, kept):
    torch.manual_seed(0)
    a, b, bias, c = torch.randn(m, 48).half(), torch.randn(48, 32).half(), torch.randn(32), torch.zeros(m, 32)
    kernel = mt.jit(fused, target="cuda:emulated")
    kernel(a, b, bias, c, reduces=reduces)
    sums = torch.relu(a.float() @ b.float() + bias)
    padded = torch.cat([sums, torch.relu(bias).expand(-m % 32, -1)])
    tiles = padded.view(-1, 32, 32)
    extra = tiles.amax(2, keepdim=True) if reduces == "rows" else tiles.sum(1, keepdim=True)
    torch.testing.assert_close(c, (tiles - extra).reshape(-1, 32)[:m], rtol=1e-3, atol=2e-2)
    source = kernel.compile(a, b, bias, c, reduces=reduces).ir["cuda"]
    # A column's sum is of rows that many threads have.
    assert ("mlirtri_exchange_float32_2" in source) == kept
    assert 1024 not in shared_floats(source) or not kept


@emulated
def test_products_of_floats_are_tiles_of_sums_in_registers():
    torch.manual_seed(0)
    a, b, c = torch.randn(70, 52), torch.randn(52, 90), torch.zeros(70, 90)
    kernel = mt.jit(EXAMPLES["gemm fp32"].kernel, target="cuda:emulated")
    kernel(a, b, c, BM=32, BN=64, BK=16)
    torch.testing.assert_close(c, a @ b, rtol=1e-4, atol=1e-4)
    source = kernel.compile(a, b, c, BM=32, BN=64, BK=16).ir["cuda"]
    assert re.search(r"float left_part_ptr\[\d+\]", source)
    assert "mlirtri_copy_16((&(tiles" in source  # rows of 52 floats
    assert "mlirtri_copy_8((&(tiles" in source  # rows of 90


def column_sums(a, b, c, s):
    with T.Kernel(2, threads=256) as bx:
        a_shared, b_shared = T.alloc_shared((128, 32), "float16"), T.alloc_shared((32, 256), "float16")
        sums, extra = T.alloc_fragment((128, 256)), T.alloc_fragment((256,))
        for k in T.Pipelined(2, num_stages=3):
            T.copy(a[0, k * 32], a_shared)
            T.copy(b[k * 32, bx * 256], b_shared)
            T.gemm(a_shared, b_shared, sums)
        T.reduce_sum(sums, extra, dim=0)
        T.copy(sums, c[0, bx * 256])
        T.copy(extra, s[bx * 256])


def products_of_two_dtypes(a, b, c, s):
    with T.Kernel(2, threads=256) as bx:
        a_shared, b_shared = T.alloc_shared((128, 32), "float16"), T.alloc_shared((32, 256), "float16")
        a_float, b_float = T.alloc_shared((128, 32)), T.alloc_shared((32, 256))
        sums = T.alloc_fragment((128, 256))
        for k in T.Pipelined(2, num_stages=3):
            T.copy(a[0, k * 32], a_shared)
            T.copy(b[k * 32, bx * 256], b_shared)
            T.gemm(a_shared, b_shared, sums)
        for k in T.Pipelined(2, num_stages=3):
            for i, j in T.Parallel(128, 32):
                a_float[i, j] = s[i] + k
            T.copy(c[0, 0], b_float)
            T.gemm(a_float, b_float, sums)
        T.copy(sums, c[0, bx * 256])


@pytest.mark.parametrize(
    ("function", "product", "use", "instead"),
    [
        (column_sums, (8, 13), (9, 9), "access the tile at its own row and column"),
        (products_of_two_dtypes, (9, 13), (14, 13), "add products of tiles of one dtype to it"),
    ],
)
def test_a_tile_in_two_layouts_without_room_in_shared_memory(function, product, use, instead):
    tensors = [torch.zeros(128, 64).half(), torch.zeros(64, 512).half(), torch.zeros(128, 512), torch.zeros(512)]
    kernel = mt.jit(function)
    with pytest.raises(mt.KernelError) as caught:
        kernel.compile(*tensors, target="cuda:sm_80")
    error, first = caught.value, function.__code__.co_firstlineno
    assert error.message.startswith(
        "the tile sums float32[128, 256] is used in two layouts: the registers that the product"
    )
    assert error.message.endswith(", of 166912")
    assert error.help.startswith(instead)
    assert (error.span.line - first + 1, error.span.column) == use
    [note] = error.notes
    assert note.message == "the product that lays it out"
    assert (note.span.line - first + 1, note.span.column) == product
    # Shared memory of another architecture has room for the sums of columns.
    if function is column_sums:
        assert "__shared__" in kernel.compile(*tensors, target="cuda:sm_90").ir["cuda"]


@emulated
def test_a_grid_of_one_block_reduces_as_any_other():
    def kernel(x, sums):
        with T.Kernel(1, threads=64) as bx:
            tile, own = T.alloc_shared((130, 32)), T.alloc_fragment((32,))
            T.copy(x[bx, 0], tile)
            T.reduce_sum(tile, own, dim=0)
            T.copy(own, sums[0])

    torch.manual_seed(0)
    x, sums = torch.randn(130, 32), torch.zeros(32)
    compiled = mt.jit(kernel, target="cuda:emulated").compile(x, sums)
    compiled(x, sums)
    torch.testing.assert_close(sums, x.sum(0), rtol=1e-5, atol=1e-5)
    # No partial results of chunks of rows, which are for loops outside of tile kernels.
    assert 64 * 32 not in shared_floats(compiled.ir["cuda"])


def column_sums_of_a_small_tile(a, b, s):
    with T.Kernel(2, threads=64) as bx:
        a_shared, b_shared = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
        sums, extra = T.alloc_fragment((32, 32)), T.alloc_fragment((32,))
        T.copy(a[bx * 32, 0], a_shared)
        T.copy(b[0, bx * 32], b_shared)
        T.gemm(a_shared, b_shared, sums)
        T.reduce_sum(sums, extra, dim=0)
        T.copy(extra, s[bx * 32])


def test_a_tile_that_leaves_registers_is_a_warning():
    tensors = [torch.zeros(64, 64).half(), torch.zeros(64, 64).half(), torch.zeros(64)]
    with pytest.warns(LayoutWarning) as caught:
        mt.jit(column_sums_of_a_small_tile).compile(*tensors, target="cuda:sm_90")
    [warning] = caught
    assert warning.lineno == column_sums_of_a_small_tile.__code__.co_firstlineno + 7
    assert "sums float32[32, 32] lies in shared memory" in str(warning.message)


def persistent(a, b, c, BM=32, BN=32, BK=16, blocks=3):
    """Each block computes several tiles; no size says that their rows are not before the first."""
    columns = T.ceildiv(b.shape[1], BN)
    with T.Kernel(blocks, threads=64) as block:
        a_shared, b_shared = T.alloc_shared((BM, BK), a.dtype), T.alloc_shared((BK, BN), b.dtype)
        sums = T.alloc_fragment((BM, BN))
        for tile in range(block, T.ceildiv(a.shape[0], BM) * columns, blocks):
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(a.shape[1], BK), num_stages=2):
                T.copy(a[tile // columns * BM, k * BK], a_shared)
                T.copy(b[k * BK, tile % columns * BN], b_shared)
                T.gemm(a_shared, b_shared, sums)
            T.copy(sums, c[tile // columns * BM, tile % columns * BN])


def scaled(a, b, scales, c, BM=32, BN=32, BK=32):
    with T.Kernel(T.ceildiv(b.shape[1], BN), T.ceildiv(a.shape[0], BM), threads=64) as (bx, by):
        a_shared, b_shared = T.alloc_shared((BM, BK), a.dtype), T.alloc_shared((BK, BN), b.dtype)
        sums = T.alloc_fragment((BM, BN))
        for k in T.Pipelined(T.ceildiv(a.shape[1], BK), num_stages=2):
            T.copy(a[by * BM, k * BK], a_shared)
            T.copy(b[k * BK, bx * BN], b_shared)
            T.gemm(a_shared, b_shared, sums)
        for i, j in T.Parallel(BM, BN):
            if by * BM + i < a.shape[0] and bx * BN + j < b.shape[1]:
                T.atomic_add(c[by * BM + i, bx * BN + j], sums[i, j] * scales[by * BM + i])


@emulated
@pytest.mark.parametrize("kernel", [persistent, scaled])
@pytest.mark.filterwarnings("error::mlirtri.errors.LayoutWarning")
def test_sums_stay_in_registers_at_offsets_and_where_rows_have_numbers(kernel):
    torch.manual_seed(0)
    a, b, c = torch.randn(70, 48).half(), torch.randn(48, 90).half(), torch.zeros(70, 90)
    scales = [torch.rand(70)] if kernel is scaled else []
    expected = a.float() @ b.float() * (scales[0][:, None] if scales else 1)
    function = mt.jit(kernel, target="cuda:emulated")
    function(a, b, *scales, c)
    torch.testing.assert_close(c, expected, rtol=1e-4, atol=1e-3)
    assert not shared_floats(function.compile(a, b, *scales, c).ir["cuda"])


def without_first(a, b, BM=16, BN=64):
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((BM, BN), "float32")
        T.copy(a[0, 0], tile)
        for i in T.Parallel(BM):
            first = tile[i, 0]
            for j in T.Parallel(BN):
                tile[i, j] -= first
        T.copy(tile, b[0, 0])


@emulated
def test_a_number_that_is_read_from_what_a_loop_writes_is_read_before_it():
    a, b = torch.randn(16, 64), torch.zeros(16, 64)
    mt.jit(without_first, target="cuda:emulated")(a, b)
    torch.testing.assert_close(b, a - a[:, :1])
