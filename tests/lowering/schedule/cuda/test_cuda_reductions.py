"""Reductions for CUDA and what is fused with them: numbers by running schedules without threads, launches, sources."""

from __future__ import annotations

import math
import re
import shutil

import pytest
import torch
from cuda_helpers import kernels_in, on_the_cpu
from tvm_stage_helpers import context_for

import mlirtri as mt
from mlirtri.lowering.codegen import cuda_to_ptx, scheduled_to_llvm


def row_max(a):
    return torch.amax(a, -1)


def row_min(a):
    return torch.amin(a, -1)


def column_max(a):
    return torch.amax(a, 0)


def column_sum(a):
    return torch.sum(a, 0)


def whole_sum(a):
    return torch.sum(a)


def whole_max(a):
    return torch.amax(a)


def softmax(a):
    return torch.softmax(a, -1)


def spread(a):
    return torch.var(a, -1)


def log_sum(a):
    return torch.logsumexp(a, -1)


def normed(a):
    centered = a - a.mean(-1, keepdim=True)
    return centered / torch.sqrt((centered * centered).mean(-1, keepdim=True) + 1e-5)


def any_positive(a):
    return torch.any(a > 0, -1)


def all_positive(a):
    return torch.all(a > 0)


def place(a):
    return torch.argmax(a, -1)


def lowest_place(a):
    return torch.argmin(a, 0)


def whole_place(a):
    return torch.argmax(a)


FUNCTIONS = (
    row_max, row_min, column_max, column_sum, whole_sum, whole_max, softmax, spread, log_sum, normed, any_positive,
    all_positive, place, lowest_place, whole_place,
)  # fmt: skip
QUICK = {row_max, column_max, whole_sum, softmax, any_positive, place}
SOME = [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in FUNCTIONS]
ROWS = {"Rows", "Argmax"}


def kernel_for(function, shape, dtype=mt.float32, target="cuda"):
    return mt.jit(function).compile(mt.Tensor(shape, dtype), target=target)


def rules(kernel):
    return re.findall(r'"mlirtri.schedule": "(\w+)"', kernel.ir["scheduled"])


def run_without_threads(kernel, value, like):
    out = torch.full_like(like, 1)
    scheduled = on_the_cpu(kernel.compilation.records["scheduled"].ir)
    scheduled_to_llvm.lower(scheduled, context_for()).executable.launch([value], [out])
    return out


def check(function, value, dtype=mt.float32, **tolerance):
    kernel = kernel_for(function, tuple(value.shape), dtype)
    expected = function(value)
    found = run_without_threads(kernel, value, expected)
    torch.testing.assert_close(found, expected, equal_nan=True, **tolerance)
    return kernel


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("function", SOME, ids=lambda each: getattr(each, "__name__", None))
def test_numbers_and_one_kernel_of_threads(function):
    value = random(37, 130)
    value[3] = -math.inf
    value[5, 7] = value[5, 9] = math.nan
    value[6, 0] = math.inf
    value[7] = 0.5
    kernel = check(function, value, rtol=1e-5, atol=1e-5)
    assert set(rules(kernel)) <= ROWS
    assert kernels_in(kernel.ir["cuda"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("shape", [(1, 7), (9, 33), (3, 5000), (2000, 3), (1, 1), (2, 40000)], ids=str)
def test_other_shapes(function, shape):
    check(function, random(*shape), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_dtypes(dtype):
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2}.get(dtype, 1e-12)
    value = random(6, 70).to(getattr(torch, dtype))
    for function in (softmax, row_max, place):
        check(function, value, getattr(mt, dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.slow
def test_integers():
    value = torch.randint(-50, 50, (6, 70), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    for function in (row_max, column_sum, place):
        check(function, value, mt.int32)


def test_blocks_share_rows_that_are_few_and_long():
    kernel = check(whole_sum, random(3, 30000), rtol=1e-5, atol=1e-3)
    assert rules(kernel) == ["Rows"]
    assert kernels_in(kernel.ir["cuda"]) == 2
    assert 'thread="blockIdx.y"' in kernel.ir["scheduled"]


def test_rows_that_do_not_fit_shared_memory_are_kernels_of_their_own():
    kernel = check(softmax, random(300, 12000), rtol=1e-4, atol=1e-6)
    assert kernels_in(kernel.ir["cuda"]) > 1


def test_a_tile_says_that_rows_fit_shared_memory(monkeypatch):
    edges = kernel_for(softmax, (2, 12000)).fusion.edges
    reasons = {edge.reason for edge in edges if edge.kind == "memory" and not edge.is_fused}
    too_much = "a block's rows take 48000 bytes of shared memory, and it has 40960 for them"
    assert reasons == {f"{too_much}; MLIRTRI_ROW_TILE=1 overrides it"}
    monkeypatch.setenv("MLIRTRI_ROW_TILE", "1")
    kernel = kernel_for(softmax, (2, 12000))
    assert rules(kernel) == ["Rows"]
    assert "shared.dyn" in kernel.ir["scheduled"]
    check(softmax, random(2, 12000))


def test_barriers_are_between_phases():
    source = kernel_for(softmax, (8, 1000)).ir["cuda"]
    body = source[source.index("__syncthreads") :]
    # One before each of the halvings of two reductions over 256 threads, and before what reads their results.
    assert body.count("__syncthreads") >= 2 * 8


def columns(a):
    return torch.softmax(a, 0)


@pytest.mark.skipif(shutil.which("c++") is None, reason="threads are emulated in C++")
def test_threads_wait_for_what_one_of_them_finds():
    for function, shape in ((softmax, (9, 200)), (columns, (70, 33)), (columns, (64, 64))):
        value = random(*shape)
        found = kernel_for(function, shape, target="cuda:emulated")(value)
        torch.testing.assert_close(found, function(value))


@pytest.mark.nvcc
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize("dtype", [mt.float32, mt.float16, mt.bfloat16], ids=str)
def test_nvcc_takes_every_source(dtype):
    for function in FUNCTIONS:
        source = kernel_for(function, (64, 1000), dtype).ir["cuda"]
        assert cuda_to_ptx.run_nvcc(source, "sm_80", "-cubin").startswith(b"\x7fELF")


def attention(q, k, v):
    return torch.softmax(q @ k.mT * 0.125, -1) @ v


def test_attention_keeps_its_products_apart_from_the_rows_between_them():
    heads = [mt.Tensor((2, 32, 64), mt.float32)] * 3
    kernel = mt.jit(attention).compile(*heads, target="cuda")
    assert rules(kernel).count("RegisterTiles") == 2
    assert "Rows" in rules(kernel)


def test_a_thread_loops_over_a_window():
    program = mt.from_torch(torch.nn.MaxPool2d(2), (torch.zeros(1, 4, 8, 8),))
    assert "Argmax" not in rules(program.compile(target="cuda"))
