"""What no iteration of a loop changes is computed before it, where that is worth a buffer."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt

X, W = np.linspace(-1, 1, 12).reshape(3, 4), np.linspace(-0.5, 0.5, 16).reshape(4, 4)


def dense(x, w, n):
    y = x.copy()
    for _ in range(n):
        y = np.tanh(y @ w.T) + np.sum(w, 1)
    return y


def until(x, w, n):
    y = x.copy()
    while np.abs(y).max() > 0.01 * n:
        y = y @ w.T * np.exp(w).sum() / 40
    return y


def nested(x, w, n):
    y = x.copy()
    for _ in range(n):
        for _ in range(n):
            y = y + x @ w
    return y


def moved(kernel) -> str:
    """The function of stage `fused` up to its first loop."""
    return kernel.ir["fused"].partition("scf.")[0]


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize(("function", "count"), [(dense, 2), (until, 2), (nested, 1)])
def test_what_no_iteration_changes_is_computed_before_the_loop(function, count, pipeline):
    kernel = mt.jit(function, pipeline=pipeline).compile(X, W, 7)
    before = moved(kernel)
    assert before.count("linalg.generic") + before.count("linalg.matmul") == count
    np.testing.assert_allclose(kernel(X, W), function(X, W, 7), rtol=1e-12)


def written(x, w, n):
    y = x.copy()
    for i in range(n):
        y = y @ w.T
        w[0, 0] += 0.5
    return y


def cheap(x, w, n):
    y = x.copy()
    for _ in range(n):
        y = y * (x + 1) + x[:, :1]
    return y


def by_index(x, w, n):
    y = x.copy()
    for _ in range(n):
        y = y + w[np.array([0, 1, 0])].sum(0)
    return y


@pytest.mark.parametrize("function", [written, cheap])
def test_what_is_written_or_cheap_stays(function):
    kernel = mt.jit(function, pipeline="linalg").compile(X, W, 7)
    assert "linalg.generic" not in moved(kernel)
    ours, plain = W.copy(), W.copy()
    np.testing.assert_allclose(kernel(X, ours), function(X, plain, 7), rtol=1e-12)
    np.testing.assert_array_equal(ours, plain)


@pytest.mark.parametrize("function", [dense, nested, by_index])
def test_loops_without_iterations(function):
    np.testing.assert_array_equal(mt.jit(function, pipeline="mlir")(X, W, 0), function(X, W, 0))
