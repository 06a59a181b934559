"""Contractions compiled for CUDA, their data and their limits."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

import torch

import mlirtri as mt
from mlirtri.lowering.codegen import cuda_to_ptx


@dataclass(frozen=True)
class Case:
    """A function of tensors of these shapes; with `limit`, the relative error of its dtype."""

    function: object
    shapes: tuple
    dtype: torch.dtype = torch.float32
    rules: tuple = ()
    """Rules that have to be among those that fired."""


def product(a, b):
    return a @ b


def with_bias(a, b, c):
    return torch.relu(a @ b + c)


LIMITS = {torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 3e-2}


HAS_NVCC = shutil.which("nvcc") is not None


def data(shape, dtype):
    generator = torch.Generator().manual_seed(sum(shape))
    if not dtype.is_floating_point:
        return torch.randint(-9, 9, shape, generator=generator, dtype=dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def compiled(case, target="cuda"):
    tensors = [mt.Tensor(shape, getattr(mt, str(case.dtype).split(".")[-1])) for shape in case.shapes]
    return mt.jit(case.function).compile(*tensors, target=target)


def assert_nvcc_takes(kernel):
    if HAS_NVCC:
        assert cuda_to_ptx.run_nvcc(kernel.ir["cuda"], "sm_80", "-cubin").startswith(b"\x7fELF")
