"""Products by instructions of warpgroups: right in all layouts on the emulated device, which finds missing waits."""

from __future__ import annotations

import re
import shutil

import pytest
import torch

import mlirtri as mt
import mlirtri.tile as T
from mlirtri.errors import DeviceCheckError
from mlirtri.lowering.schedule.cuda.tensor_cores import matmul
from mlirtri.lowering.toolchain.nvcc import run_nvcc

TARGET = "cuda:emulated:sm_90a"
needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")


@pytest.fixture
def any_size(monkeypatch):
    """Small products take the tiles of large ones, too."""
    monkeypatch.setattr(matmul, "ENOUGH", 1)


def product(a, b):
    return a @ b


def of_transposed(a, b):
    return torch.relu(a.T @ b.T + 1)


def left_transposed(a, b):
    return (a.T @ b).float()


def right_transposed(a, b):
    return a @ b.T


@needs_compiler
@pytest.mark.parametrize(
    ("function", "shape", "dtype", "columns"),
    [
        (product, (64, 64, 200), torch.float16, 64),
        (of_transposed, (70, 100, 65), torch.bfloat16, 128),
        (left_transposed, (130, 60, 72), torch.float16, 64),
        (right_transposed, (64, 64, 130), torch.bfloat16, 64),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_numbers(any_size, random, function, shape, dtype, columns):
    rows, width, length = shape
    sizes = {
        product: ((rows, length), (length, width)),
        of_transposed: ((length, rows), (width, length)),
        left_transposed: ((length, rows), (length, width)),
        right_transposed: ((rows, length), (width, length)),
    }[function]
    a, b = (torch.from_numpy(random.standard_normal(size)).to(dtype) for size in sizes)
    kernel = mt.jit(function).compile(a, b, target=TARGET)
    assert f"m64n{columns}k16" in kernel.ir["cuda"]
    # Threads store 16 bytes each where tiles divide a result of 16-bit floats.
    is_even = rows % 64 == width % 64 == 0
    assert ("mlirtri_transpose_among_four((&" in kernel.ir["cuda"]) == is_even
    found, expected = kernel(a, b).double(), function(a.double(), b.double()).double()
    # Sums of fp32, rounded once to the dtype of the operands.
    epsilon = max(torch.finfo(dtype).eps, length * 2.0**-24)
    assert float((found - expected).abs().max()) <= epsilon * float(expected.abs().max())


def of_bytes(a, b):
    return a.int() @ b.int().T


@needs_compiler
@pytest.mark.parametrize("dtypes", [(torch.int8, torch.int8), (torch.uint8, torch.int8)], ids=str)
def test_products_of_bytes(any_size, dtypes):
    a, b = (
        torch.randint(-100, 100, size).to(dtype) for size, dtype in zip(((70, 200), (65, 200)), dtypes, strict=True)
    )
    kernel = mt.jit(of_bytes).compile(a, b, target=TARGET)
    assert "m64n128k32" in kernel.ir["cuda"]
    assert torch.equal(kernel(a, b), of_bytes(a, b))


MISTAKES = {
    "products not awaited": (r"    mlirtri_await_products_but_1\(\);", "", "which a product of .* reads"),
    "one step awaited too late": ("wait_group.sync.aligned 1", "wait_group.sync.aligned 2", "which a product of"),
    "sums not awaited": (r"\n  mlirtri_await_products_float32_\d+\([^\n]*", "", "ends without waiting for its product"),
    "no barrier": (r"__syncthreads\(\);", "", "with no barrier between|has not waited for"),
    "copies awaited too late": (r"cp\.async\.wait_group 1", "cp.async.wait_group 2", "whose asynchronous copy"),
    "products not committed": (r"    mlirtri_commit_products\(\);", "", "which a product of"),
    "copies not shown": (r"    mlirtri_show_tiles\(\);", "", r"wrote with no fence\.proxy\.async after it"),
}


@needs_compiler
def test_planted_mistakes(any_size):
    a, b = torch.randn(64, 400).half(), torch.randn(400, 64).half()
    kernel = mt.jit(product).compile(a, b, target=TARGET)
    source, out = kernel.ir["cuda"], torch.empty(64, 64).half()
    for name, (pattern, replacement, words) in MISTAKES.items():
        broken = re.sub(pattern, replacement, source)
        assert broken != source, name
        with pytest.raises(DeviceCheckError, match=words):
            kernel.compilation.executable.with_source(broken).launch([a, b], [out])


def test_only_their_architecture_has_them():
    half = mt.Tensor((4096, 4096), mt.float16)
    kernel = mt.jit(product).compile(half, half, target="cuda:sm_90a")
    assert "m64n256k16" in kernel.ir["cuda"]
    [launch] = kernel.stats["launches"]
    assert (launch.threads, launch.grid[0]) == (256, 32 * 16)
    assert "wgmma" not in mt.jit(product).compile(half, half, target="cuda:sm_90").ir["cuda"]


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_nvcc_keeps_the_sums_in_registers():
    half = mt.Tensor((2048, 2048), mt.bfloat16)
    kernel = mt.jit(product).compile(half, half, target="cuda:sm_90a")
    [launch] = kernel.stats["launches"]
    assert launch.resources("sm_90a").spill_bytes == 0
    # What a call loads: nvcc 13.0 makes PTX of an architecture without these instructions beside the machine code.
    assert run_nvcc(kernel.ir["cuda"], "sm_90a", "-fatbin")


def tile_product(a, b, c, BM=64, BN=64, threads=128):
    with T.Kernel(T.ceildiv(b.shape[1], BN), T.ceildiv(a.shape[0], BM), threads=threads) as (bx, by):
        left, right = T.alloc_shared((BM, 32), a.dtype), T.alloc_shared((32, BN), b.dtype)
        sums = T.alloc_fragment((BM, BN), "float32")
        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(a.shape[1], 32), num_stages=3):
            T.copy(a[by * BM, k * 32], left)
            T.copy(b[k * 32, bx * BN], right)
            T.gemm(left, right, sums)
        T.copy(sums, c[by * BM, bx * BN])


@needs_compiler
@pytest.mark.parametrize(
    ("dtype", "blocks", "instructions"),
    [(torch.bfloat16, (64, 64, 128), 4), (torch.float16, (128, 64, 128), 8)],
    ids=["one instruction", "two instructions a warpgroup"],
)
def test_products_of_tiles(dtype, blocks, instructions):
    a, b, c = torch.randn(100, 200).to(dtype), torch.randn(200, 70).to(dtype), torch.zeros(100, 70, dtype=dtype)
    constants = dict(zip(("BM", "BN", "threads"), blocks, strict=True))
    kernel = mt.jit(tile_product).compile(a, b, c, **constants, target=TARGET)
    source = kernel.ir["cuda"]
    assert len(re.findall(r"^ +mlirtri_group_multiply", source, re.MULTILINE)) == instructions
    # The sums go to memory from registers: shared memory has the tiles of four steps.
    steps, dtype_bytes = 4, 2
    assert kernel.stats["launches"][0].shared_bytes == steps * (blocks[0] + blocks[1]) * 64 * dtype_bytes
    kernel(a, b, c)
    expected = a.double() @ b.double()
    assert float((c.double() - expected).abs().max()) <= torch.finfo(dtype).eps * float(expected.abs().max())
    of_ampere = mt.jit(tile_product).compile(a, b, c, **constants, target="cuda:sm_80").ir["cuda"]
    assert "mma.sync" in of_ampere
    assert "cp.async" in of_ampere


def biased_product(a, b, bias, c):
    with T.Kernel(T.ceildiv(b.shape[1], 64), T.ceildiv(a.shape[0], 64), threads=128) as (bx, by):
        left, right, row = T.alloc_shared((64, 32), a.dtype), T.alloc_shared((32, 64), b.dtype), T.alloc_shared((1, 64))
        sums = T.alloc_fragment((64, 64), "float32")
        for i, j in T.Parallel(1, 64):
            row[i, j] = T.exp(bias[j]) + bias[63 - j]
        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(a.shape[1], 32), num_stages=3):
            T.copy(a[by * 64, k * 32], left)
            T.copy(b[k * 32, bx * 64], right)
            T.gemm(left, right, sums)
        for i, j in T.Parallel(64, 64):
            sums[i, j] = sums[i, j] + row[0, j]
        T.copy(sums, c[by * 64, bx * 64])


