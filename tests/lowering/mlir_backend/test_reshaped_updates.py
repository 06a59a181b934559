"""Arrays that a loop updates in another shape: in place, unless the array is read in between."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mlirtri as mt


def rows(y, x):
    flat = y.reshape(30, 4)
    for i in range(2, 30):
        flat[i, 0:2] = x[i] * 2


def rows_beside(y, x):
    for i in range(2, 30):
        flat = y.reshape(30, 4)
        flat[i, 0:2] = x[i] * y[i % 10, 2, 3]
        y[i % 10, 1, 1] = flat[i, 0] + 1


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize("function", [rows, rows_beside])
def test_results_are_those_of_numpy(function, pipeline):
    x = np.random.default_rng(0).random(30)
    want = np.arange(120.0).reshape(10, 3, 4)
    got = want.copy()
    function(want, x)
    mt.jit(function, pipeline=pipeline)(got, x)
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_the_array_is_not_copied():
    text = mt.jit(rows, pipeline="mlir").compile(np.zeros((10, 3, 4)), np.zeros(30)).ir["bufferized"]
    assert "memref<30x4xf64>" in text
    assert not re.search(r"memref.alloca?\(.*memref<30x4xf64>", text)
