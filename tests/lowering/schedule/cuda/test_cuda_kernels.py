"""All kinds of kernels for CUDA: numbers of the emulated device, and nvcc's word on them."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from cuda_kernel_cases import LIMITS, Case, assert_nvcc_takes, compiled, data, product, with_bias

import mlirtri as mt


def chain(a, b):
    return F.gelu(a + b) * torch.sigmoid(a)


def transposed(a):
    return a.T.contiguous()


def joined(a, b):
    return torch.cat([a, b], 1)


def attention(q, k, v):
    return torch.softmax(q @ k.mT * 0.125, -1) @ v


CASES = {
    "product": Case(product, ((70, 33), (33, 12)), rules=("Matmul",)),
    "batched": Case(product, ((3, 12, 24), (3, 24, 56)), rules=("Matmul",)),
    "epilogue": Case(with_bias, ((64, 8), (8, 64), (64,)), rules=("Matmul",)),
    "gemv": Case(product, ((120, 250), (250,)), rules=("Rows",)),
    "vector first": Case(product, ((250,), (250, 120)), rules=("Rows",)),
    "halves gemv": Case(product, ((120, 250), (250,)), torch.float16, ("Rows",)),
    "batched gemv": Case(product, ((3, 60, 50), (3, 50, 1)), rules=("Rows",)),
    "chain": Case(chain, ((37, 50), (50,)), rules=("Fallback",)),
    "transpose": Case(transposed, ((37, 50),), rules=("Elementwise",)),
    "concat": Case(joined, ((37, 50), (37, 20))),
    "attention": Case(attention, ((2, 40, 64),) * 3, rules=("RegisterTiles", "Rows")),
}
MODULES = {
    "convolution": (torch.nn.Conv2d(8, 12, 3, padding=1), (1, 8, 9, 9)),
    "pointwise": (torch.nn.Conv2d(8, 12, 1), (1, 8, 9, 9)),
    "strided": (torch.nn.Conv2d(8, 12, 3, stride=2), (1, 8, 9, 9)),
    "grouped": (torch.nn.Conv2d(8, 12, 3, groups=2), (1, 8, 9, 9)),
    "depthwise": (torch.nn.Conv2d(8, 8, 3, groups=8), (1, 8, 9, 9)),
    "max pool": (torch.nn.MaxPool2d(2), (1, 8, 8, 8)),
    "mean pool": (torch.nn.AvgPool2d(2), (1, 8, 8, 8)),
    "linear": (torch.nn.Linear(20, 30), (7, 20)),
}


def assert_right(kernel, given, expected, limit):
    torch.testing.assert_close(kernel(*given), expected, rtol=limit, atol=10 * limit)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_functions(name):
    case = CASES[name]
    kernel = compiled(case, "cuda:emulated")
    fired = re.findall(r'"mlirtri.schedule": "(\w+)"', kernel.ir["scheduled"])
    assert set(case.rules) <= set(fired)
    given = [data(shape, case.dtype) for shape in case.shapes]
    assert_right(kernel, given, case.function(*given), LIMITS.get(case.dtype, 0))
    assert_nvcc_takes(kernel)


def hidden(a, b, mask):
    return torch.where(mask, a @ b, -1.0)


def test_bools_are_no_vectors():
    square = mt.Tensor((64, 64), mt.float32)
    kernel = mt.jit(hidden).compile(square, square, mt.Tensor((64, 64), mt.bool), target="cuda:emulated")
    # TVM's type for them, which nvcc does not convert to vectors of numbers.
    assert "ushort2" not in kernel.ir["cuda"]
    given = [data((64, 64), torch.float32), data((64, 64), torch.float32), data((64, 64), torch.float32) > 0]
    assert_right(kernel, given, hidden(*given), 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    module, shape = MODULES[name]
    value = data(shape, torch.float32)
    kernel = mt.from_torch(module.eval(), (value,)).compile(target="cuda:emulated")
    assert_right(kernel, [value], module(value).detach(), 1e-4)
    assert_nvcc_takes(kernel)


def plus_one(a, b):
    return a @ b + 1


def test_nvcc_unrolls_the_loops_of_a_product():
    source = compiled(Case(plus_one, ((64, 64), (64, 64))), "cuda:sm_80").ir["cuda"]
    assert source.count("\n") < 200
    inner_loops = re.findall(r"#pragma unroll\s+for \(int \w+ = 0; \w+ < (\d+); \+\+\w+\) \{", source)
    assert {"2", "4", "8"} <= set(inner_loops)
    names = re.findall(r"int (cse_\w+) =", source)
    assert all(len(re.findall(rf"\b{name}\b", source)) > 1 for name in names)
    assert " < (int64_t)1;" not in source
