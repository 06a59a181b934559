"""Element kernels for SPIR-V with run-time sizes, reductions, atomic updates, and loops and branches of the host.

Each runs on a Vulkan device where there is one, for static and for run-time sizes, and is compared with Python's.
"""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
import torch
from elements import EXAMPLES

import mlirtri as mt
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.spirv import vulkan


@pytest.fixture(scope="module", autouse=True)
def device():
    try:
        return vulkan.device()
    except vulkan.VulkanError as problem:
        pytest.skip(str(problem))


def statistics(a):
    total, count = np.float32(0), 0
    for i in mt.prange(a.shape[0]):
        total += a[i]
        if a[i] > np.float32(0.5):
            count += 1
    return total / np.float32(a.shape[0]), count


def sums_by_key(keys, a, sums, counts, most):
    for i in mt.prange(keys.shape[0]):
        sums[keys[i]] += a[i]
        mt.atomic_add(counts[keys[i]], 2)
        mt.atomic_max(most[keys[i]], i)


def others(keys, a, least, bits):
    for i in mt.prange(keys.shape[0]):
        mt.atomic_min(least[keys[i]], a[i])
        mt.atomic_xor(bits[keys[i]], i)


def collected(a, out, count):
    for i in mt.prange(a.shape[0]):
        if a[i] > np.float32(0.5):
            out[mt.atomic_add(count[0], 1)] = a[i]


def transposed(a, out):
    for i, j, k in mt.ndrange(a.shape[0], a.shape[1], a.shape[2]):
        out[k, j, i] = a[i, j, k] * 2


def relaxed(a, b, tolerance: mt.float32):
    error, steps = np.float32(100), 0
    while error > tolerance:
        error = np.float32(0)
        for i in mt.prange(1, a.shape[0] - 1):
            b[i] = (a[i - 1] + a[i + 1]) * np.float32(0.5)
        for i in mt.prange(1, a.shape[0] - 1):
            error = max(error, abs(b[i] - a[i]))
        for i in mt.prange(1, a.shape[0] - 1):
            a[i] = b[i]
        steps += 1
    return steps


def chosen(a, which: mt.int32):
    if which > 3:
        for i in mt.prange(a.shape[0]):
            a[i] *= 2
    else:
        a[0] = 7
        for i in mt.prange(a.shape[0]):
            a[i] += which


def prefix(a):
    for i in range(1, a.shape[0]):
        a[i] += a[i - 1]


def eliminated(a):
    for k in range(a.shape[0]):
        for i in mt.prange(k + 1, a.shape[0]):
            a[i, k] /= a[k, k]
            for j in range(k + 1, a.shape[0]):
                a[i, j] -= a[i, k] * a[k, j]


def coloured(a):
    for colour in mt.serial(2):
        for i in mt.prange(1, a.shape[0] - 1):
            for j in range(1 + (i + colour) % 2, a.shape[1] - 1, 2):
                a[i, j] = (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) * np.float32(0.25)


def every_third(a):
    for i in mt.prange(1, a.shape[0] - 1, 3):
        a[i] = a[i - 1] + a[i + 1]


def own_array(a, out):
    for i in mt.prange(a.shape[0]):
        own = np.zeros(3, np.float32)
        for j in range(5):
            own[(i + j) % 3] += a[i] * np.float32(j)
        out[i] = own[0] - own[2]


def through_temporary(a):
    weights = np.array([1, 2, 4], np.float32)
    doubled = np.zeros(a.shape[0], np.float32)
    for i in mt.prange(a.shape[0]):
        doubled[i] = a[i] * weights[i % 3]
    for i in mt.prange(a.shape[0]):
        a[i] = doubled[a.shape[0] - 1 - i]


def filled(*shape):
    return np.random.default_rng(0).random(shape).astype(np.float32)


def zeros(dtype):
    return np.zeros(7, dtype)


KEYS = np.random.default_rng(1).integers(0, 7, 3000).astype(np.int32)
CASES = {
    "scalars": (statistics, [filled(5000)]),
    "sums by key": (sums_by_key, [KEYS, filled(3000), zeros("float32"), zeros("int64"), zeros("int32")]),
    "in order": (others, [KEYS, filled(3000), zeros("float32") + 1, zeros("int32")]),
    "three axes": (transposed, [filled(5, 6, 70), np.zeros((70, 6, 5), np.float32)]),
    "while": (relaxed, [filled(30), filled(30), np.float32(0.05)]),
    "branch": (chosen, [filled(50), np.int32(4)]),
    "other branch": (chosen, [filled(50), np.int32(2)]),
    "prefix sum": (prefix, [filled(100)]),
    "elimination": (eliminated, [filled(20, 20) + 20 * np.eye(20, dtype=np.float32)]),
    "two colours": (coloured, [filled(20, 30)]),
    "every third": (every_third, [filled(200)]),
    "own array": (own_array, [filled(200), filled(200)]),
    "temporary and constants": (through_temporary, [filled(99)]),
}  # fmt: skip


