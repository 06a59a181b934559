"""Products of halves and bytes for CUDA's tensor cores: their source computes the right numbers on emulated threads."""

from __future__ import annotations

import re
import shutil

import pytest
import torch
from cuda_kernel_cases import LIMITS, Case, assert_nvcc_takes, compiled, data, product, with_bias

import mlirtri as mt

HALF, BFLOAT = torch.float16, torch.bfloat16


def right_transposed(a, b):
    return a @ b.mT


def left_transposed(a, b):
    return torch.nn.functional.gelu(a.mT @ b) * 0.5


def widened(a, b):
    return a.to(torch.int32) @ b.to(torch.int32)


CASES = {
    "even": Case(with_bias, ((64, 48), (48, 64), (64,)), BFLOAT),
    "odd": Case(product, ((37, 51), (51, 29)), BFLOAT),
    "several_tiles": Case(product, ((136, 72), (72, 200)), HALF),
    "right_transposed": Case(right_transposed, ((3, 60, 48), (3, 70, 48)), HALF),
    "left_transposed": Case(left_transposed, ((48, 60), (48, 68)), HALF),
    "one_column": Case(product, ((2, 40, 24), (2, 24, 3)), HALF),
    "bytes": Case(widened, ((33, 72), (72, 24)), torch.int8),
}


def rules_of(kernel):
    return re.findall(r'"mlirtri.schedule": "(\w+)"', kernel.ir["scheduled"])


@pytest.fixture
def without_nvcc(monkeypatch):
    """Stages end at `cuda`: nvcc takes longer than all else."""
    monkeypatch.setattr(shutil, "which", lambda _name: None)


HAS_COMPILER, HAS_NVCC = (shutil.which(name) is not None for name in ("c++", "nvcc"))


@pytest.mark.slow
@pytest.mark.skipif(not HAS_COMPILER, reason="threads are emulated in C++")
def test_the_source_computes_the_right_numbers():
    given = {name: [data(shape, case.dtype) for shape in case.shapes] for name, case in CASES.items()}
    kernels = {name: compiled(case, "cuda:emulated") for name, case in CASES.items()}
    image = data((2, 4, 9, 9), HALF)
    module = torch.nn.Conv2d(4, 12, 3, stride=2, bias=False).to(HALF).eval()
    kernels["convolution"] = mt.from_torch(module, (image,)).compile(target="cuda:emulated")
    unsigned, signed = (torch.arange(33 * 40).reshape(33, 40) % 251).to(torch.uint8), data((33, 40), torch.int8)
    pairs = {
        "without_signs": (unsigned, unsigned.mT),
        "mixed": (unsigned, signed.mT),
        "mixed_too": (signed, unsigned.mT),
    }
    given |= {name: [each.contiguous() for each in pair] for name, pair in pairs.items()}
    kernels |= {name: mt.jit(widened).compile(*given[name], target="cuda:emulated") for name in pairs}
    assert [name for name, kernel in kernels.items() if rules_of(kernel) != ["TensorCores"]] == []
    expected = {name: case.function(*given[name]) for name, case in CASES.items()}
    expected |= {name: widened(*given[name]) for name in pairs}
    given["convolution"], expected["convolution"] = [image], module(image).detach()
    for name, kernel in kernels.items():
        out = kernel(*given[name])
        limit = LIMITS.get(out.dtype, 0)
        assert torch.allclose(out, expected[name], rtol=limit, atol=10 * limit), name


@pytest.mark.parametrize(
    ("target", "shape", "expected"),
    [
        ("cuda:sm_75", 64, ["Matmul"]),
        ("cuda:sm_90a", 64, ["TensorCores"]),
        # Of sizes that fill a device, each block has a large tile; of small ones there are many blocks.
        ("cuda", 4096, ["TensorCores"]),
    ],
)
def test_devices_and_sizes(without_nvcc, target, shape, expected):
    kernel = compiled(Case(product, ((shape, shape), (shape, shape)), HALF), target)
    assert rules_of(kernel) == expected
    blocks = {64: 1, 4096: 32 * 32}[shape]
    if expected == ["TensorCores"]:
        assert f'T.thread_binding(T.int64({blocks}), thread="blockIdx.x"' in kernel.ir["scheduled"]


def test_channels_by_themselves_are_no_products_of_matrices(without_nvcc):
    module = torch.nn.Conv2d(8, 8, 3, groups=8, bias=False).to(HALF).eval()
    assert rules_of(mt.from_torch(module, (data((1, 8, 9, 9), HALF),)).compile(target="cuda")) == ["Reduction"]


@pytest.mark.nvcc
@pytest.mark.slow
@pytest.mark.skipif(not HAS_NVCC, reason="nvcc is not on PATH")
@pytest.mark.parametrize("name", ["even", "bytes"])
def test_nvcc_takes_it(name):
    kernel = compiled(CASES[name])
    # The operands are read as they are, and all that follows is done with the sums.
    assert len(re.findall(r"__global__ [^;{]*\{", kernel.ir["cuda"])) == 1
    assert_nvcc_takes(kernel)
