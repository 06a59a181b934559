"""Parallel loops under conditions on remainders, such as the colours of a red-black relaxation, against Python."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import LoopDependenceError


def coloured(a, colour: mt.int64):
    for i in mt.prange(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            if (i + j) % 2 == colour:
                a[i, j] = (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) * 0.25


def every_other(a, colour: mt.int64):
    for i in mt.prange(1, a.shape[0] - 1):
        for j in range(1 + (i + colour) % 2, a.shape[1] - 1, 2):
            a[i, j] += 0.5 * (a[i - 1, j] + a[i + 1, j] - 2 * a[i, j])


def skipped(a, colour: mt.int64):
    for i in mt.prange(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            if (i + j) % 2 != 0:
                continue
            a[i, j] = a[i - 1, j] + a[i, j + 1] + colour


def one_of_three(a, colour: mt.int64):
    for i in mt.prange(1, a.shape[0] - 1):
        if i % 3 == 1 and colour < 7:
            a[i, 0] = a[i - 1, 0] + a[i + 1, 0]


def both_arms(a, colour: mt.int64):
    for i in mt.prange(3, a.shape[0] - 1):
        if i % 2 == 0:
            a[i, 0] = colour
        else:
            a[i, 1] = a[i - 2, 0]


def step_of_two(a, colour: mt.int64):
    for i in mt.prange(1, a.shape[0] - 1, 2):
        a[i, 0] = a[i - 1, 0] + a[i + 1, 0]


INDEPENDENT = (coloured, every_other, skipped, one_of_three, both_arms, step_of_two)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize("function", INDEPENDENT, ids=lambda function: function.__name__)
def test_independent_loops_run_on_threads(function, pipeline):
    for colour in (0, 1):
        found = np.random.default_rng(0).random((40, 30))
        expected = found.copy()
        kernel = mt.jit(function, pipeline=pipeline).compile(found, colour)
        kernel(found, colour)
        function(expected, colour)
        np.testing.assert_allclose(found, expected)
        assert [task.kind for task in kernel.tasks] == ["range_for"]


def diagonal(a, colour: mt.int64):
    for i, j in mt.ndrange((1, 9), (1, 11)):
        if (i + j) % 2 == colour:
            a[i, j] = a[i - 1, j - 1]


def multiple_of_three(a, colour: mt.int64):
    for i in mt.prange(3, 9):
        if i % 3 == colour:
            a[i, 0] = a[i - 3, 0]


def two_of_three(a, colour: mt.int64):
    for i in mt.prange(3, 9):
        if i % 3 != 1:
            a[i, 0] = a[i - 1, 0]


def not_a_run_time_colour(a, colour: mt.int64):
    for i in mt.prange(3, 9):
        if i % 2 != colour:
            a[i, 0] = a[i - 1, 0]


def one_of_two_conditions(a, colour: mt.int64):
    for i in mt.prange(3, 9):
        if i % 2 == 1 or i > 5:
            a[i, 0] = a[i - 1, 0]


def changing_colour(a, colour: mt.int64):
    for i in mt.prange(3, 9):
        for k in range(2):
            if (i + k) % 2 == 1:
                a[i, 0] = a[i - 1, 0]


def quotient(a, colour: mt.int64):
    for i in mt.prange(3, 9):
        if (i // 2) % 2 == 1:
            a[i, 0] = a[i - 1, 0]


def scaled(a, colour: mt.int64):
    for i in mt.prange(1, 5):
        if i % 2 == 1:
            a[2 * i, 0] = a[i, 0]


def wrapped_around(a, colour: mt.int64):
    for i in mt.prange(512):
        a[np.uint8(i), 0] = i


DEPENDENT = (diagonal, multiple_of_three, two_of_three, not_a_run_time_colour, one_of_two_conditions, changing_colour,
             quotient, scaled, wrapped_around)  # fmt: skip


@pytest.mark.parametrize("function", DEPENDENT, ids=lambda function: function.__name__)
def test_dependent_loops_are_refused(function):
    with pytest.raises(LoopDependenceError, match="'a' is written here"):
        mt.jit(function).compile(np.zeros((300, 12)), 1)