ATOMIC = ("sums by key", "in order", "two colours")
"""Kernels of functions that Python does not have."""


def types_of(arguments, names):
    """Return types with a size of run time for each axis; equal sizes are one."""
    for argument in arguments:
        for size in argument.shape:
            names.setdefault(size, mt.dyn[f"n{len(names)}"])
    return [mt.Tensor(tuple(names[size] for size in each.shape), getattr(mt, each.dtype.name)) for each in arguments]


def called(function, arguments):
    copies = [np.array(each) for each in arguments]
    result = function(*(each if each.ndim else each[()] for each in copies))
    return [*copies, *(result if isinstance(result, tuple) else () if result is None else (result,))]


@pytest.mark.parametrize("is_open", [False, True], ids=["static", "run-time sizes"])
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, is_open, tmp_path):
    function, arguments = CASES[name]
    kernel = mt.jit(function, semantics="numpy", target="spirv")
    compiled = kernel.compile(*(types_of(arguments, {}) if is_open else arguments))
    reference = mt.jit(function, semantics="numpy", pipeline="mlir") if name in ATOMIC else function
    for found, expected in zip(called(compiled, arguments), called(reference, arguments), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)
    for number, words in enumerate(compiled.binaries.values()):
        if shutil.which("spirv-val"):
            (tmp_path / f"{number}.spv").write_bytes(words)
            command = ["spirv-val", "--target-env", "vulkan1.1", str(tmp_path / f"{number}.spv")]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stdout + ran.stderr


def test_one_kernel_takes_all_sizes():
    size = mt.dyn["n"]
    vector = mt.Tensor((size,), mt.float32)
    kernel = mt.jit(own_array, target="spirv").compile(vector, vector)
    for count in (0, 1, 63, 64, 65, 1000):
        a, out, expected = filled(count), filled(count), filled(count)
        kernel(a, out)
        own_array(a, expected)
        np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_more_blocks_than_a_launch_takes():
    size = (vulkan.MOST_BLOCKS + 3) * 64 + 5
    a = np.ones(size, np.int8)
    kernel = mt.jit(two_more, target="spirv")
    kernel(a)
    assert (a == 3).all()


def counted(keys, counts):
    for i in mt.prange(keys.shape[0]):
        counts[keys[i]] += 1