@needs_compiler
def test_tiles_beside_others_in_shared_memory_are_aligned():
    a, b, bias, c = torch.randn(64, 200).half(), torch.randn(200, 64).half(), torch.randn(64), torch.zeros(64, 64)
    kernel = mt.jit(biased_product).compile(a, b, bias, c, target=TARGET)
    # Where a line of 128 bytes has its parts is decided by its address.
    assert re.findall(r"__shared__ __align__\((\d+)\) uchar buf_dyn_shmem", kernel.ir["cuda"]) == ["1024"]
    kernel(a, b, bias, c)
    torch.testing.assert_close(c, a.float() @ b.float() + bias.exp() + bias.flip(0), rtol=1e-5, atol=1e-4)


def scores_and_values(q, k, v, out, BN=64, threads=128):
    """Attention without its maxima: two products in a loop, the second of what the first left in registers."""
    with T.Kernel(T.ceildiv(q.shape[0], 64), threads=threads) as bx:
        queries, keys = T.alloc_shared((64, q.shape[1]), q.dtype), T.alloc_shared((BN, q.shape[1]), q.dtype)
        values = T.alloc_shared((BN, v.shape[1]), q.dtype)
        scores, weights = T.alloc_fragment((64, BN)), T.alloc_fragment((64, BN), q.dtype)
        sums, total, part = T.alloc_fragment((64, v.shape[1])), T.alloc_fragment((64,)), T.alloc_fragment((64,))
        T.copy(q[bx * 64, 0], queries)
        T.clear(sums)
        T.clear(total)
        for block in T.Pipelined(T.ceildiv(k.shape[0], BN), num_stages=2):
            T.copy(k[block * BN, 0], keys)
            T.clear(scores)
            T.gemm(queries, keys, scores, transpose_B=True)
            for i, j in T.Parallel(64, BN):
                scores[i, j] = T.if_then_else(block * BN + j < k.shape[0], T.exp2(scores[i, j]), 0)
            T.reduce_sum(scores, part, dim=1)
            for i in T.Parallel(64):
                total[i] = total[i] + part[i]
            T.copy(scores, weights)
            T.copy(v[block * BN, 0], values)
            T.gemm(weights, values, sums)
        for i, j in T.Parallel(64, v.shape[1]):
            sums[i, j] = sums[i, j] / total[i]
        T.copy(sums, out[bx * 64, 0])


