"""Static figures of CUDA kernels: launches, memory, barriers, occupancy, and registers where nvcc is there."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import UnknownOptionError
from mlirtri.lowering.core.launch_figures import ARCHITECTURES, blocks_at_once


def product(a, b):
    return a @ b


def total(a):
    return np.sum(np.exp(a))


HALF = [mt.Tensor((256, 256), mt.float16)] * 2


def test_a_product_of_tensor_cores(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    stats = mt.jit(product).compile(*HALF, target="cuda:emulated").stats
    [launch] = stats["launches"]
    assert launch.kernel == "fused_matmul_cast_kernel"
    assert (launch.grid, launch.block, launch.threads) == ((16, 1, 1), (32, 4, 1), 128)
    assert launch.shared_bytes == 2 * 19456
    assert launch.barriers == 256 // 32, "one for each step along the sum"
    assert launch.bytes == stats["bytes"] == 3 * 2 * 256 * 256
    assert stats["flops"] == 2 * 256**3
    resources = launch.resources("sm_90")
    assert (resources.registers, resources.spill_bytes) == (None, None)
    # 38 KiB and the reserved one go five times into 228 KiB, at 4 warps of 64.
    assert (resources.blocks, resources.occupancy) == (5, 20 / 64)
    with pytest.raises(UnknownOptionError, match="sm_80, sm_90, sm_100"):
        launch.resources("sm_60")


def test_every_launch_of_a_call_has_figures():
    kernel = mt.jit(total).compile(mt.Tensor((3, 30000), mt.float32), target="cuda:sm_80")
    first, second = kernel.stats["launches"]
    assert (first.grid, first.block, second.grid) == ((1, 10, 1), (512, 1, 1), (1, 1, 1))
    # Nine halvings of 512 threads, and one before each reads.
    assert first.barriers == 10
    assert first.bytes == 4 * 90000 + 8 * 10
    assert kernel.stats == kernel.stats


def test_occupancy_is_the_one_of_the_calculator():
    ampere = ARCHITECTURES["sm_80"]
    # NVIDIA's calculator for 8.0: registers limit to 2 blocks, shared memory to 3, warps to 8, blocks to 32.
    assert blocks_at_once(ampere, 256, 0, 94) == 2
    assert blocks_at_once(ampere, 256, 48 * 1024, 32) == 3
    assert blocks_at_once(ampere, 256, 0, 32) == 8
    assert blocks_at_once(ampere, 32, 0, 32) == 32
    assert blocks_at_once(ampere, 1024, 0, 255) == 0


def test_kernels_of_the_cpu_have_no_launches():
    names = {"kernels", "bytes", "peak_bytes", "compile_seconds"}
    assert set(mt.jit(total).compile(mt.Tensor((3, 5), mt.float32)).stats) == names


@pytest.mark.nvcc
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvcc_says_registers_and_spills(architecture):
    [launch] = mt.jit(product).compile(*HALF, target="cuda:emulated").stats["launches"]
    resources = launch.resources(architecture)
    assert 32 <= resources.registers <= 255
    assert resources.spill_bytes == 0
    assert 0 < resources.occupancy <= 1
