"""The methods of NumPy's binary ufuncs, against NumPy."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from combinations import in_turn

import mlirtri as mt

FLOATS = np.array([[0.5, -1.5, 3.0, 2.0], [1.0, np.nan, -0.25, 4.0], [2.5, 0.75, -2.0, 1.0]])
SMALL = np.array([3, 2, 5, 4], np.int8)
MASK = np.array([[True, False, True, True], [False, False, True, False], [True, True, True, False]])


def reduced(x, i, m):
    kept = np.hypot.reduce(x, axis=1, keepdims=True), np.fmax.reduce(x, axis=(0, 1)), np.logaddexp.reduce(x[:, 2])
    integers = (
        np.gcd.reduce(i * 6),
        np.power.reduce(i),
        np.divide.reduce(i),
        np.bitwise_xor.reduce(i),
        np.hypot.reduce(i),
    )
    chosen = np.hypot.reduce(x, where=m), np.fmax.reduce(x, initial=-1.0), np.add.reduce(i, initial=2, where=i > 2)
    empty = np.logaddexp.reduce(x[:0]), np.gcd.reduce(i[:0])
    return kept, integers, chosen, empty, np.logical_xor.reduce(m, axis=None), np.equal.reduce(m[0])


def accumulated(x, i, m):
    floats = np.subtract.accumulate(x, axis=1), np.fmin.accumulate(x), np.divide.accumulate(i)
    return floats, np.bitwise_or.accumulate(i), np.logical_and.accumulate(i), np.logical_or.accumulate(m, 1)


def parts(x, i, m):
    sums = np.add.reduceat(x[0], [0, 2, 1]), np.add.reduceat(i, np.array([0, 3])), np.add.reduceat(x, [0, 2], axis=1)
    return sums, np.maximum.reduceat(x, [1], axis=0), np.logical_or.reduceat(m, [0, 2])


def combined(x, i, m):
    np.divide.at(x, ([0, 0, 2], [1, 1, 0]), 2.0)
    np.power.at(i, [1, 1], 2)
    np.negative.at(x, [2])
    return np.lcm.outer(i, i), np.logaddexp.outer(x[0], x[2]), np.logical_xor.outer(m, i), np.left_shift.outer(i, 2)


def same(result, expected):
    if isinstance(expected, tuple):
        for mine, other in zip(result, expected, strict=True):
            same(mine, other)
    else:
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=2e-3 if expected.dtype == np.float16 else 1e-14)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("function", "pipeline"), in_turn([reduced, accumulated, parts, combined], ["linalg", "mlir", "interpreter"], of=2)
)
def test_methods_of_ufuncs(function, pipeline):
    arguments = FLOATS, SMALL, MASK
    ours, plain = deepcopy(arguments), deepcopy(arguments)
    same(mt.jit(function, pipeline=pipeline)(*ours), function(*plain))
    same(ours, plain)


def outside(x):
    return np.add.reduceat(x, [0, -1])


def without_identity(x):
    return np.fmax.reduce(x[:0])


def in_what_order(x):
    return np.divide.reduce(x, axis=None)


def of_numbers(x):
    return np.less.reduce(x)


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (outside, IndexError, "axis 0 of size 3"),
        (without_identity, ValueError, "which has no identity"),
        (in_what_order, mt.KernelError, "name one axis"),
        (of_numbers, mt.KernelError, "arrays of booleans"),
    ],
)
def test_what_numpy_refuses_is_refused(function, error, text):
    with pytest.raises(error, match=text):
        mt.jit(function, pipeline="mlir")(FLOATS)
