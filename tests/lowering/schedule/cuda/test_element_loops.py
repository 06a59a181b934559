"""Imperative kernels on CUDA: the emulated device runs the source; loops are launches, and who runs what is visible."""

from __future__ import annotations

import re

import numpy as np
import pytest
from elements import EXAMPLES
from numpy_kernel_checks import check
from numpy_kernels import KERNELS

import mlirtri as mt

TARGET = "cuda:emulated"


@pytest.mark.parametrize("name", ["histogram", "positive", "brighten", "inside", "n_body", "julia"])
def test_element_examples(name):
    example = EXAMPLES[name]
    arguments = example.make(1)
    kernel = mt.jit(example.kernel, target=TARGET).compile(*arguments)
    pairs = zip(example.results(kernel, arguments), example.results(example.reference, arguments), strict=True)
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=max(example.tolerance, 1e-4), atol=1e-3)


@pytest.mark.parametrize("name", ["edit_distance", "knapsack", "kmeans_step"])
def test_numpy_kernels(name):
    # Arrays of the host lie side by side here: one in front of another must not be taken for a part of it.
    case = KERNELS[name]
    check(case, case.dtypes[0], mt.jit(case.function, target=TARGET))


REFUSED = "an iteration has an array of its own"


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_all_numpy_kernels(name):
    case, refusal = KERNELS[name], ""
    try:
        check(case, case.dtypes[-1], mt.jit(case.function, target=TARGET))
    except mt.KernelError as error:
        refusal = str(error)
    assert not refusal or re.search(REFUSED, refusal), refusal


def steps_of_heat(a, b):
    for _ in mt.serial(5):
        for i, j in mt.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
            b[i, j] = (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) / 4
        for i, j in mt.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
            a[i, j] = b[i, j]


def test_the_host_runs_constant_loops_around_launches():
    a = np.random.default_rng(0).random((30, 70), np.float32)
    want, b, other = a.copy(), a.copy(), a.copy()
    steps_of_heat(want, other)
    kernel = mt.jit(steps_of_heat, target=TARGET).compile(a, b)
    kernel(a, b)
    np.testing.assert_allclose(a, want, rtol=1e-5)
    assert len(set(re.findall(r"steps_of_heat\w*_kernel\w*", kernel.ir["cuda"]))) == 2


def guarded(a, out, n: mt.int64, flag: mt.int64):
    total = 0.0
    if flag > 0:
        for i in mt.prange(n):
            out[i] = a[i] * 2
            total += a[i]
    else:
        for i in mt.prange(n):
            out[i] = -a[i]
    rounds = 0
    while total > 1:
        total /= 2
        rounds += 1
    return total, rounds


@pytest.mark.parametrize(("n", "flag"), [(3000, 1), (2000, 0), (0, 1)])
def test_conditions_and_bounds_in_device_memory(n, flag):
    a = np.random.default_rng(0).random(3000)
    got, want = np.zeros(3000), np.zeros(3000)
    kernel = mt.jit(guarded, target=TARGET).compile(a, got, n, flag)
    total, rounds = kernel(a, got, n, flag)
    wanted = guarded(a, want, n, flag)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    np.testing.assert_allclose((total, rounds), wanted, rtol=1e-12)


def test_refusals():
    @mt.jit(target=TARGET)
    def own_arrays(a):
        for i in mt.prange(a.shape[0]):
            own = np.zeros(a.shape[1] * a.shape[2])
            own[:] = a[i, 0, 0]
            for j in range(1, own.shape[0]):
                own[j] += own[j - 1]
            a[i, 1, 0] = own[-1]

    with pytest.raises(mt.KernelError, match=f"{REFUSED}.* on CUDA has at most"):
        own_arrays.compile(mt.Tensor((8, 300, 300), mt.float64))


def roots(a, out):
    for i in mt.prange(a.shape[0]):
        sqrt = np.sqrt(a[i])
        exp = np.exp(sqrt)
        out[i] = sqrt * exp + exp


def test_values_do_not_hide_functions():
    a, out = np.random.default_rng(0).random(300), np.zeros(300)
    mt.jit(roots, target=TARGET)(a, out)
    np.testing.assert_allclose(out, np.sqrt(a) * np.exp(np.sqrt(a)) + np.exp(np.sqrt(a)), rtol=1e-12)


def triangles(a, out):
    for i in mt.serial(a.shape[0]):
        row = np.zeros(a.shape[0] - i)
        for j in mt.prange(a.shape[0] - i):
            row[j] = a[i, i + j] * 2
        for j in mt.prange(a.shape[0] - i):
            out[j] += row[a.shape[0] - i - 1 - j]


def test_arrays_of_host_loops_have_their_largest_size_and_are_allocated_once():
    a, out, want = np.random.default_rng(0).random((9, 9)), np.zeros(9), np.zeros(9)
    kernel = mt.jit(triangles, target=TARGET).compile(a, out)
    kernel(a, out)
    triangles(a, want)
    np.testing.assert_allclose(out, want)
    scheduled = kernel.ir["scheduled"]
    before, inside = re.split(r"for \w+ in range\(T\.int64\(9\)\)", scheduled)
    assert before.count("T.alloc_buffer((T.int64(9),)") == 2
    assert "alloc_buffer" not in inside
    # Nine iterations at most are one block.
    assert 'T.thread_binding(T.int64(1), thread="blockIdx.x")' in scheduled
    assert "T.int64(4096)" not in scheduled


def sized(out, n: mt.int64):
    row = np.zeros(n)
    for i in mt.prange(n):
        row[i] = i
    for i in mt.prange(n):
        out[i] = row[n - 1 - i]


def test_sizes_in_device_memory_are_refused():
    with pytest.raises(mt.KernelError, match=r"the size of 'temporary' is in device memory"):
        mt.jit(sized, target=TARGET).compile(np.zeros(9), 5)