LOOP_MISTAKES = {
    "copies awaited too late": (r"cp\.async\.wait_group 1", "cp.async.wait_group 3", "whose asynchronous"),
    "copies not shown": (r"    mlirtri_show_tiles\(\);", "", r"wrote with no fence\.proxy\.async after it"),
    "no barrier before a product": (
        r"(mlirtri_show_tiles\(\);\n) *__syncthreads\(\);", r"\1", "has not waited for|no barrier between"
    ),
    "the next tiles over what is read": (
        r"(mlirtri_await_products_float32_\d+[^\n]*\n) *__syncthreads\(\);", r"\1", "which a product|no barrier between"
    ),
    "products not awaited": (r"\n *mlirtri_await_products_[^\n]*", "", "which a product of"),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize(("target", "way"), [(TARGET, "group_multiply_bfloat16_64_h1"), ("cuda:emulated", "_held")])
def test_products_of_a_loop_are_copied_an_iteration_ahead(target, way):
    torch.manual_seed(0)
    q, k, v = (torch.randn(rows, 64).mul(0.3).bfloat16() for rows in (70, 200, 200))
    out = torch.zeros(70, 64, dtype=torch.bfloat16)
    kernel = mt.jit(scores_and_values).compile(q, k, v, out, target=target)
    kernel(q, k, v, out)
    weights = torch.exp2(q.double() @ k.double().T)
    expected = (weights / weights.sum(1, keepdim=True)) @ v.double()
    # The weights are rounded to bf16 before their product, and the result once more.
    epsilon = torch.finfo(torch.bfloat16).eps
    assert float((out.double() - expected).abs().max()) <= epsilon * float(v.abs().max())
    source = kernel.ir["cuda"]
    assert way in source
    # Scores, weights and totals of rows are in registers; the loop waits for its tiles alone.
    assert "__shared__ alignas(64) float" not in source
    loop = source[re.search(r"for \(\w+ i_\d+ = 0;", source).start() :]
    assert loop.count("__syncthreads") == 4
    if target == TARGET:
        for name, (pattern, replacement, words) in LOOP_MISTAKES.items():
            broken = re.sub(pattern, replacement, source)
            assert broken != source, name
            with pytest.raises(DeviceCheckError, match=words):
                kernel.compilation.executable.with_source(broken).launch([q, k, v, out], [])
