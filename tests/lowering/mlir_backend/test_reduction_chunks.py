"""Loops that reduce are chunks for threads: NumPy's numbers, and the same bits for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.lowering.runtime import openmp

PIPELINES = ("linalg", "mlir")
LENGTHS = (0, 1, 1023, 5000, 70_001)


N = mt.dyn["N"]


def scalars(a: mt.Tensor[[N], mt.float64], b: mt.Tensor[[N], mt.float64], k: mt.Tensor[[N], mt.int64], n: mt.int64):
    total, difference, product, most, least, count = 0.0, 1.0, 1.0, -9.0, 9.0, 0
    some, every, odd = False, True, 0
    for i in mt.prange(n):
        total += a[i] * b[i]
        difference -= b[i]
        product *= 1 + b[i] / 100_000
        most = max(most, a[i])
        least = min(a[i], least)
        if a[i] > 0.5:
            count += 1
            continue
        some |= b[i] > 0.999
        every &= b[i] >= 0
        odd ^= k[i]
    return total, difference, product, most, least, count, some, every, odd


def expected_scalars(a, b, k, n):
    a, b, k = a[:n], b[:n], k[:n]
    low = ~(a > 0.5)
    return (
        (a * b).sum(), 1 - b.sum(), np.prod(1 + b / 100_000), a.max(initial=-9), a.min(initial=9), (~low).sum(),
        (b[low] > 0.999).any(), (b[low] >= 0).all(), np.bitwise_xor.reduce(k[low], initial=0),
    )  # fmt: skip


def arrays(a, k, counts, sums, extremes):
    for i in mt.prange(a.shape[0]):
        counts[k[i]] += 1
        for j in range(3):
            sums[k[i] % 4, j] += a[i] * j
        extremes[0] = np.maximum(extremes[0], a[i])


def rows(a, norms):
    largest = 0.0
    for i in mt.prange(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j] ** 2
        norms[i] = total
        largest = max(largest, total)
    return largest


def arguments(n):
    random = np.random.default_rng(n)
    return random.random(n + 1), random.random(n + 1), random.integers(0, 100, n + 1), n


@pytest.fixture(params=[1, 2], ids="{} threads".format)
def threads(request, monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", str(request.param))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_scalars(pipeline):
    kernel = mt.jit(scalars, pipeline=pipeline)
    for n in LENGTHS:
        for got, want in zip(kernel(*arguments(n)), expected_scalars(*arguments(n)), strict=True):
            assert got == pytest.approx(want, rel=1e-12), n


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_arrays(pipeline):
    a, _, k, _ = arguments(20_000)
    counts, sums, extremes = np.ones(100, np.int32), np.ones((4, 3)), np.array([0.5])
    mt.jit(arrays, pipeline=pipeline)(a, k, counts, sums, extremes)
    assert np.array_equal(counts, 1 + np.bincount(k, minlength=100))
    by_class = np.bincount(k % 4, a)
    np.testing.assert_allclose(sums, 1 + by_class[:, None] * np.arange(3), rtol=1e-12)
    assert extremes[0] == a.max()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_loops_inside(pipeline):
    a, norms = np.random.default_rng(0).random((300, 400)), np.zeros(300)
    largest = mt.jit(rows, pipeline=pipeline)(a, norms)
    np.testing.assert_allclose(norms, (a**2).sum(1), rtol=1e-12)
    assert largest == norms.max()


def sum_of_all(a):
    total = 0.0
    for value in a:
        total += value
    return total


def test_sums_have_the_same_bits_for_any_number_of_threads_and_round_little(monkeypatch):
    a = np.random.default_rng(0).random(1_000_003).astype(np.float32)
    results = {}
    for threads in (1, 2, 5):
        monkeypatch.setenv("MLIRTRI_NUM_THREADS", str(threads))
        for pipeline in PIPELINES:
            results[pipeline, threads] = mt.jit(sum_of_all, pipeline=pipeline)(a)
    for pipeline in PIPELINES:
        assert results[pipeline, 1] == results[pipeline, 2] == results[pipeline, 5]
        assert results[pipeline, 1] == pytest.approx(a.sum(dtype=np.float64), rel=2e-7)


def test_nan_is_treated_as_in_order():
    @mt.jit
    def largest(a):
        best = -1.0
        for i in mt.prange(a.shape[0]):
            best = max(best, a[i])
        return best

    a = np.random.default_rng(0).random(9000)
    a[::7] = np.nan
    assert largest(a) == np.nanmax(a)


def test_the_chunks_are_for_threads(monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "2")
    a = mt.Tensor((1_000_000,), mt.float32)
    assert "T.parallel(T.int64(64)" in mt.jit(sum_of_all).compile(a).ir["scheduled"]
    if openmp.runtime_library() is not None:
        assert "omp.parallel" in mt.jit(sum_of_all, pipeline="mlir").compile(a).ir["llvmdialect"]
    small = mt.jit(sum_of_all).compile(mt.Tensor((100,), mt.float32))
    assert "T.parallel" not in small.ir["scheduled"]
