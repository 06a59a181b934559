"""Sums over rows of run-time sizes, several rows at a time in fp32: their error, and what overflows there."""

import numpy as np
import pytest

import mlirtri as mt

ROWS, COLUMNS = mt.dyn["n"], mt.dyn["m"]


@mt.jit
def column_sums(a: mt.Tensor[[ROWS, COLUMNS], mt.float32]):
    return a.sum(axis=0)


@mt.jit
def half_column_sums(a: mt.Tensor[[ROWS, COLUMNS], mt.float16]):
    return np.sum(a, axis=0, dtype=np.float32)


@pytest.fixture(autouse=True, params=[1, 2], ids=["one thread", "two threads"])
def threads(request, monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", str(request.param))


@pytest.mark.parametrize(("rows", "columns"), [(0, 300), (1, 256), (7, 1024), (8, 1300), (61, 2049)])
def test_sums_are_as_exact_as_their_blocks(rows, columns):
    a = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    bound = 9 * 2.0**-24 * np.abs(a.astype(np.float64)).sum(0) + 1e-30
    assert np.all(np.abs(column_sums(a) - a.astype(np.float64).sum(0)) <= bound)
    halves = a.astype(np.float16)
    assert np.all(np.abs(half_column_sums(halves) - halves.astype(np.float64).sum(0)) <= bound * 1.01)


def test_a_block_that_overflows_is_summed_again():
    a = np.zeros((16, 1100), np.float32)
    a[:8, 5], a[8:, 5] = 3e38, -3e38  # infinite after two rows in fp32
    a[3, 300], a[4, 1030], a[5, 1030], a[2, 1099] = np.nan, np.inf, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64).sum(0).astype(np.float32)
    np.testing.assert_array_equal(column_sums(a), expected)


def test_strips_of_columns_add_rows_in_fp32():
    text = column_sums.compile(np.ones((2, 2), np.float32)).ir["scheduled"]
    assert "temporary_sums = T.alloc_buffer" in text
