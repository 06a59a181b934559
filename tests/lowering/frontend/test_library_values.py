"""What NumPy and torch give at their edges: arrays of rank 0, Python ints beyond a dtype, updates that overlap."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import KernelError

X = np.arange(3.0)
RANK_0 = {
    "numpy.zeros": lambda a: np.zeros(()),
    "numpy.ones": lambda a: np.ones((), np.float32),
    "a sum of an array": lambda a: np.zeros(()) + 1,
    "numpy.array": lambda a: np.array(3.0),
    "numpy.asarray": lambda a: np.asarray(a[0]),
    "an ellipsis": lambda a: a[0, ...],
    "an element": lambda a: a[0],
    "a reduction": lambda a: np.sum(a),
    "a reshaped array": lambda a: a[:1].reshape(()),
    "a reshaped number": lambda a: a.sum().reshape(()),
    "its negation": lambda a: -a[:1].reshape(()),
    "a copy": lambda a: a[:1].reshape(()).copy(),
    "numpy.zeros_like": lambda a: (np.zeros_like(a.sum()), a.sum()),
}


@pytest.mark.parametrize("name", RANK_0)
def test_arrays_of_rank_0_are_returned_as_numpy_returns_them(name):
    function = RANK_0[name]
    kernel, expected = mt.jit(function), function(X)
    for _ in range(2):
        result = kernel(X)
        pairs = zip(result, expected, strict=True) if isinstance(expected, tuple) else [(result, expected)]
        for value, other in pairs:
            assert type(value) is type(other)
            assert value.dtype == other.dtype
            assert value == other


@pytest.mark.parametrize("value", [2**70, -(2**70), 2**64, -(2**63) - 1])
@pytest.mark.parametrize("dtype", ["uint8", "int64", "uint64"])
def test_comparisons_with_ints_that_no_dtype_holds(dtype, value):
    a = np.array([0, np.iinfo(dtype).max], dtype)

    def compared(a):
        return a > value, a < value, a == value, value >= a, a != value

    for result, expected in zip(mt.jit(compared)(a), compared(a), strict=True):
        np.testing.assert_array_equal(result, expected)


def adds_its_first_element(m):
    for row in m:
        row += row[0]
    return m


def adds_its_first_row(m):
    m += m[0]
    return m


def adds_its_transpose(m):
    m += m.T
    return m


def adds_another_row(m):
    m[0] += m[1]
    m += m
    m += m.view(-1).view(2, 2)
    return m


@pytest.mark.parametrize("function", [adds_its_first_element, adds_its_first_row, adds_its_transpose])
def test_torch_refuses_updates_by_parts_of_what_they_write(function):
    with pytest.raises(RuntimeError, match="single memory location"):
        function(torch.ones(2, 2))
    with pytest.raises(KernelError, match="also reads elsewhere"):
        mt.jit(function)(torch.ones(2, 2))


def test_updates_by_other_elements():
    m, n = torch.arange(4.0).view(2, 2), torch.arange(4.0).view(2, 2)
    assert torch.equal(mt.jit(adds_another_row)(m), adds_another_row(n))
    a, b = np.arange(4.0).reshape(2, 2), np.arange(4.0).reshape(2, 2)
    np.testing.assert_array_equal(mt.jit(adds_its_transpose)(a), adds_its_transpose(b))