def add_and_others(keys, a, sums, differences, products, most, bits):
    for i in mt.prange(keys.shape[0]):
        mt.atomic_add(sums[keys[i]], a[i])
        differences[keys[i]] -= a[i]
        products[keys[i]] *= 1 + a[i] / 100
        mt.atomic_max(most[keys[i]], a[i])
        mt.atomic_xor(bits[i % 6000], keys[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bins", [5000, 1])
def test_floats_are_updated_atomically_by_compare_and_exchange(dtype, bins):
    rng, count = np.random.default_rng(0), 9000
    keys, a = rng.integers(0, bins, count), rng.random(count).astype(dtype)
    arrays = [np.full(5000, first, dtype) for first in (0, 0, 1, 0)]
    got = [*arrays, np.zeros(6000, np.int32)]
    kernel = mt.jit(add_and_others, target="spirv")
    kernel(keys, a, *got)
    [launch] = kernel.compile(keys, a, *got).stats["launches"]
    assert launch.blocks == (141, 1, 1)
    want = [np.zeros(5000), np.zeros(5000), np.ones(5000), np.zeros(5000), np.zeros(6000, np.int32)]
    np.add.at(want[0], keys, a)
    np.subtract.at(want[1], keys, a)
    np.multiply.at(want[2], keys, 1 + a / 100)
    np.maximum.at(want[3], keys, a)
    np.bitwise_xor.at(want[4], np.arange(count) % 6000, keys.astype(np.int32))
    for result, expected in zip(got, want, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-3 if dtype == np.float32 else 1e-11)


def of_tables(keys, a, table, before):
    for i in mt.prange(keys.shape[0]):
        before[i] = mt.atomic_add(table[keys[i] % table.shape[0], keys[i] // table.shape[0]], a[i])


@pytest.mark.parametrize("is_open", [False, True], ids=["static", "run-time sizes"])
def test_floats_of_a_table_are_updated_and_say_what_they_were(is_open):
    rng = np.random.default_rng(0)
    keys, a = rng.integers(0, 7000, 900), np.ones(900, np.float32)
    table, before = np.zeros((70, 100), np.float32), np.zeros(900, np.float32)
    arguments = (keys, a, table, before)
    kernel = mt.jit(of_tables, target="spirv")
    (kernel.compile(*types_of(arguments, {})) if is_open else kernel)(*arguments)
    want = np.zeros((70, 100))
    np.add.at(want, (keys % 70, keys // 70), a)
    np.testing.assert_array_equal(table, want)
    assert before.sum() == (want * (want - 1) / 2).sum()


def histogram_of_image(image, counts):
    for i, j in mt.ndrange(image.shape[0], image.shape[1]):
        counts[image[i, j]] += 1


def test_a_nest_with_atomic_updates_has_a_thread_for_each_element():
    image, counts = np.random.default_rng(0).integers(0, 99, (40, 70)), np.zeros(99, np.int64)
    kernel = mt.jit(histogram_of_image, target="spirv").compile(image, counts)
    [launch] = kernel.stats["launches"]
    assert launch.blocks == (2, 40, 1)
    kernel(image, counts)
    np.testing.assert_array_equal(counts, np.bincount(image.ravel(), minlength=99))


def test_indices_are_checked_in_debug_and_clamped_otherwise():
    keys = np.array([0, 4, 9], np.int32)
    with pytest.raises(IndexError, match="out of bounds for axis 0 of size 5"):
        mt.jit(counted, target="spirv", debug=True)(keys, np.zeros(5, np.int32))
    counts = np.zeros(5, np.int32)
    mt.jit(counted, target="spirv")(keys, counts)
    np.testing.assert_array_equal(counts, [1, 0, 0, 0, 2])


def two_more(a):
    for i in mt.prange(a.shape[0]):
        a[i] += 2


def test_what_a_counter_gave_is_an_index():
    a, out, count = filled(3000), np.zeros(3000, np.float32), np.zeros(1, np.int32)
    kernel = mt.jit(collected, target="spirv")
    kernel(a, out, count)
    np.testing.assert_array_equal(np.sort(out[: count[0]]), np.sort(a[a > 0.5]))
    assert "memref.atomic_rmw addi" in kernel.compile(a, out, count).ir["gpu"]


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "julia"])
def test_an_example_computes_what_numpy_does(name):
    EXAMPLES[name].check("mlir", target="spirv")


def test_functions_of_fp64_are_refused_on_their_line():
    example = EXAMPLES["julia"]
    with pytest.raises(UnsupportedOperationError, match=r"has no spirv\.GL\.Log2 of this dtype") as caught:
        mt.jit(example.kernel, target="spirv").compile(*example.make(1))
    assert caught.value.span is not None
    assert 'compute it in float32, as np.float32(x), or use target="cpu"' in caught.value.help


def powers_of_halves(a, b):
    for i in mt.prange(a.shape[0]):
        power = a[i]
        for k in range(3):
            power = power * a[i] - k
        if power > 100:
            power = a[i] / 3
        b[i] = power


def scores_of_halves(a, b):
    return torch.relu(a * b + a) - b / 2, torch.exp(a) * torch.tanh(b), (a * b).sum(0)


def test_bf16_is_rounded_as_on_the_cpu():
    torch.manual_seed(0)
    a, b = (torch.rand(70) * 6 - 3).bfloat16(), (torch.rand(70) * 6 - 3).bfloat16()
    a[0], b[1] = float("nan"), float("inf")
    for found, expected in zip(mt.jit(scores_of_halves, target="spirv")(a, b), scores_of_halves(a, b), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    found, expected = torch.empty_like(a), torch.empty_like(a)
    mt.jit(powers_of_halves, target="spirv")(a, found)
    mt.jit(powers_of_halves)(a, expected)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def counted_in_halves(keys, counts):
    for i in mt.prange(keys.shape[0]):
        mt.atomic_add(counts[keys[i]], 0.5)


def test_updates_of_bf16_are_not_lost():
    keys, counts = torch.arange(500, dtype=torch.int32) % 8, torch.zeros(8).bfloat16()
    mt.jit(counted_in_halves, target="spirv")(keys, counts)
    assert counts.tolist() == [31.5] * 4 + [31.0] * 4
