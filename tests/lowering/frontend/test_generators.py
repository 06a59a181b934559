"""Generators that builtins consume: loops where their length or condition is known at run time only."""

from __future__ import annotations

import numpy as np
import pytest
from python_programs import check_program, every_program, on

import mlirtri as mt

LONG = np.random.default_rng(0).standard_normal(30)


@on(LONG)
@on(np.arange(40, dtype=np.float32))
@on(np.arange(3, dtype=np.uint8))
def of_elements(a):
    counted = sum(1 for x in a if 2 < x <= 6 != 5), any(x > 2 for x in a), all(x > -1 for x in a if x != 3)
    return *counted, sum(x * x for x in a), max(x * 2 for x in a), sum((x for x in a), 5)


@on(LONG, 3)
@on(np.arange(30.0), 7)
def of_a_range(a, n):
    pairs = sum(a[i] * a[j] for i in mt.serial(n) for j in range(i) if (i + j) % 2)
    return pairs, max(abs(a[i]) for i in range(n)), min(-i * i for i in range(n)), any(a[i] > 1 for i in range(n))


@on(LONG[:6])
def mapped(a):
    double = lambda v: v * 2  # noqa: E731
    known = list(filter(None, (0, 1, 2, 0, 3))), tuple(map(abs, (-1, 2)))
    runtime = sum(map(double, a)), sum(filter(lambda x: x > 0, a)), max(map(abs, a)), any(map(np.isnan, a))
    return *known, *runtime, sum(map(lambda x, y: x * y, a, a[::-1])), np.array(list(map(double, a)))


@on(LONG.reshape(6, 5))
def of_rows(a):
    return sum(row for row in a), sum(np.roll(a, i, 0) for i in range(3)), max(row.max() for row in a if row[0] > 0)


@on(np.array([1.25, 314.159, 1e20, np.nan]), 1)
@on(np.array([155, 25, -3]), 2)
def rounded(a, digits):
    return np.round(a, digits), round(a[1], digits), round(a[1], -1)


@every_program(__name__)
def test_results_are_pythons(function, arguments, pipeline):
    check_program(function, arguments, pipeline)


def test_a_generator_of_run_time_length():
    def largest(a, n: mt.int64):
        return max(a[i] for i in range(n)), sum(i * a[i] for i in range(n) if a[i] > 0)

    expected = LONG[:7].max(), sum(i * LONG[i] for i in range(7) if LONG[i] > 0)
    np.testing.assert_allclose(mt.jit(largest)(LONG, 7), expected, rtol=1e-14)
    for pipeline in (None, "interpreter"):
        with pytest.raises(ValueError, match=r"max\(\) iterable argument is empty"):
            mt.jit(largest, pipeline=pipeline)(LONG, 0)


@pytest.mark.parametrize("digits", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_rounding_to_decimals_of_run_time(dtype, digits):
    @mt.jit
    def to_decimals(a, digits: mt.int64):
        return np.round(a, digits), round(a[0], digits)

    a = np.array([155.375, -25.5, 2.675, 0.5, 1e15]).astype(dtype)
    for result, expected in zip(to_decimals(a, digits), (np.round(a, digits), round(a[0], digits)), strict=True):
        np.testing.assert_array_equal(result, expected, strict=True)


def test_rounding_of_a_python_float_is_refused():
    with pytest.raises(mt.KernelError, match=r"round\(\) of a tensor float64\[\] to digits is not supported"):
        mt.jit(lambda x: round(x, 2))(2.675)
