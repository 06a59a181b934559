"""Products of fp32 for CUDA in register tiles: their source computes the right numbers on the emulated device."""

from __future__ import annotations

import re
import shutil

import pytest
import torch
from cuda_kernel_cases import LIMITS, Case, assert_nvcc_takes, compiled, data, product, with_bias

import mlirtri as mt

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="threads are emulated in C++")


def of_transposed(a, b):
    return torch.relu(a @ b.mT) * 2


def transposed(a, b):
    return a.mT @ b


def both_transposed(a, b):
    return (a.mT @ b.mT).T


CASES = {
    "whole tiles": Case(product, ((64, 32), (32, 128))),
    "edges": Case(product, ((70, 35), (35, 50))),
    "right transposed": Case(of_transposed, ((70, 36), (68, 36))),
    "left transposed": Case(transposed, ((48, 72), (48, 80))),
    "both transposed": Case(both_transposed, ((17, 70), (33, 17))),
    "batched": Case(product, ((3, 40, 24), (3, 24, 56))),
    "epilogue": Case(with_bias, ((64, 64), (64, 64), (64,))),
    "computed operand": Case(lambda a, b: torch.exp(a) @ b, ((40, 32), (32, 64))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_source_computes_the_right_numbers(name):
    case = CASES[name]
    given = [data(shape, case.dtype) for shape in case.shapes]
    kernel = compiled(case, "cuda:emulated")
    assert "RegisterTiles" in re.findall(r'"mlirtri.schedule": "(\w+)"', kernel.ir["scheduled"])
    limit = LIMITS[torch.float32]
    torch.testing.assert_close(kernel(*given), case.function(*given), rtol=limit, atol=limit)
    assert_nvcc_takes(kernel)


def test_convolutions_are_products():
    image = data((2, 16, 9, 9), torch.float32)
    module = torch.nn.Conv2d(16, 24, 3, stride=2).eval()
    kernel = mt.from_torch(module, (image,)).compile(target="cuda:emulated")
    assert '"mlirtri.schedule": "RegisterTiles"' in kernel.ir["scheduled"]
    torch.testing.assert_close(kernel(image), module(image).detach(), rtol=1e-4, atol=1e-4)


def test_small_products_are_left_to_other_rules():
    kernel = compiled(Case(product, ((8, 32), (32, 64))))
    assert "RegisterTiles" not in kernel.ir["scheduled"]
