"""Sets of NumPy's in the kernel language, and its functions that take functions.

Python never runs them. The lengths of sets are known at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse


class Counts(NamedTuple):
    """The result of `numpy.unique_counts`."""

    values: Any
    counts: Any


class Inverse(NamedTuple):
    """The result of `numpy.unique_inverse`."""

    values: Any
    inverse_indices: Any


class Unique(NamedTuple):
    """The result of `numpy.unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


# --- sets ------------------------------------------------------------------------------------------------------------


def joined(ar1, ar2):
    return np.concatenate((np.asarray(ar1).reshape(-1), np.asarray(ar2).reshape(-1)))


def union1d(ar1, ar2):
    return np.unique(joined(ar1, ar2))


def intersect1d(ar1, ar2):
    values = np.unique(joined(ar1, ar2))
    return values[np.isin(values, ar1) & np.isin(values, ar2)]


def setxor1d(ar1, ar2):
    values = np.unique(joined(ar1, ar2))
    return values[np.isin(values, ar1) != np.isin(values, ar2)]


def setdiff1d(ar1, ar2, assume_unique=False):
    values = np.asarray(ar1).reshape(-1) if assume_unique else np.unique(ar1)
    return values[~np.isin(values, ar2)]


def unique_values(x):
    return np.unique(x)


def unique_counts(x):
    values, counts = np.unique(x, return_counts=True)
    return Counts(values, counts)


def unique_inverse(x):
    values, inverse = np.unique(x, return_inverse=True)
    return Inverse(values, inverse)


def unique_all(x):
    values, indices, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    return Unique(values, indices, inverse, counts)


def trim_zeros(filt, trim="fb"):
    is_nonzero = filt != 0
    count = filt.shape[0]
    first = np.argmax(is_nonzero) if trim in ("f", "F", "fb", "bf", "FB") else 0
    last = count - np.argmax(is_nonzero[::-1]) if trim in ("b", "B", "fb", "bf", "FB") else count
    # All zeros are trimmed from either end.
    return filt[first : np.where(np.any(is_nonzero), last, first)]


def sort_complex(a):
    is_narrow = a.dtype.name in ("int8", "int16", "uint8", "uint16")
    return np.sort(a) if a.dtype.is_complex else np.sort(a).astype(np.complex64 if is_narrow else np.complex128)


# --- functions of functions ------------------------------------------------------------------------------------------


def fromfunction(function, shape, *, dtype=float, **kwargs):
    return function(*np.indices(shape, dtype=dtype), **kwargs)


def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    moved = np.moveaxis(arr, axis, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    if rows.shape[0] == 0:
        refuse("an array without elements has no rows to apply a function to")
    first = np.asarray(func1d(rows[0], *args, **kwargs))
    results = np.zeros((rows.shape[0], *first.shape), first.dtype)
    results[0] = first
    for i in range(1, rows.shape[0]):
        results[i] = func1d(rows[i], *args, **kwargs)
    shaped = results.reshape(*moved.shape[:-1], *first.shape)
    # The axes of a row's result take the place of the axis.
    last = range(arr.ndim - 1, arr.ndim - 1 + first.ndim)
    return np.moveaxis(shaped, tuple(last), tuple(i + axis % arr.ndim - arr.ndim + 1 for i in last))


_NAMED: tuple[Callable[..., Any], ...] = (
    union1d, intersect1d, setxor1d, setdiff1d, unique_values, unique_counts, unique_inverse, unique_all, trim_zeros,
    sort_complex, fromfunction, apply_along_axis,
)  # fmt: skip


def unique_slices(x, axis):
    """Return the different slices of an array along an axis, in order of their elements."""
    moved = np.moveaxis(x, axis, 0)
    rows = moved.reshape(moved.shape[0], -1)
    order = np.arange(rows.shape[0])
    for column in range(rows.shape[1] - 1, -1, -1):
        order = order[np.argsort(rows[order, column], kind="stable")]
    is_new = np.ones(rows.shape[0], np.bool_)
    is_new[1:] = np.any(rows[order[1:]] != rows[order[:-1]], axis=1)
    return np.moveaxis(moved[order[is_new]], 0, axis)


FUNCTIONS: dict[str, Callable[..., Any]] = {f"numpy.{function.__name__}": function for function in _NAMED}
"""Inlined functions of NumPy by qualified name."""
