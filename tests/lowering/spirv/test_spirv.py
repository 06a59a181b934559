"""bufferized → gpu → spirv: binaries that spirv-val takes, launches in order, refusals on the user's line."""

from __future__ import annotations

import shutil
import struct
import subprocess

import numpy as np
import pytest
import vulkan_runner

import mlirtri as mt
from mlirtri.errors import DeviceError, UnknownOptionError, UnsupportedOperationError


def chain(a, b):
    return np.exp(a) * b + np.sqrt(a)


def integers(a, b):
    return np.where(a > b, a // b, a % b + 1)


def halves(a):
    return np.tanh(a) * 2 + a**2


def four_axes(a):
    return a.transpose(0, 2, 1, 3) + 1


def softmax(x):
    y = np.exp(x - np.max(x, axis=1, keepdims=True))
    return y / np.sum(y, axis=1, keepdims=True)


def product(a, b):
    return a @ b


CASES = {
    "chain": (chain, [((37, 50), mt.float32), ((50,), mt.float32)], 1),
    "int32": (integers, [((37, 50), mt.int32)] * 2, 1),
    "uint8": (integers, [((37, 50), mt.uint8)] * 2, 1),
    "int64": (integers, [((9,), mt.int64)] * 2, 1),
    "float16": (halves, [((300,), mt.float16)], 1),
    "float64": (product, [((7, 9), mt.float64), ((9, 70), mt.float64)], 2),
    "four axes": (four_axes, [((2, 3, 4, 5), mt.float32)], 1),
    "softmax": (softmax, [((8, 200), mt.float32)], 6),
}


def compiled(function, arguments):
    kernel = mt.jit(function, semantics="numpy", target="spirv")
    return kernel.compile(*[mt.Tensor(*each) for each in arguments])


@pytest.mark.parametrize("name", CASES)
def test_binaries_are_valid(name, tmp_path):
    function, arguments, launches = CASES[name]
    kernel = compiled(function, arguments)
    assert kernel.pipeline.names[-2:] == ("gpu", "spirv")
    assert len(kernel.binaries) == kernel.stats["kernels"] == launches
    for kernel_name, words in kernel.binaries.items():
        magic, version = struct.unpack("<II", words[:8])
        assert (magic, version) == (0x07230203, 0x10000 if name in ("chain", "softmax", "four axes") else version)
        file = tmp_path / f"{kernel_name}.spv"
        file.write_bytes(words)
        if shutil.which("spirv-val"):
            checked = ["spirv-val", "--target-env", "vulkan1.1", str(file)]
            ran = subprocess.run(checked, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def device():
    try:
        return vulkan_runner.VulkanCpu()
    except vulkan_runner.VulkanError as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize("name", CASES)
def test_numbers_on_a_vulkan_device(name, device):
    function, arguments, _ = CASES[name]
    random = np.random.default_rng(0)
    given = [(random.random(shape) * 8 + 1).astype(dtype.numpy) for shape, dtype in arguments]
    expected = np.ascontiguousarray(function(*given))
    kernel = compiled(function, arguments)
    executable = kernel.compilation.executable
    assert kernel.stats["launches"] == executable.dispatches
    buffers = [vulkan_runner.filled(device, array) for array in (*given, np.zeros_like(expected))]
    buffers += [device.buffer(size) for size in executable.temporaries]
    for dispatch in executable.dispatches:
        bound = [buffers[number] for number in dispatch.buffers]
        device.run(executable.binaries[dispatch.kernel], dispatch.entry_point, bound, dispatch.blocks)
    found = vulkan_runner.content(buffers[len(given)], expected)
    # Vulkan lets exp be off by 3 + 2x ulp, and tanh by more.
    np.testing.assert_allclose(found, expected, rtol=1e-2 if expected.dtype == np.float16 else 1e-5)


def test_threads_are_along_the_innermost_axis():
    text = compiled(*CASES["chain"][:2]).ir["gpu"]
    assert "memref.load %arg0[%block_id_y, %thread_id_x]" in text
    assert "known_grid_size = array<i32: 1, 37, 1>" in text


def scalar(a):
    return np.sum(a)


def loop(a):
    out = np.zeros_like(a)
    for i in range(a.shape[0]):
        out[i] = a[i] * 2
    return out


def truth(a):
    return a > 0


def exponential(a):
    return a + np.exp(a)


@pytest.mark.parametrize(
    ("function", "dtype", "reason", "line"),
    [
        (scalar, mt.float32, "memref.store of a scalar", 1),
        (loop, mt.float32, "a loop, a branch or an update", 0),
        (truth, mt.float32, "an array of i1", 0),
        (exponential, mt.float64, "has no spirv.GL.Exp of this dtype", 1),
        (exponential, mt.bfloat16, "an array of bf16", 0),
    ],
    ids=["scalar", "loop", "bool", "function of fp64", "bf16"],
)
def test_what_spirv_has_not_is_refused_on_its_line(function, dtype, reason, line):
    with pytest.raises(UnsupportedOperationError, match=reason) as caught:
        compiled(function, [((33,), dtype)])
    assert caught.value.span.line == function.__code__.co_firstlineno + line
    assert 'target="cpu"' in caught.value.help


def test_a_call_and_other_pipelines_are_refused():
    kernel = compiled(*CASES["chain"][:2])
    with pytest.raises(DeviceError, match="cannot be called"):
        kernel(np.ones((37, 50), np.float32), np.ones(50, np.float32))
    vector = mt.Tensor((3,), mt.float32)
    with pytest.raises(UnknownOptionError, match="relax") as caught:
        mt.jit(chain).compile(vector, vector, target="spirv", pipeline="relax")
    assert 'use pipeline="mlir"' in caught.value.help
    assert mt.jit(chain).compile(vector, vector).binaries == {}
