"""bufferized → gpu → spirv: binaries that spirv-val takes, numbers on a Vulkan device, refusals on the user's line."""

from __future__ import annotations

import shutil
import struct
import subprocess

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import DeviceError, UnknownOptionError, UnsupportedOperationError
from mlirtri.lowering.spirv import executable, vulkan


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


def neighbours(a, out):
    for i, j in mt.ndrange(a.shape[0], a.shape[1]):
        count = np.int32(0)
        for d in range(3):
            if i + d >= 1 and i + d <= a.shape[0]:
                count += a[i + d - 1, j]
        out[i, j] = count if count < 6 else -count


def escapes(a, out):
    for i, j in mt.ndrange(a.shape[0], a.shape[1]):
        x, y, steps = np.float32(0), np.float32(0), np.int32(0)
        while x * x + y * y < 4 and steps < 30:
            x, y = x * x - y * y + a[i, j] / 5 - 1, np.float32(2) * x * y + np.float32(0.3)
            steps += np.int32(1)
        out[i, j] = steps


def others(a, x, out):
    for i in mt.prange(a.shape[0]):
        total = np.float32(0)
        for k in range(a.shape[1]):
            if k == i:
                continue
            total += a[i, k] * x[k]
        out[i] = total


def scaled_then_added(a, by: mt.float32, halves, out):
    for i in mt.prange(a.shape[0]):
        halves[i] = a[i] / (by + 1)
    for i, j in mt.ndrange((0, a.shape[0]), (1, out.shape[1])):
        out[i, j] = halves[i] + halves[(j + 1) % halves.shape[0]]


def chosen(a, mask, out, inside):
    for i in mt.prange(a.shape[0]):
        out[i] = a[i] * 2 if mask[i] else -a[i]
        inside[i] = a[i] > 2 and not (a[i] > 5)


LOOPS = {
    "neighbours": (neighbours, [((20, 70), mt.int32), ((20, 70), mt.int32)], 1),
    "while": (escapes, [((30, 20), mt.float32), ((30, 20), mt.int32)], 1),
    "continue": (others, [((20, 30), mt.float32), ((30,), mt.float32), ((20,), mt.float32)], 1),
    "two loops and a number": (
        scaled_then_added, [((50,), mt.float32), ((), mt.float32), ((50,), mt.float32), ((50, 60), mt.float32)], 2
    ),
    "bools": (chosen, [((100,), mt.float32), ((100,), mt.bool), ((100,), mt.float32), ((100,), mt.bool)], 1),
}  # fmt: skip
"""Element kernels, which write their last arguments."""
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


@pytest.mark.parametrize("name", [*CASES, *LOOPS])
def test_binaries_are_valid(name, tmp_path):
    function, arguments, launches = {**CASES, **LOOPS}[name]
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
        return vulkan.device()
    except vulkan.VulkanError as problem:
        pytest.skip(str(problem))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", CASES)
def test_numbers_on_a_vulkan_device(name):
    function, arguments, _ = CASES[name]
    random = np.random.default_rng(0)
    given = [(random.random(shape) * 8 + 1).astype(dtype.numpy) for shape, dtype in arguments]
    expected = function(*given)
    kernel = compiled(function, arguments)
    assert kernel.stats["launches"] == kernel.compilation.executable.program.dispatches
    # Vulkan lets exp be off by 3 + 2x ulp, and tanh by more.
    np.testing.assert_allclose(kernel(*given), expected, rtol=1e-2 if expected.dtype == np.float16 else 1e-5)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", LOOPS)
def test_numbers_of_loops_on_a_vulkan_device(name):
    function, arguments, _ = LOOPS[name]
    random = np.random.default_rng(0)
    given = [np.asarray(random.random(shape) * 8).astype(dtype.numpy) for shape, dtype in arguments]
    expected = [array.copy() for array in given]
    function(*expected)
    compiled(function, arguments)(*given)
    for found, array in zip(given, expected, strict=True):
        np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-5)


def test_threads_are_along_the_innermost_axis():
    text = compiled(*CASES["chain"][:2]).ir["gpu"]
    assert "memref.load %arg0[%block_id_y, %thread_id_x]" in text
    assert "known_grid_size = array<i32: 1, 37, 1>" in text


def exponential(a):
    return a + np.exp(a)


@pytest.mark.parametrize(
    ("function", "dtype", "reason", "line"),
    [
        (exponential, mt.float64, "has no spirv.GL.Exp of this dtype", 1),
        (exponential, mt.complex64, "an array of complex<f32>", 0),
    ],
    ids=["function of fp64", "complex"],
)
def test_what_spirv_has_not_is_refused_on_its_line(function, dtype, reason, line):
    with pytest.raises(UnsupportedOperationError, match=reason) as caught:
        compiled(function, [((33,), dtype)])
    assert caught.value.span.line == function.__code__.co_firstlineno + line
    assert 'target="cpu"' in caught.value.help


def test_a_call_without_a_driver_and_other_pipelines_are_refused(monkeypatch):
    def no_device():
        raise vulkan.VulkanError("libvulkan is not on this machine")

    monkeypatch.setattr(executable, "device", no_device)
    kernel = compiled(*CASES["chain"][:2])
    with pytest.raises(DeviceError, match="where a Vulkan driver is: libvulkan is not on this machine") as without:
        kernel(np.ones((37, 50), np.float32), np.ones(50, np.float32))
    assert "kernel.binaries" in without.value.help
    vector = mt.Tensor((3,), mt.float32)
    with pytest.raises(UnknownOptionError, match="relax") as caught:
        mt.jit(chain).compile(vector, vector, target="spirv", pipeline="relax")
    assert 'use pipeline="mlir"' in caught.value.help
    assert mt.jit(chain).compile(vector, vector).binaries == {}


def test_a_device_without_a_kernels_numbers_is_refused(device, monkeypatch):
    monkeypatch.setattr(device, "missing", lambda words: ["float64"])

    def tripled(x):
        return x * 3

    # A kernel of its own: one that has run on the device is not checked again.
    kernel = compiled(tripled, [((7,), mt.float64)])
    with pytest.raises(DeviceError, match="has no float64, which the kernel tripled_kernel"):
        kernel(np.ones(7))
