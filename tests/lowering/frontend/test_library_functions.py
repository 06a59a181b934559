"""Functions of NumPy that are written in the kernel language, against NumPy."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from combinations import in_turn

import mlirtri as mt

SMALL, OTHER = np.array([-128, -128, 127, 0, 0, 12], np.int8), np.array([-128, 96, 1, 0, 5, 18], np.int8)
REPEATED = np.array([0, 2, 0, 1, -1])
EXPONENTS = np.array([3, -1070, -1080, 1023, -2300, 2200], np.int32)
FLOATS = np.array([-0.0, 1.7, 2.0**60, 1.5, np.nan, 2.0**-1070])


def divisors(x, y):
    return np.gcd(x, y), np.lcm(x, y), np.gcd(x, 12), np.gcd(x[0], y[1]), np.lcm(x, 4), np.gcd(12, 18)


def distinct(x, y):
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    return values, first, inverse, counts, values[inverse], np.unique(y, return_counts=True)


def at_indices(a, table, i, values):
    np.maximum.at(a, i, values)
    np.minimum.at(a, i, 3.0)
    np.multiply.at(a, [0, 0, -1], 2)
    np.add.at(table, i, 1)
    np.multiply.at(table, (i, i), values)
    return a


def scaled(x, exponents):
    return np.ldexp(x, exponents), np.ldexp(x.astype(np.float32), exponents)


def sets(x, y):
    return (
        np.union1d(x, y), np.intersect1d(x, y), np.setxor1d(x, y), np.setdiff1d(x, [0]), np.unique_counts(x),
        np.trim_zeros(y), np.sort_complex(x), np.ediff1d(x, to_begin=0, to_end=[1, 2]),
    )  # fmt: skip


def of_functions(table):
    return (
        np.fromfunction(lambda i, j: i + 2 * j, (2, 3)),
        np.apply_along_axis(lambda row: row[::-1].cumsum(), 0, table),
        np.apply_along_axis(np.max, 1, table), np.max(table[:0], axis=0, initial=2.0), np.float64(table.item(1, 2)),
        np.var(table, axis=1, where=table > 2), np.cumulative_sum(table, axis=1, include_initial=True),
        np.quantile(table, [0.3, 0.9], axis=1, method="hazen"),
        np.percentile(table.astype(np.int8), 30, method="nearest"),
        np.quantile(table, 0.3, method="midpoint"), np.quantile(table, [0.3], axis=0, method="lower"),
        np.round(np.linalg.norm(table, "nuc") - np.linalg.norm(table, 2), 9), np.linspace([0, 1], table[0, :2], 3),
    )  # fmt: skip


def of_numbers(x):
    n = int(x[2])
    return (
        np.array([n.bit_length(), (-n).bit_count(), (5).bit_length(), sum(b"ab"), b"abc"[x[5] - 11]]),
        np.frombuffer(b"abc", np.uint8), np.int64(max(int(x[0]), 3)), np.bool_(np.array_equal(x, x) is True),
    )  # fmt: skip


def stored_extrema(x):
    narrow = np.zeros(3, np.int8)
    for i in range(3):
        narrow[i] = max(x[i], np.int64(-5))
        narrow[i] = min(100, narrow[i])
    return narrow


CASES = [
    (sets, (np.array([3, 1, 3, 0]), np.array([0, 2, 1, 0]))),
    (of_functions, (np.arange(12.0).reshape(3, 4),)),
    (of_numbers, (SMALL,)),
    (stored_extrema, (SMALL,)),
    (divisors, (SMALL, OTHER)),
    (divisors, (np.array([[12], [9]], np.uint16), np.array([18, 12, 0], np.uint16))),
    (distinct, (np.array([[3, 1, 2], [1, 3, 3]]), np.array([np.nan, 1.5, np.nan, -0.0, 0.0]))),
    (at_indices, (np.zeros(3), np.ones((3, 4)), REPEATED, np.array([5.0, -1, 7, 2, 9]))),
    (scaled, (FLOATS, EXPONENTS)),
]


def same(result, expected):
    if isinstance(expected, tuple):
        assert len(result) == len(expected)
        for mine, other in zip(result, expected, strict=True):
            same(mine, other)
    else:
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize(
    ("case", "pipeline"), [*((case, "interpreter") for case in CASES), *in_turn(CASES, ["linalg", "mlir"])]
)
def test_library_functions(case, pipeline):
    function, arguments = case
    ours, plain = deepcopy(arguments), deepcopy(arguments)
    same(mt.jit(function, pipeline=pipeline)(*ours), function(*plain))
    same(ours, plain)


def summed(x):
    return sum(x), sum(x, 3), sum(x, 1.5), sum(x[:0], 2), x[0] ** 2, np.ldexp(1.5, 2)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("x", [np.array([200, 100], np.uint8), np.array([100, 100], np.int8), np.array([True, True])])
def test_pythons_sum_wraps_around_in_the_dtype_of_the_elements(x):
    for mine, other in zip(mt.jit(summed, pipeline="mlir")(x), summed(x), strict=True):
        assert type(mine) is type(other)
        assert mine == other


def ordered(x):
    values, first, inverse = np.unique(x, return_index=True, return_inverse=True)
    order = np.argsort(x, kind="stable")
    return order, np.argsort(order), values, first, inverse, np.sort(x)


@pytest.mark.parametrize(("dtype", "pipeline"), [("int64", "linalg"), ("uint64", "mlir"), ("float64", "mlir")])
def test_more_elements_than_a_block_are_sorted_beside_their_positions(dtype, pipeline):
    # Keys of the dtype of positions once shared their memory.
    x = (np.random.default_rng(7).permutation(99)[:67] % 40).astype(dtype)
    for mine, other in zip(mt.jit(ordered, pipeline=pipeline)(x), ordered(x), strict=True):
        np.testing.assert_array_equal(mine, other)
