"""Functions whose results are as long as the elements say, and sums at indices: against NumPy and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import KernelError

PIPELINES = ("linalg", "relax", "mlir", "interpreter")
A = np.array([[0, 3, 0], [-1, 0, 3]])
F = np.array([1.0, np.nan, 2, 1, np.nan, -0.0])
T, INDEX = torch.arange(12.0).view(4, 3), torch.tensor([2, 0, 2])


def selected(a, f):
    rows, columns = np.nonzero(a)
    distinct = np.unique(f)
    return rows, columns, a[rows, columns], np.flatnonzero(f), np.where(a < 0)[1], distinct * 2, np.unique(a).sum()


def composed(a, f):
    first, second = np.choose(a > 0, [a, 7.5]), np.choose(np.array([1, 0, 1]), a)
    differences = np.subtract.reduce(a), np.subtract.reduce(f, keepdims=True)
    return first, second, np.argwhere(a), np.unwrap(f * 4), differences[0], differences[1]


def bits(a, f):
    whole = a.astype(np.int16)
    along = np.bitwise_xor.reduce(whole), np.bitwise_or.reduce(whole, axis=1, keepdims=True)
    return *along, np.bitwise_and.reduce(whole, axis=-1), np.bitwise_xor.reduce(f > 1)


def added(t, i):
    square = t[:3] * 1
    square.index_add_(0, i, t[:3])
    square.scatter_add_(1, i.view(3, 1), t[1:])
    least, rows = torch.aminmax(t), t.aminmax(dim=1)
    more = t.index_add(1, i, t, alpha=-2), torch.scatter_add(t, 0, i.view(1, 3), t)
    return square, more[0], more[1], torch.frac(t / 3), least.min, least.max, rows.max, torch.tensor([[1, 2], [3, 4]])


def added_to_one(x, i):
    lines = x.scatter_add(0, i.view(1), x.view(1)), x.index_add(0, i.view(1), x, alpha=3)
    return x.scatter_add(0, i, x + 1), x.index_add(0, i, x), *lines


def test_sums_at_indices_of_rank_0():
    arguments = torch.tensor(2.5), torch.tensor(0)
    assert mt.jit(added_to_one)(*arguments) == added_to_one(*arguments) == (6.0, 5.0, 5.0, 10.0)
    with pytest.raises(IndexError):
        mt.jit(added_to_one)(torch.tensor(2.5), torch.tensor(1))


def same(result, expected):
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(
    ("function", "arguments"), [(selected, (A, F)), (composed, (A, F[[0, 2, 3]])), (bits, (A, F)), (added, (T, INDEX))]
)
def test_selected_elements_and_sums_at_indices(function, arguments, pipeline):
    for result, expected in zip(mt.jit(function, pipeline=pipeline)(*arguments), function(*arguments), strict=True):
        same(result, expected)


@pytest.mark.parametrize("a", [np.zeros((2, 3)), np.zeros((0, 3)), np.array([True, False])])
def test_nothing_is_selected(a):
    for function in (np.nonzero, lambda x: (np.unique(x[:0]), np.argwhere(x))):
        for result, expected in zip(mt.jit(lambda x: function(x))(a), function(a), strict=True):
            same(result, expected)
            assert result.shape == expected.shape


def test_what_is_refused_says_what_to_write():
    for function, words in (
        (lambda a: np.nonzero(a.sum()), "atleast_1d"),
        (lambda a: np.maximum.at(a.astype(np.int8), [0], 2.5), "a wider dtype than the array"),
        (lambda a: np.gcd(a * 0.5, a), "take integers"),
        (lambda a: np.unique(a * 1j), "real numbers"),
        (lambda a: np.unwrap(a), "astype"),
    ):
        with pytest.raises(KernelError, match=words):
            mt.jit(function)(A)
    with pytest.raises(IndexError):
        mt.jit(lambda a: np.choose(a, [a, a]))(np.array([0, 2]))
    with pytest.raises(IndexError):
        mt.jit(lambda t, i: t.index_add(0, i, t))(T[:3], INDEX + 1)
