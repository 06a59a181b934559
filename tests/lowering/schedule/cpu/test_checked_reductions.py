"""Sums and extrema of rows of open length: the fast version, and the exact one where its result is in doubt."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mlirtri as mt

ROWS, COLUMNS = mt.dyn["M"], mt.dyn["N"]
LENGTHS = (0, 1, 15, 127, 128, 129, 1000, 1024, 1100, 2085)
LARGEST = np.finfo(np.float32).max


@mt.jit
def sums_and_maxima(a: mt.Tensor[[ROWS, COLUMNS], mt.float32]):
    return a.sum(axis=1), a.max(axis=1, initial=-np.inf), a.min(axis=1, initial=np.inf)


@mt.jit
def sums(a: mt.Tensor[[ROWS, COLUMNS], mt.float32]):
    return a.sum(axis=1)


@mt.jit
def apply(a: mt.Tensor[[ROWS, COLUMNS], mt.float32], x: mt.Tensor[[COLUMNS], mt.float32]):
    return a @ x


@mt.jit
def sum_in_a_loop(a: mt.Tensor[[COLUMNS], mt.float32]):
    total = mt.float64(0.0)
    for i in range(a.shape[0]):
        total += mt.float64(a[i])
    return mt.float32(total)


@mt.jit
def softmax(a: mt.Tensor[[ROWS, COLUMNS], mt.float32]):
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@mt.jit
def first_positions(a: mt.Tensor[[ROWS, COLUMNS], mt.float32]):
    return a.argmax(axis=1), a.argmin(axis=1)


@mt.jit
def normalized(a: mt.Tensor[[ROWS, COLUMNS], mt.float32], scale: mt.Tensor[[COLUMNS], mt.float32]):
    centered = a - a.mean(axis=1, keepdims=True)
    return centered / np.sqrt((centered * centered).mean(axis=1, keepdims=True) + np.float32(1e-5)) * scale


def _rows(length: int) -> np.ndarray:
    rows = np.random.default_rng(length).standard_normal((7, length), np.float32)
    if length:
        rows[0, -1] = rows[1, length // 2] = np.nan
        rows[2, -1] = np.inf
        rows[3, 0] = -np.inf
        rows[4, :] = LARGEST
        rows[4, ::2] = -LARGEST
        rows[5, :] = -0.0
        rows[6, 0], rows[6, -1] = np.nan, np.inf
    return rows


def test_rows_of_all_lengths_with_special_numbers():
    for length in LENGTHS:
        rows = _rows(length)
        sums, maxima, minima = sums_and_maxima(rows)
        wide = rows.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            assert_allclose(sums, wide.sum(axis=1).astype(np.float32), rtol=2e-6, atol=2e-6 * max(1, length))
        assert_array_equal(maxima, rows.max(axis=1, initial=-np.inf))
        assert_array_equal(minima, rows.min(axis=1, initial=np.inf))
    assert sums_and_maxima.compiles == 1


def test_sums_of_rows_in_groups():
    for length in LENGTHS:
        # The first rows are a block without special numbers, the last ones are no whole group.
        rows = np.concatenate([np.full((64, length), 0.5, np.float32), _rows(length)])
        with np.errstate(invalid="ignore", over="ignore"):
            expected = rows.astype(np.float64).sum(axis=1).astype(np.float32)
        assert_allclose(sums(rows), expected, rtol=2e-6, atol=2e-6 * max(1, length))
    assert "for group in" in sums.compile(rows).ir["scheduled"]


def test_rows_without_a_check_in_groups():
    for rows, columns in ((0, 5), (3, 70), (21, 5), (37, 200), (16, 1)):
        a, x = (np.random.default_rng(rows).standard_normal(shape, np.float32) for shape in ((rows, columns), columns))
        assert_allclose(apply(a, x), a.astype(np.float64) @ x, rtol=1e-5, atol=1e-5)
    assert "for group in" in apply.compile(a, x).ir["scheduled"]


def test_a_block_that_overflows_is_added_again_in_fp64():
    rows = np.zeros((1, 2048), np.float32)
    rows[0, :1024:64], rows[0, 1024::64] = LARGEST, -LARGEST
    rows[0, 1] = 5
    sums, _, _ = sums_and_maxima(rows)
    assert_array_equal(sums, [5])


def test_sums_that_a_loop_carries_in_fp64_stay_in_fp64():
    numbers = np.zeros(1024, np.float32)
    numbers[:3] = 2.0**30, 1.0, -(2.0**30)
    numbers[64] = 1.0
    numbers[128] = -1.0
    assert sum_in_a_loop(numbers) == np.float32(1.0)


@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (5, 1031)])
def test_the_passes_over_one_row_are_one_nest(shape):
    rows = np.random.default_rng(1).standard_normal(shape, np.float32)
    exponentials = np.exp(rows - rows.max(axis=1, keepdims=True))
    assert_allclose(softmax(rows), exponentials / exponentials.sum(axis=1, keepdims=True), rtol=1e-5)
    text = softmax.compile(rows).ir["scheduled"]
    assert text.count("in T.serial(n,") == 1


def test_softmax_of_rows_with_special_numbers_and_of_all_lengths():
    for length in LENGTHS[1:]:
        rows = _rows(length)
        with np.errstate(invalid="ignore", over="ignore"):
            exponentials = np.exp(rows - rows.max(axis=1, keepdims=True))
            expected = exponentials / exponentials.sum(axis=1, keepdims=True)
            assert_allclose(softmax(rows), expected, rtol=1e-5, atol=1e-30)
    assert softmax.compiles == 1


def test_the_first_of_equal_extrema_wins_and_nan_is_one():
    for length in LENGTHS[1:]:
        rows = np.concatenate([_rows(length), np.zeros((2, length), np.float32), -_rows(length)])
        rows[-1, length // 3 :: 7] = 9
        positions = first_positions(rows)
        assert_array_equal(positions[0], rows.argmax(axis=1))
        assert_array_equal(positions[1], rows.argmin(axis=1))
    assert first_positions.compiles == 1


def test_a_cheap_difference_is_computed_by_each_reader():
    for shape in ((1, 3), (4, 300), (3, 1030)):
        rows = np.random.default_rng(2).standard_normal(shape, np.float32)
        scale = rows[0] + 1
        centered = rows - rows.mean(axis=1, keepdims=True)
        expected = centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-5) * scale
        assert_allclose(normalized(rows, scale), expected, rtol=1e-4, atol=1e-5)
    text = normalized.compile(rows, scale).ir
    assert text["fused"].count("arith.subf") == 2
    assert "llvm.prefetch" in text["scheduled"]


@mt.jit(semantics="numpy")
def places(x: mt.Tensor[[ROWS, COLUMNS], None]):
    return np.argmax(x), np.argmin(x, 1)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_places_of_run_time_sizes_are_those_of_the_first(dtype, monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "1")
    kernel = places.compile(mt.Tensor((mt.dyn, mt.dyn), getattr(mt, dtype)))
    # Among the extrema of rows, in the row that is found, and in each row.
    assert kernel.ir["scheduled"].count("while position") == 3
    random = np.random.default_rng(0)
    for shape in [(1, 1), (3, 700), (130, 65), (200, 64), (2, 5)]:
        x = random.integers(-9, 9, shape).astype(dtype)  # many equal ones
        check_places(x)
        x[shape[0] // 2, -1] = x[-1, shape[1] // 3] = 100
        check_places(x)
        if dtype == "float32":
            x[-1, 0] = x[shape[0] // 3, -1] = np.nan
            check_places(x)
            check_places(np.full(shape, -np.inf, dtype))


def check_places(x):
    place, of_rows = places(x)
    assert place == x.argmax()
    assert_array_equal(of_rows, x.argmin(1))


@pytest.mark.parametrize("offset", [0, 5, -3, 2**63 - 70, -(2**63)])
def test_first_index_with_an_offset_that_may_wrap(offset):
    @mt.jit(semantics="numpy")
    def first(x: mt.Tensor[[COLUMNS], mt.float32], offset: mt.int64):
        smallest = np.int64(2**63 - 1)
        for k in range(x.shape[0]):
            smallest = min(smallest, offset + k if x[k] > 0 else np.int64(2**63 - 2))
        return smallest

    for hits in ([], [3], [99], [70, 150], [0, 199]):
        x = np.zeros(200, np.float32)
        x[hits] = 1
        with np.errstate(over="ignore"):
            expected = min([np.int64(2**63 - 2), *(np.int64(offset) + np.arange(200)[hits])])
        assert first(x, offset) == expected, hits
