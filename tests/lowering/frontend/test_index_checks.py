"""Indices known at run time only raise IndexError at their line where they are outside, in every pipeline."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt

PIPELINES = ("linalg", "relax", "mlir", "interpreter")


def counted(o, n: mt.int32):
    for i in range(n):
        o[i] = o[i] * 2 + 1


def rectangle(o, n: mt.int32, m: mt.int32):
    o = o.reshape(2, 2)
    for i in range(n):
        for j in range(m):
            o[i, j] += 1


def below_diagonal(o, n: mt.int32):
    for i in range(n):
        for j in range(i):
            o[j] += 1


def shifted(o, n: mt.int32, k: mt.int32):
    for i in range(n):
        o[i + k] += 1


def in_steps(o, n: mt.int32):
    for i in range(0, n, 3):
        o[i] += 1


def backwards(o, n: mt.int32):
    for i in range(n - 1, -1, -1):
        o[i] += 1


def with_a_break(o, n: mt.int32):
    for i in range(n):
        if i == 4:
            break
        o[i] += 1


def guarded(o, n: mt.int32):
    for i in range(n):
        if i < o.shape[0] and o[i] < 9:
            o[i] += 1


def while_positive(o, n: mt.int32):
    i = n
    while i >= 0 and o[i] >= 0:
        o[i] = 5
        i -= 1


def while_until_a_break(o, n: mt.int32):
    i = 0
    while o[i] < 9:
        i += 1
        if i == n:
            break


def by_positions(o, positions):
    for i in range(positions.shape[0]):
        o[positions[i]] += 1


def by_array(o, positions):
    o[positions] += o[positions[::-1]]


def one_element(o, n: mt.int32):
    o[0] = o[n]


CALLS = [
    (counted, [(0,), (-3,), (4,), (5,)]),
    (rectangle, [(2, 2), (3, 2), (2, 3), (0, 9), (9, 0)]),
    (below_diagonal, [(0,), (1,), (5,), (6,)]),
    (shifted, [(2, 2), (3, 2), (4, -4), (2, -5), (0, -9), (6, -2)]),
    (in_steps, [(4,), (6,), (7,)]),
    (backwards, [(4,), (5,)]),
    (with_a_break, [(4,), (9,)]),
    (guarded, [(9,)]),
    (while_positive, [(3,), (4,), (-1,)]),
    (while_until_a_break, [(3,), (4,), (5,)]),
    (by_positions, [(np.array([0, -4, 3]),), (np.array([0, 4]),), (np.array([0, -5]),)]),
    (by_array, [(np.array([0, -4, 3]),), (np.array([0, 4]),), (np.array([0, -5]),)]),
    (one_element, [(3,), (-4,), (4,), (-5,)]),
]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("function", "calls"), CALLS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_position_outside_raises_where_python_does(function, calls, pipeline):
    kernel = mt.jit(function, pipeline=pipeline)
    for arguments in calls:
        expected, result = np.arange(4.0), np.arange(4.0)
        try:
            function(expected, *arguments)
        except IndexError:
            with pytest.raises(IndexError, match="out of bounds for") as caught:
                kernel(result, *arguments)
            assert caught.value.span.line > function.__code__.co_firstlineno
        else:
            kernel(result, *arguments)
            np.testing.assert_array_equal(result, expected)


def test_a_loop_is_checked_once_and_names_the_line():
    def scaled(o, a, n: mt.int32):
        for i in range(n):
            o[i] = 2 * a[i]

    o, a = np.zeros(4), np.ones(3)
    kernel = mt.jit(scaled).compile(o, a, 3)
    loop = kernel.ir["tri"].partition("scf.for")[2]
    assert "tri.greater" not in loop
    assert "tri.minimum" not in loop
    with pytest.raises(IndexError, match="axis 0 of size 3") as caught:
        mt.jit(scaled)(o, a, 4)
    assert caught.value.span.line == scaled.__code__.co_firstlineno + 2
    np.testing.assert_array_equal(o, np.zeros(4))  # the loop did not start


def test_what_is_proved_is_not_checked():
    def stencil(o, a, n: mt.int32):
        for k in range(n):
            for i in range(1, a.shape[0] - 1):
                o[i] = a[i - 1] + a[i + 1] + a[-i] + k
        for i in range(o.shape[0]):
            o[i - 1] += a[i - 3]

    a = np.arange(6.0)
    expected, result = np.zeros(6), np.zeros(6)
    stencil(expected, a, 2)
    kernel = mt.jit(stencil).compile(result, a, 2)
    kernel(result, a, 2)
    np.testing.assert_array_equal(result, expected)
    assert "tri.greater" not in kernel.ir["tri"]


def test_ranges_of_values_prove_positions():
    def lookups(table, codes, n: mt.int32):
        order = np.argsort(codes)
        return table[codes], table[codes[order] & 7], table[np.clip(codes - 3, -256, 255)], table[n % 9], table[::n]

    table, codes = np.arange(256.0), np.array([255, 0, 7], np.uint8)
    kernel = mt.jit(lookups).compile(table, codes, 5)
    text = kernel.ir["tri"]
    assert "tri.greater_equal" not in text
    for result, expected in zip(kernel(table, codes, 5), lookups(table, codes, 5), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_what_and_does_not_evaluate_is_not_checked():
    def quotient(x, n: mt.int32):
        return x[0] > 0 and x[n] > 0, n != 0 and x[1] // n > 1

    kernel = mt.jit(quotient)
    assert kernel(torch.tensor([0, 4]), 2) == (False, True)
    assert kernel(torch.tensor([0, 4]), 0) == (False, False)
    with pytest.raises(IndexError):
        kernel(torch.tensor([1, 4]), 2)


def test_a_loop_that_a_failed_check_would_not_let_end():
    def until(o, n: mt.int32):
        total = 0.0
        while total < 1:
            total += o[n]
        return total

    assert mt.jit(until)(np.ones(4), 3) == 1
    with pytest.raises(IndexError, match="size 4"):
        mt.jit(until)(np.zeros(4), 4)


def test_the_first_of_several_failed_checks_is_raised():
    def pick(a, n: mt.int32, m: mt.int32):
        first = a[n]
        return first + a[m]

    kernel = mt.jit(pick)
    for arguments, line in (((4, 0), 1), ((0, 4), 2), ((4, 4), 1)):
        with pytest.raises(IndexError) as caught:
            kernel(np.zeros(4), *arguments)
        assert caught.value.span.line == pick.__code__.co_firstlineno + line


def test_torch_tensors_and_views():
    def rows(x, index):
        row = x[index[0]]
        row += 1
        return x[index]

    x, index = torch.zeros(3, 2), torch.tensor([2, -3])
    assert mt.jit(rows)(x, index).sum() == 2
    with pytest.raises(IndexError):
        mt.jit(rows)(x, torch.tensor([0, 3]))
