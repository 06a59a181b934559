"""Sums over rows, for all columns of arrays whose sizes are known at run time only: in strips of columns."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt

M, K = mt.dyn["M"], mt.dyn["K"]
COLUMNS = (1, 7, 63, 64, 127, 128, 129, 255, 513, 1000, 1025)
ROWS = (0, 1, 3, 4, 9, 200, 5000)


def over_rows(a: mt.Tensor[[M, K], mt.float32], v: mt.Tensor[[M], mt.float32]):
    return a.sum(0), v @ a, (np.abs(a) + 1).sum(0)


def known_columns(a: mt.Tensor[[M, 129], mt.float32], v: mt.Tensor[[M], mt.float32]):
    return a.sum(0), v @ a


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("function", [over_rows, known_columns])
def test_sums_over_rows(function, threads, monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", threads)
    kernel, generator = mt.jit(function, semantics="numpy").compile(), np.random.default_rng(0)
    assert "for strip in " in kernel.ir["scheduled"]
    for rows in ROWS:
        for columns in COLUMNS if function is over_rows else (129,):
            a, v = generator.random((rows, columns), np.float32), generator.random(rows, np.float32)
            for got, want in zip(kernel(a, v), function(a, v), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_the_chunks_of_a_sum_of_all_elements_are_in_vectors():
    @mt.jit(semantics="numpy")
    def total(a: mt.Tensor[[M, K], mt.float32]):
        return a.sum(), np.abs(a).max(initial=0)

    kernel, generator = total.compile(), np.random.default_rng(0)
    chunks = kernel.ir["scheduled"].partition("carried")[2]
    assert "T.vectorized" in chunks.partition("temporary_1[i")[0]
    for shape in ((0, 4), (1, 1), (63, 3), (64, 129), (65, 1000), (1000, 7)):
        a = generator.random(shape, np.float32)
        for got, want in zip(kernel(a), (a.sum(dtype=np.float64), np.abs(a).max(initial=0)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_product_of_matrices_has_its_own_tiles():
    @mt.jit(semantics="numpy")
    def product(a: mt.Tensor[[M, K], mt.float32], b: mt.Tensor[[K, 512], mt.float32]):
        return a @ b

    assert "for strip in " not in product.compile().ir["scheduled"]
