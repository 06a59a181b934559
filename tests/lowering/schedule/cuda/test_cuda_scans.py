"""Running totals for CUDA: numbers by running the schedule without threads, and the source itself with them."""

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


def along_rows(a):
    return torch.cumsum(torch.exp(a), 1)


def along_columns(a):
    return torch.cumsum(a, 0)


def products(a):
    return torch.cumprod(a.clamp(-1, 1), 1)


def kernel_for(function, shape, dtype=mt.float32, target="cuda"):
    return mt.jit(function).compile(mt.Tensor(shape, dtype), target=target)


def values(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))) / 4


def check(kernel, value, expected, **tolerance):
    assert set(re.findall(r'"mlirtri.schedule": "(\w+)"', kernel.ir["scheduled"])) <= {
        "Scan",
        "Fallback",
        "Steps",
    }
    found = torch.full_like(expected, 7)
    scheduled = on_the_cpu(kernel.compilation.records["scheduled"].ir)
    scheduled_to_llvm.lower(scheduled, context_for()).executable.launch([value], [found])
    torch.testing.assert_close(found, expected, equal_nan=True, **tolerance)


@pytest.mark.parametrize(
    ("function", "shape"), [(along_rows, (3, 2500)), (along_columns, (70, 33))], ids=["rows", "columns"]
)
def test_totals(function, shape):
    kernel, value = kernel_for(function, shape), values(*shape)
    value[1, 3], value[2, 4] = math.inf, math.nan
    expected = function(value.double()).float()
    check(kernel, value, expected, rtol=1e-5, atol=1e-5)
    if shutil.which("c++"):
        found = kernel_for(function, shape, target="cuda:emulated")(value)
        torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-5, atol=1e-5)


def test_bounds_before_a_product():
    # `clamp` names a value, which the kernel's text has several times.
    kernel, value = kernel_for(products, (4, 200)), values(4, 200) * 8
    assert re.findall(r'"mlirtri.schedule": "(\w+)"', kernel.ir["scheduled"]) == ["Scan"]
    check(kernel, value, products(value.double()).float(), rtol=1e-4, atol=1e-6)


def test_blocks_share_long_lines():
    kernel, value = kernel_for(along_rows, (2, 30000)), values(2, 30000)
    assert kernels_in(kernel.ir["cuda"]) == 2
    check(kernel, value, along_rows(value.double()).float(), rtol=1e-5, atol=1e-3)


def test_wide_columns_fit_in_shared_memory():
    kernel, value = kernel_for(along_columns, (130, 33), mt.float64), values(130, 33).double()
    assert re.findall(r'"mlirtri.schedule": "(\w+)"', kernel.ir["scheduled"]) == ["Scan"]
    check(kernel, value, along_columns(value))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (7, 1), (4, 1025), (300, 12)], ids=str)
def test_dtypes_and_shapes(dtype, shape):
    value = (values(*shape) * 8).to(getattr(torch, dtype))
    for function in (along_columns, products):
        kernel = kernel_for(function, shape, getattr(mt, dtype))
        exact = function(value.double() if value.is_floating_point() else value)
        expected = exact.to(function(value[:1, :1]).dtype)
        check(kernel, value, expected, rtol=2e-3, atol=2e-3)


class Imported(torch.nn.Module):
    """A function of a tensor, as torch's exporter takes it."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
@pytest.mark.parametrize(
    "function", [lambda x: torch.cumsum(x, 1) * 2, lambda x: torch.cumprod(x, 0)], ids=["sum", "prod"]
)
def test_imported_and_in_relax(function, pipeline):
    value = values(4, 50)
    kernel = mt.from_torch(Imported(function), (value,)).compile(target="cuda", pipeline=pipeline)
    assert "Scan" in kernel.ir["scheduled"]
    check(kernel, value, function(value))


@pytest.mark.slow
def test_values_that_read_each_other_often_are_not_written_out():
    def largest(x):
        return torch.cummax(x, 1)[0]

    value = values(4, 30)
    kernel = mt.from_torch(Imported(largest), (value,)).compile(target="cuda")
    assert re.findall(r'"mlirtri.schedule": "(\w+)"', kernel.ir["scheduled"]) == ["Steps"]
    check(kernel, value, largest(value))


@pytest.mark.nvcc
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize("shape", [(64, 3000), (2, 30000)], ids=str)
def test_nvcc_takes_the_source(shape):
    for function in (along_rows, along_columns):
        source = kernel_for(function, shape).ir["cuda"]
        assert cuda_to_ptx.run_nvcc(source, "sm_80", "-cubin").startswith(b"\x7fELF")
