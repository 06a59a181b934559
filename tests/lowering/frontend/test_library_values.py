"""What NumPy and torch give at their edges: arrays of rank 0, Python ints beyond a dtype, updates that overlap."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import mlirtri as mt
from mlirtri.errors import CompilerBugError, KernelError, KernelIndexError, KernelTypeError, KernelValueError

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


MISUSED = {
    "max of nothing": (lambda a: max(a[:0]), KernelValueError),
    "enumerate without an iterable": (lambda a: [i for i, _ in enumerate(start=3)], KernelTypeError),
    "enumerate by another name": (lambda a: [i for i, _ in enumerate(a, foo=3)], KernelTypeError),
    "ndenumerate of two": (lambda a: [p for p, _ in np.ndenumerate(a, a)], KernelTypeError),
    "ndindex of a text": (lambda a: [p for p in np.ndindex(2, "a")], KernelTypeError),
    "ndindex below 0": (lambda a: [p for p in np.ndindex(-2)], KernelValueError),
    "a position of format": (lambda a: a * len("{} {}".format(1)), KernelIndexError),  # noqa: F524
    "a name of format": (lambda a: a * len("{a}".format()), KernelError),  # noqa: F524
    "a text without end": (lambda a: a * len("a" * 10**15), KernelError),
    "hasattr of a number": (lambda a: a * hasattr(a, 3), KernelTypeError),
    "numpy.column_stack of a vector": (lambda a: np.column_stack(a), KernelTypeError),
    "axes of numpy.tensordot": (lambda a: np.tensordot(a, a, axes=(0, 1, 2)), KernelTypeError),
    "decimals of numpy.round": (lambda a: np.round(a, "a"), KernelTypeError),
    "a number of numpy.diff": (lambda a: np.diff(a, (1,)), KernelTypeError),
    "mlirtri.real of two": (lambda a: mt.real(a, "imag"), KernelTypeError),
    "axis of numpy.put_along_axis": (lambda a: np.put_along_axis(a, np.array([0]), 9.0, 1), KernelTypeError),
    "conditions of numpy.piecewise": (lambda a: np.piecewise(a, np.stack([a < 1, a > 1]), [1]), KernelError),
    "widths of numpy.pad": (lambda a: np.pad(a, ((1, 2), (3,))), KernelTypeError),
    "order of numpy.polyder": (lambda a: np.polyder(a, -1), KernelTypeError),
    "range of numpy.histogram": (lambda a: np.histogram(a, 3, (5, 1)), KernelValueError),
    "numpy.unravel_index": (lambda a: a[np.unravel_index(99, (3,))], KernelIndexError),
    "numpy.ravel_multi_index": (
        lambda a: np.ravel_multi_index((np.array([1]), np.array([9])), (3, 4)),
        KernelIndexError,
    ),
    "a missing argument": (lambda a: np.matvec(a), KernelTypeError),
}


M = torch.arange(12.0).reshape(3, 4)
MISUSED_OF_TORCH = {
    "combinations": lambda a: torch.combinations(a[0], -1),
    "vander": lambda a: torch.vander(a[0], -1),
    "mvlgamma": lambda a: torch.mvlgamma(a + 5, 0),
    "stride of a pool": lambda a: F.max_pool1d(a[None], 2, 0, return_indices=True),
    "padding of a pool": lambda a: F.max_pool1d(a[None], 2, padding=2, return_indices=True),
    "window of a pool": lambda a: F.max_pool1d(a[None], 6, return_indices=True),
    "split_with_sizes": lambda a: torch.split_with_sizes(a, [1, 1], 1),
    "cartesian_prod": lambda a: torch.cartesian_prod(a[0], a),
    "meshgrid": lambda a: torch.meshgrid(a[0], a, indexing="ij"),
    "length of a window": lambda a: torch.kaiser_window(-1),
    "cropping": lambda a: F.pad(a, (1, -5)),
    "interpolate": lambda a: F.interpolate(a[None], size=0),
    "fill": lambda a: torch.fill(a, a),
    "scatter": lambda a: a.scatter(2, torch.tensor([[0]]), 1.0),
    "select": lambda a: torch.select(a, 2, 0),
    "batch_norm": lambda a: F.batch_norm(a, None, None),
    "roll": lambda a: torch.roll(a, (1, 2), 0),
    "rot90": lambda a: torch.rot90(a, 1, (0,)),
    "repeat": lambda a: a.repeat(2),
    "arange": lambda a: torch.arange(5, 0),
}


@pytest.mark.parametrize("name", [*MISUSED, *MISUSED_OF_TORCH])
def test_what_the_libraries_refuse_is_refused_on_its_line(name):
    function, error = MISUSED.get(name) or (MISUSED_OF_TORCH[name], KernelError)
    with pytest.raises(error) as refused:
        mt.jit(function)(X.copy() if name in MISUSED else M)
    assert not isinstance(refused.value, CompilerBugError)
    assert "<lambda>" not in refused.value.message
    assert refused.value.span.file == __file__


def test_arguments_by_name_and_numbers_in_place_of_tuples():
    def named(a):
        total = 0.0
        for i, x in enumerate(iterable=a, start=1):
            total += i * x
        return total, np.fft.fftshift(a, axes=0), any([(a[0],)])

    total, shifted, has_tuples = mt.jit(named)(X)
    assert (total, has_tuples) == (8.0, True)
    np.testing.assert_array_equal(shifted, np.fft.fftshift(X))


def test_nothing_to_put_and_masks_that_end_early():
    def chosen(a):
        np.put(a, np.array([0]), np.zeros(0))
        return np.extract(a[:2] > 0, a), a

    for result, expected in zip(mt.jit(chosen)(X.copy()), chosen(X.copy()), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_pools_and_combinations_of_nothing():
    def empty(a):
        return (*F.adaptive_max_pool1d(a[None], 0, True), torch.combinations(a[0], 0))

    for result, expected in zip(mt.jit(empty)(M), empty(M), strict=True):
        torch.testing.assert_close(result, expected)


def test_a_function_may_have_another_name():
    def scaled(a):
        return a * 2

    scaled.__name__ = scaled.__qualname__ = "renamed"
    np.testing.assert_array_equal(mt.jit(scaled)(X), X * 2)
