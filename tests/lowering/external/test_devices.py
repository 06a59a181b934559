"""Regions of a kernel on devices of their own: the copies between them, and code for both kinds of devices."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from tolerances import within

import mlirtri as mt
from mlirtri.errors import DeviceError, KernelValueError, UnsupportedOperationError, UnsupportedSyntaxError

PIPELINES = ("linalg", "relax", "interpreter")
MATRIX = mt.Tensor((4, 4), mt.float32)
second = mt.device("cpu", 1)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-0.5, 0.5, shape).astype(dtype)


def two_devices(x, w):
    before = x + 1
    with second:
        hidden = mt.relu(before @ w) * 2
    return hidden + before, hidden


def on_a_gpu(x, w):
    before = x + 1
    with mt.device("gpu"):
        hidden = mt.relu(before @ w) * 2
    with mt.device("cpu"):
        result = hidden + before
    return result


def copies_in(text: str, pattern: str) -> list[str]:
    return re.findall(pattern, text)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_two_devices_compute_what_one_does(pipeline):
    x, w = array(4, 4), array(4, 4) + 1
    hidden = np.maximum((x + 1) @ w, 0) * 2
    found = mt.jit(two_devices).compile(x, w, pipeline=pipeline)(x, w)
    np.testing.assert_allclose(found[0], hidden + x + 1, **within("float32", 4))
    np.testing.assert_allclose(found[1], hidden, **within("float32", 4))


def test_tensors_of_torch_and_given_outputs():
    x, w = torch.ones(4, 4), torch.ones(4, 4)
    out = (torch.empty(4, 4), torch.empty(4, 4))
    mt.jit(two_devices)(x, w, out=out)
    assert torch.equal(out[1], torch.full((4, 4), 16.0))
    assert torch.equal(out[0], torch.full((4, 4), 18.0))


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_copies_are_in_every_stage(pipeline):
    kernel = mt.jit(two_devices).compile(MATRIX, MATRIX, pipeline=pipeline)
    # Two values go over, one comes back, however often it is used.
    assert copies_in(kernel.ir["tri"], r"call @(device\.cpu\.\d)") == ["device.cpu.1", "device.cpu.1", "device.cpu.0"]
    for stage in ("relax", "tir", "scheduled"):
        copies = copies_in(kernel.ir[stage], r'R\.to_vdevice\(\w+, dst_vdevice="(llvm:\d)')
        assert copies == ["llvm:1", "llvm:1", "llvm:0"], stage
        assert "I.vdevice(" in kernel.ir[stage]
    assert re.search(r'fused_\w+, \(copy, copy_1.*\), out_ty=.*vdevice="llvm:1:global"', kernel.ir["tir"])


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_nothing_fuses_across_a_border(pipeline):
    def chain(x):
        with mt.device("cpu", 1):
            y = x * 2 + 1
        return y * 3 - 1

    x = array(4, 4)
    kernel = mt.jit(chain).compile(x, pipeline=pipeline)
    assert kernel.stats["kernels"] == 2
    np.testing.assert_allclose(kernel(x), (x * 2 + 1) * 3 - 1, **within("float32"))


def test_without_a_region_there_are_no_devices():
    kernel = mt.jit(lambda x: x + 1).compile(MATRIX)
    assert "vdevice" not in kernel.ir["relax"]
    assert kernel.pipeline.names[-2:] == ("llvm", "asm")


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_both_kinds_of_code_are_made(pipeline, target):
    kernel = mt.jit(on_a_gpu).compile(MATRIX, MATRIX, pipeline=pipeline, target=target)
    assert list(kernel.ir)[-3:] == ["cuda", "llvm", "asm"]
    assert "__global__" in kernel.ir["cuda"]
    assert "matmul" in kernel.ir["cuda"]
    assert "matmul" not in kernel.ir["llvm"]
    assert "define" in kernel.ir["llvm"]
    copies = copies_in(kernel.ir["tir"], r'R\.to_vdevice\(\w+, dst_vdevice="(\w+:\d)')
    assert copies == (["cuda:0", "cuda:0", "llvm:0"] if target == "cpu" else ["llvm:0", "llvm:0", "cuda:0"])
    architectures = set(copies_in(kernel.ir["tir"], r'"arch": "(\w+)"'))
    assert architectures == ({"sm_80"} if target == "cpu" else {"sm_90"})
    assert kernel.stats["kernels"] == 3


def test_one_function_on_both_kinds_gets_two_schedules():
    def same(x):
        with mt.device("gpu"):
            first = mt.relax.nn.silu(x)
        with mt.device("cpu"):
            both = mt.relax.nn.silu(first)
        return both

    kernel = mt.jit(same).compile(MATRIX)
    assert 'thread="threadIdx.x"' in kernel.ir["scheduled"]
    assert "silu" in kernel.ir["cuda"]
    assert "silu" in kernel.ir["llvm"]


def test_the_gpu_half_says_what_it_lacks():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(DeviceError, match="compiled for CUDA"):
        mt.jit(on_a_gpu)(array(4, 4), array(4, 4))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_both_kinds_of_devices_compute_what_one_does():
    x, w = array(4, 4), array(4, 4) + 1
    wanted = np.maximum((x + 1) @ w, 0) * 2 + x + 1
    np.testing.assert_allclose(mt.jit(on_a_gpu)(x, w), wanted, **within("float32", 4))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_constants_integers_and_results_of_a_region(pipeline):
    def mixed(x):
        with mt.device("cpu", 1):
            ones = mt.ones((4,), mt.uint8)
            total = x + ones
            with mt.device("cpu", 2):
                doubled = total * 2
        return ones, doubled, total, x

    x = np.arange(200, 204).astype(np.uint8)
    ones, doubled, total, same = mt.jit(mixed).compile(x, pipeline=pipeline)(x)
    np.testing.assert_array_equal(ones, np.ones(4, np.uint8))
    np.testing.assert_array_equal(total, x + 1)
    np.testing.assert_array_equal(doubled, (x + 1) * 2)
    np.testing.assert_array_equal(same, x)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_region_may_return_and_branch_on_what_is_known(pipeline):
    def returning(x, twice: bool):
        with mt.device("cpu", 1):
            for _ in range(2):
                x = x + 1
            if twice:
                return x * 2
            return x

    x = array(4)
    for twice in (True, False):
        found = mt.jit(returning).compile(x, twice, pipeline=pipeline)(x)
        np.testing.assert_allclose(found, (x + 1 + 1) * (2 if twice else 1), **within("float32"))


def test_stages_are_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    x, w = array(4, 4), array(4, 4)
    kernel = mt.jit(two_devices).compile(x, w)
    mixed = mt.jit(on_a_gpu).compile(MATRIX, MATRIX)
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    for stage in ("tri", "fused", "relax", "tir", "scheduled"):
        [file] = tmp_path.glob(f"two_devices*/??_{stage}.*")
        np.testing.assert_array_equal(mt.resume(file, stage)(x, w)[0], kernel(x, w)[0])
        [file] = tmp_path.glob(f"on_a_gpu*/??_{stage}.*")
        assert mt.resume(file, stage).ir["cuda"] == mixed.ir["cuda"]


def test_ir_is_verified(monkeypatch):
    monkeypatch.setenv("MLIRTRI_VERIFY", "1")
    mt.jit(on_a_gpu).compile(MATRIX, MATRIX)


def refused(function, error, message, *arguments, **options):
    with pytest.raises(error, match=message) as caught:
        mt.jit(function).compile(*(arguments or (MATRIX,)), **options)
    assert f"{__file__}:" in str(caught.value)
    assert "^" in str(caught.value)
    return caught.value


def test_other_context_managers_stay_outside():
    def other(x):
        with x:
            return x

    def named(x):
        with mt.device("cpu", 1) as place:
            return place

    def several(x):
        with second, second:
            return x

    refused(other, UnsupportedSyntaxError, "cannot enter a tensor")
    refused(named, UnsupportedSyntaxError, "names one device and no variable")
    refused(several, UnsupportedSyntaxError, "names one device and no variable")


def test_devices_that_there_are_not():
    def unknown(x):
        with mt.device("gpuu"):
            return x

    error = refused(unknown, KernelValueError, "'gpuu' is not a kind of device")
    assert "'gpu'" in error.help
    with pytest.raises(KernelValueError, match="expected the number of a device, got -1"):
        mt.device("cpu", -1)
    with pytest.raises(mt.KernelError, match="stands in kernels only"), mt.device("cpu"):
        pass


def test_loops_stay_out_of_kernels_with_regions():
    def inside(x):
        with second:
            for i in range(64):
                x[i, 0] = 1.0
        return x

    def beside(x):
        total = 0.0
        for i in range(64):
            total = total + x[i, 0]
        with second:
            x = x + 1
        return x * total

    matrix = mt.Tensor((64, 4), mt.float32)
    refused(inside, UnsupportedSyntaxError, "loops", matrix)
    refused(beside, UnsupportedSyntaxError, "loops", matrix)


def test_code_without_tvm_has_no_regions():
    refused(two_devices, UnsupportedOperationError, "a device region", MATRIX, MATRIX, pipeline="mlir")
