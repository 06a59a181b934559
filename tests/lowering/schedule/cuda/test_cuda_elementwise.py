"""Elementwise kernels for CUDA: vectors, transposes through tiles, and what has neither; on the emulated device."""

from __future__ import annotations

import re
import shutil

import pytest
import torch
import torch.nn.functional as F
from cuda_kernel_cases import LIMITS, assert_nvcc_takes, data

import mlirtri as mt

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="threads are emulated in C++")


def chain(a, b):
    return torch.where(a > b, F.gelu(a + b) * a, b - a)


def with_bias(a, b):
    return a + b[0] * 2


def of_columns(a, b):
    return a * b[:, :1]


def padded(a, b):
    return F.pad(a, (4, 4)) + 1


def joined(a, b):
    return torch.cat([a, b], 1)


def both(a, b):
    return a + b, (a - b).T.contiguous()


def transposed(a, b):
    return a.T.contiguous()


def transposed_sum(a, b):
    return (a + b).T * a.T


def mixed(a, b):
    return a.T + b.reshape(b.shape[1], b.shape[0])


def reversed_rows(a, b):
    return a.flip(1) + b


VECTORS = (chain, with_bias, of_columns, padded, joined, both, mixed, reversed_rows)


def check(function, shape, dtype):
    given = [data(shape, dtype), data(shape[:-1] + (shape[-1],), dtype).flip(0).contiguous()]
    expected = function(*given)
    kernel = mt.jit(function).compile(*given, target="cuda:emulated")
    found = kernel(*given)
    limit = LIMITS.get(dtype, 0)
    torch.testing.assert_close(found, expected, rtol=limit, atol=limit)
    assert_nvcc_takes(kernel)
    return kernel


def rules_of(kernel):
    return re.findall(r'"mlirtri.schedule": "(\w+)"', kernel.ir["scheduled"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64], ids=str)
def test_neighbours_are_loaded_and_stored_at_once(dtype):
    kernel = check(with_bias, (48, 64), dtype)
    assert rules_of(kernel) == ["Elementwise"]
    vector = {"float32": "float4", "float16": "uint4", "bfloat16": "ushort4", "int8": "int", "int64": "longlong2"}
    name = vector[str(dtype).removeprefix("torch.")]
    assert kernel.ir["cuda"].count(f"({name}*)") >= 2, kernel.ir["cuda"]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "dtype"), [
    pytest.param(function, dtype, id=f"{function.__name__}-{dtype}")
    for function in VECTORS
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64)
    if function is not chain or dtype.is_floating_point
])  # fmt: skip
@pytest.mark.parametrize("shape", [(48, 64), (33, 40), (3, 130), (7, 5)], ids=str)
def test_numbers_are_torchs(function, shape, dtype):
    check(function, shape, dtype)


@pytest.mark.parametrize("function", [transposed, transposed_sum], ids=lambda function: function.__name__)
def test_transposes_use_tiles_in_shared_memory(function):
    kernel = check(function, (40, 130), torch.float32)
    assert rules_of(kernel) == ["Elementwise"]
    assert "__shared__" in kernel.ir["cuda"]
    [launch] = kernel.stats["launches"]
    assert (launch.grid, launch.block) == ((2 * 5, 1, 1), (32, 8, 1))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.float64], ids=str)
def test_transposes_of_other_dtypes(dtype):
    check(transposed, (70, 33), dtype)


def test_images_change_their_layout_through_tiles():
    image = data((2, 20, 7, 36), torch.float32)
    kernel = mt.jit(lambda a: a.permute(0, 2, 3, 1).contiguous()).compile(image, target="cuda:emulated")
    assert "__shared__" in kernel.ir["cuda"]
    torch.testing.assert_close(kernel(image), image.permute(0, 2, 3, 1).contiguous())
