"""Scalar loops branch past the checks of loaded indices, and find those that are outside."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt


def histogram(values, weights, counts, sums):
    for i in mt.prange(values.shape[0]):
        counts[values[i]] += 1
        sums[values[i], i % 3] += weights[i]


@pytest.mark.parametrize("wrong", [None, 5, 3_000, 4_687, 299_999, 300_000])
def test_indices_inside_are_branches_past_the_checks(wrong):
    random_values = np.random.default_rng(0)
    values, weights = random_values.integers(0, 70, 300_001), random_values.integers(0, 9, 300_001)
    values[100_000:100_010] = -random_values.integers(1, 71, 10)  # from the end
    counts, sums = np.zeros(70, np.int64), np.zeros((70, 3), np.int64)
    kernel = mt.jit(histogram).compile(values, weights, counts, sums)
    assert "llvm.expect" in kernel.ir["scheduled"]
    if wrong is not None:
        for outside in (70, -71, 2**62):
            values[wrong] = outside
            with pytest.raises(mt.KernelError, match="an index is out of bounds"):
                kernel(values, weights, counts, sums)
        return
    kernel(values, weights, counts, sums)
    want_counts, want_sums = np.zeros_like(counts), np.zeros_like(sums)
    np.add.at(want_counts, values, 1)
    np.add.at(want_sums, (values, np.arange(300_001) % 3), weights)
    np.testing.assert_array_equal(counts, want_counts)
    np.testing.assert_array_equal(sums, want_sums)


def rows_times(starts, columns, values, x):
    y = np.zeros(starts.shape[0] - 1, values.dtype)
    for i in range(starts.shape[0] - 1):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total
    return y


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("is_open", [False, True])
def test_rows_of_a_sparse_matrix_from_either_end(dtype, is_open):
    random_values = np.random.default_rng(0)
    starts = np.array([0, 3, 3, 20, 50], dtype)
    columns = random_values.integers(-7, 7, 50).astype(dtype)
    values, x = random_values.standard_normal(50), random_values.standard_normal(7)
    types = [mt.Tensor((mt.dyn,), array.dtype) for array in (starts, columns, values, x)]
    arrays = (starts, columns, values, x)
    kernel = mt.jit(rows_times, semantics="numpy").compile(*(types if is_open else arrays))
    assert "llvm.expect" in kernel.ir["scheduled"]
    np.testing.assert_allclose(kernel(*arrays), rows_times(*arrays), atol=1e-13)
    ends = np.array([-50, -40, -3, 0, 2], dtype)  # a row from -3 to 0, and one over the end
    np.testing.assert_allclose(kernel(ends, *arrays[1:])[:3], rows_times(ends, *arrays[1:])[:3], atol=1e-13)
    for wrong, position in ((7, 49), (-8, 0), (np.iinfo(dtype).min, 25)):
        outside = columns.copy()
        outside[position] = wrong
        with pytest.raises(mt.KernelError, match="an index is out of bounds"):
            kernel(starts, outside, values, x)
    for wrong in (51, np.iinfo(dtype).max):
        with pytest.raises(mt.KernelError, match="out of bounds"):
            kernel(np.array([0, 3, 3, 20, wrong], dtype), columns, values, x)


def scattered(rows, columns, values, out):
    for i in range(rows.shape[0]):
        out[rows[i], columns[i]] += values[i]


@pytest.mark.parametrize("size", [7, 4_096, 9_001])
def test_updates_at_loaded_indices_fetch_lines_of_large_arrays(size):
    random_values = np.random.default_rng(0)
    rows, columns = random_values.integers(-300, 300, (2, size))
    values, out = random_values.integers(0, 9, size).astype(np.float32), np.zeros((300, 300), np.float32)
    kernel = mt.jit(scattered).compile(rows, columns, values, out)
    assert ("llvm.prefetch" in kernel.ir["scheduled"]) == (size >= 4_096)
    kernel(rows, columns, values, out)
    expected = np.zeros_like(out)
    np.add.at(expected, (rows, columns), values)
    np.testing.assert_array_equal(out, expected)
    columns[size - 1] = 300
    with pytest.raises(mt.KernelError, match="an index is out of bounds"):
        kernel(rows, columns, values, out)
