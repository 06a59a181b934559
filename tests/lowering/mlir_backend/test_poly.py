"""The `poly` stage: what upstream's polyhedral passes make of affine nests, and that the numbers stay."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt


def product(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def neighbours(a):
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            a[i, j] = (a[i - 1, j] + a[i, j - 1] + a[i + 1, j] + a[i, j + 1]) * 0.25


def chained(x, y):
    z = np.empty_like(x)
    for i in range(x.shape[0]):
        z[i] = x[i] * 2 + y[i]
    for i in range(x.shape[0]):
        y[i] = z[i] + x[i]


def until(x):
    i = 0
    while x[i] < 40:
        i += 1
    x[i] = -1.0
    return i


def arguments(function):
    rng = np.random.default_rng(5)
    shapes = {product: [(50, 40), (40, 45), (50, 45)], neighbours: [(70, 50)], chained: [(90,), (90,)], until: [(64,)]}
    made = [rng.uniform(0, 1, shape) for shape in shapes[function]]
    return [np.arange(64.0)] if function is until else made


@pytest.mark.parametrize("function", [product, neighbours, chained, until])
def test_numbers_stay(function):
    plain = arguments(function)
    ours = [each.copy() for each in plain]
    expected, found = function(*plain), mt.jit(function, pipeline="poly")(*ours)
    assert found == expected
    for mine, other in zip(ours, plain, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


def test_nests_are_tiled_and_parallel_where_that_is_right():
    texts = {f: mt.jit(f).compile(*arguments(f), pipeline="poly").ir["poly"] for f in (product, neighbours, chained)}
    assert texts[product].count("affine.parallel") == 4
    assert "step 32" in texts[product]
    assert "affine.parallel" not in texts[neighbours]
    assert texts[neighbours].count("affine.for") == 4
    # One nest: the array between the two loops is gone.
    assert texts[chained].count("affine.parallel") == 2
    assert "memref.alloc" not in texts[chained]


def test_it_is_for_cpus():
    with pytest.raises(mt.KernelError, match="pipeline 'poly' makes CPU code only"):
        mt.jit(product).compile(*arguments(product), pipeline="poly", target="cuda")


def log_softmax(x, y, z):
    largest = x.max(0)
    shifted = x - largest
    total = np.exp(shifted).sum(0)
    return shifted - np.log(total)


def transposed(x, y, z):
    return np.tanh(x.T - x.max(0)[:, None]) @ np.exp(x)


def overwritten(x, y, z):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            z[i, j] = x[i, j] - y[j]
    for j in range(x.shape[1]):
        y[j] = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[j] += z[i, j]


@pytest.mark.parametrize("function", [log_softmax, overwritten, transposed])
def test_values_that_are_read_later_are_not_overwritten(function):
    """Upstream fuses nests with no look at what the first reads and the second writes."""
    x, z = np.random.default_rng(3).uniform(0, 1, (2, 6, 7))
    plain, ours = (x, x[0].copy(), z.copy()), (x, x[0].copy(), z.copy())
    expected, found = function(*plain), mt.jit(function, pipeline="poly")(*ours)
    for mine, other in zip((found, *ours), (expected, *plain), strict=True):
        if other is not None:
            np.testing.assert_allclose(mine, other, rtol=1e-12)


def returned_sum(x):
    t = x.sum(0)
    return t, t * t


def read_twice(x):
    t = x.sum(0)
    return t * t, x @ t, np.exp(t[:, None] - t)


def returned_maximum(x):
    t = x.max(1)
    e = np.exp(x - t[:, None])
    s = e.sum(1)
    return e / s[:, None], s, t


@pytest.mark.parametrize("function", [returned_sum, read_twice, returned_maximum])
def test_an_accumulation_runs_once(function):
    """Upstream copies a nest whose result stays into each nest that reads it."""
    x = np.random.default_rng(4).uniform(0, 1, (6, 7))
    for mine, other in zip(mt.jit(function, pipeline="poly")(x), function(x), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


def gated(x, w, v):
    return (x @ w) / (1 + np.exp(-(x @ v)))


def test_kernels_are_counted_and_timed_as_polyhedral_passes_leave_them():
    """One nest is left of three; clocks that stand between the three would time none of it."""
    x, w, v = (np.full((16, 16), value, np.float32) for value in (0.1, 0.2, 0.3))
    found = mt.compare(gated, x, w, v, pipelines=("mlir", "poly"), repeat=1, profile=True)
    assert [(row.kernels, len(row.launches)) for row in found.rows[:2]] == [(3, 3), (1, 1)]
    # The two products are single numbers between the loops now.
    assert found["poly"].bytes == 4 * 16 * 16 * 4 + 2 * 4
