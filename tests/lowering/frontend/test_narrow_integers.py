"""Narrow and unsigned dtypes beside Python ints, and their arithmetic: NumPy's numbers, or its refusal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from python_programs import check_program, every_program, on

import mlirtri as mt

BYTES = np.frombuffer(b"12+34*2", np.uint8).copy()


@on(BYTES)
def parsed(text):
    """A loop-carried Python int becomes a uint8 in one arm and is 0 in the other."""
    number, last = 0, 0
    for c in text:
        if 48 <= c <= 57:
            number = number * 10 + (c - 48)
        else:
            number, last = 0, number
    return number, last


@on(np.array([1, 200], np.uint8), 305)
@on(np.array([1, -56], np.int8), 300)
@on(np.array([1, 200], np.uint64), 7)
def compared(a, n):
    """A run-time Python int is compared by value, also where the array's dtype does not hold it."""
    count = 0
    for i in mt.serial(n):
        count += (a > i - 100).sum() + (a == -i).sum() + 3 * (i < a[::-1]).sum()
        if i - 10 <= a[1] or a[0] == i - 255:
            count += 1000
    return count


@every_program(__name__)
def test_results_are_those_of_numpy(function, arguments, pipeline):
    check_program(function, arguments, pipeline)


def test_a_number_becomes_a_bfloat16():
    def alternating(a, n: mt.int64):
        x = 0
        for i in range(n):
            x = x + a[0] if i % 2 else x * 2
        return x

    assert mt.jit(alternating)(torch.tensor([1.5]).bfloat16(), 5) == alternating(torch.tensor([1.5]).bfloat16(), 5)


@pytest.mark.parametrize(("dtype", "other"), [("uint8", "int64"), ("int32", "float32"), ("float64", "complex64")])
def test_an_update_that_numpy_does_not_cast_is_refused(dtype, other):
    def add(a, b):
        a += b

    a, b = np.ones(3, dtype), np.ones(3, other)
    with pytest.raises(TypeError, match="same_kind"):
        add(a, b)
    with pytest.raises(TypeError, match=r"`a \+= b` is .* which does not fit into 'a'"):
        mt.jit(add)(a, b)
    assert mt.jit(add)(torch.ones(3, dtype=torch.uint8), torch.ones(3, dtype=torch.int64)) is None


@pytest.mark.parametrize("pipeline", ["linalg", "mlir", "relax"])
@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_arithmetic_of_unsigned_integers_wraps(dtype, pipeline):
    kind = np.dtype(dtype).type
    factor, summand = kind(int("5851F42D4C957F2D", 16) % np.iinfo(dtype).max), kind(40503)

    def generator(s):
        for _ in range(3):
            s = s * factor + summand
        return s, (s - s[::-1]) * 3 - 5, (s - 10) // 2, (s - s) // 3, (s - s) / 2, (s + s) // 2

    seeds = np.array([1, 5, np.iinfo(dtype).max - 7], dtype)
    for result, expected in zip(mt.jit(generator, pipeline=pipeline)(seeds), generator(seeds), strict=True):
        np.testing.assert_array_equal(result, expected, strict=True)


def added(a, n):
    return a + int(n[0]), a * 2


def written_in_a_branch(a, n):
    if n[1] > 0:
        a[1] = int(n[0])
    return a


def added_in_a_loop(a, n):
    out, k = np.zeros_like(a), int(n[0])
    for i in range(a.shape[0]):
        out[i] = a[i] + k
    return out


def counted(a, n):
    out = np.zeros(400, a.dtype)
    for i in range(int(n[0])):
        out[i] = i
    return out


def not_evaluated(a, n):
    k = int(n[0])
    return a.sum() if k < 200 and (a + k).sum() > 3 else a.sum() * 2


def clipped(a, n):
    return np.clip(a, 0, int(n[0]))


@pytest.mark.parametrize("pipeline", ["linalg", "mlir", "interpreter"])
@pytest.mark.parametrize("function", [added, written_in_a_branch, added_in_a_loop, counted, not_evaluated, clipped])
def test_a_python_int_of_run_time_fits_or_raises_as_numpys(function, pipeline):
    kernel = mt.jit(function, pipeline=pipeline)
    for number, condition in ((3, 1), (300, 1), (300, 0), (-1, 1)):
        a, n = np.arange(5, dtype=np.uint8), np.array([number, condition])
        try:
            expected = function(a.copy(), n)
        except OverflowError:
            with pytest.raises(OverflowError, match="a Python int does not fit uint8") as caught:
                kernel(a.copy(), n)
            assert caught.value.span.line > function.__code__.co_firstlineno
        else:
            np.testing.assert_array_equal(kernel(a.copy(), n), expected)
