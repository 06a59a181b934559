"""Parallel loops whose strides are known at run time, and loops that exchange pairs: proven independent, or refused."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import LoopDependenceError


def scan_of_blelloch(x, log: mt.int64):
    n = x.shape[0]
    for d in mt.serial(log):
        step = 1 << (d + 1)
        for k in mt.prange(n // step):
            x[k * step + step - 1] += x[k * step + step // 2 - 1] * 3
    x[n - 1] = 0
    for d in mt.serial(log):
        step = 2 ** (log - d)
        for k in mt.prange(n // step):
            i = k * step
            left = x[i + step // 2 - 1]
            x[i + step // 2 - 1] = x[i + step - 1]
            x[i + step - 1] += left


def bitonic_sort(x, log: mt.int64):
    n = x.shape[0]
    k = 2
    while k <= n:
        j = k // 2
        while j > 0:
            for i in mt.prange(n):
                other = i ^ j
                if other > i:
                    if ((i & k) == 0 and x[i] > x[other]) or ((i & k) != 0 and x[i] < x[other]):
                        kept = x[i]
                        x[i] = x[other]
                        x[other] = kept
            j //= 2
        k *= 2


def flat_rows(x, log: mt.int64):
    rows = 1 << log
    columns = x.shape[0] // rows
    for i in mt.prange(rows):
        for j in range(1, columns):
            x[i * columns + j] += x[i * columns + j - 1]


def larger_partner_writes(x, log: mt.int64):
    for d in mt.serial(log):
        mask = 1 << d
        for i in mt.prange(x.shape[0]):
            if i > i ^ mask:
                x[i] = x[i ^ mask] - x[i]


INDEPENDENT = [scan_of_blelloch, bitonic_sort, flat_rows, larger_partner_writes]


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize("function", INDEPENDENT, ids=lambda function: function.__name__)
def test_independent_loops_run_as_python_does(function, pipeline):
    x = np.random.default_rng(0).random(64)
    want = x.copy()
    function(want, 6)
    mt.jit(function, pipeline=pipeline)(x, 6)
    np.testing.assert_allclose(x, want, rtol=1e-12)


def steps_of_one(x, n: mt.int64):
    for d in mt.serial(n):
        step = 1 << d
        for k in mt.prange(x.shape[0] // step):
            x[k * step + step - 1] += x[k * step + step // 2 - 1] * 3


def next_stride(x, n: mt.int64):
    step = 1 << n
    for k in mt.prange(x.shape[0] // step - 1):
        x[k * step] = x[k * step + step]


def any_stride(x, n: mt.int64):
    for k in mt.prange(4):
        x[k * n] = k


def changing_stride(x, n: mt.int64):
    for k in mt.prange(4):
        x[k * (1 << k)] = k


def rows_that_overlap(x, n: mt.int64):
    for i in mt.prange(3):
        for j in range(n + 1):
            x[i * n + j] = i


def pairs_in_both(x, n: mt.int64):
    for i in mt.prange(x.shape[0]):
        x[i] = x[i ^ n] * 2


def pairs_read_before(x, n: mt.int64):
    for i in mt.prange(x.shape[0]):
        other = i ^ n
        kept = x[other]
        if other > i:
            x[other] = x[i]
            x[i] = kept


def pairs_in_both_arms(x, n: mt.int64):
    for i in mt.prange(x.shape[0]):
        other = i ^ n
        if other > i:
            x[other] = x[i]
        else:
            x[i] = x[other]


def partner_of_each_own(x, n: mt.int64):
    for i in mt.prange(x.shape[0]):
        other = i ^ (i * n)
        if other > i:
            x[other] = x[i]


DEPENDENT = [
    steps_of_one, next_stride, any_stride, changing_stride, rows_that_overlap, pairs_in_both, pairs_read_before,
    pairs_in_both_arms, partner_of_each_own,
]  # fmt: skip


@pytest.mark.parametrize("function", DEPENDENT, ids=lambda function: function.__name__)
def test_dependent_loops_are_refused(function):
    with pytest.raises(LoopDependenceError, match="the iterations of this parallel loop depend on each other"):
        mt.jit(function).compile(np.zeros(64), 4)


def rows_from_an_array(a, rows, out):
    for i in mt.prange(rows.shape[0]):
        for j in range(a.shape[1]):
            out[rows[i], j] = a[i, j]


def test_rows_that_an_array_names_are_refused_with_what_to_write():
    with pytest.raises(LoopDependenceError, match=r"may have an index twice.*loop over 'out'"):
        mt.jit(rows_from_an_array).compile(np.zeros((8, 4)), np.zeros(8, np.int64), np.zeros((8, 4)))
