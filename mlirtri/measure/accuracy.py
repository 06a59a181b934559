"""Errors of results: absolute, and in units in the last place (ulp) of their dtype, bfloat16 included.

The error of complex numbers is the distance in the plane, in ulps of the parts' dtype at the expected absolute value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from mlirtri.dialect.base.dtypes import find_dtype

_SMALL = 2.0**-10
"""A value is said to cancel if it is smaller than this share of the result's largest magnitude."""
_ROUNDINGS = 64
"""Units in the last place of the result's magnitude that rounding explains in sums of few terms."""


@dataclass(frozen=True)
class Accuracy:
    """How far results are from the expected ones."""

    max_error: float
    """Largest |actual - expected|."""
    max_relative: float
    """The same, divided by the largest magnitude of the result it is in."""
    max_ulp: float | None
    """Largest difference in units in the last place, among values that do not cancel; None without floats."""
    cancels: bool
    """Whether a value that cancels differs by more units than that."""
    difference: str | None
    """The first element that differs by more than rounding explains."""


def accuracy(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> Accuracy:
    """Return the accuracy of several results, which have the shapes of the expected ones."""
    pairs = list(zip(actual, expected, strict=True))
    errors = [absolute_error(result, exact) for result, exact in pairs]
    relative = [_relative(error, exact) for error, exact in zip(errors, expected, strict=True)]
    ulps = [_ulps_by_size(result, exact) for result, exact in pairs if is_float(result)]
    max_ulp = max((large for large, _ in ulps), default=None)
    max_ulp_of_small = max((small for _, small in ulps), default=0.0)
    differences = (first_difference(_name(number, len(pairs)), *pair) for number, pair in enumerate(pairs))
    return Accuracy(
        max_error=max(errors, default=0.0),
        max_relative=max(relative, default=0.0),
        max_ulp=max_ulp,
        cancels=max_ulp is not None and max_ulp_of_small > max_ulp,
        difference=next((text for text in differences if text is not None), None),
    )


def _name(number: int, count: int) -> str:
    return f"result[{number}]" if count > 1 else "result"


def first_difference(name: str, actual: np.ndarray, expected: np.ndarray) -> str | None:
    """Return where, in row-major order, an element first differs by more than rounding explains, and both values."""
    if actual.size == 0:
        return None
    if is_float(actual):
        # The root of a sum's length bounds its rounding errors, as those of a random walk. The length is not known
        # here: the root of the number of elements stands for it, as in products of square matrices.
        facts = ml_dtypes.finfo(actual.dtype)
        allowed = float(facts.eps) * _ROUNDINGS * max(1.0, _magnitude(expected)) * max(1.0, actual.size**0.25)
        differs = _differences(actual, expected) > allowed
    else:
        differs = np.asarray(actual != expected)
    if not differs.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), actual.shape))
    share = f"{int(differs.sum())} of {actual.size} elements differ"
    return f"{name}[{', '.join(map(str, index))}] is {actual[index]}, not {expected[index]} ({share})"


def _relative(error: float, expected: np.ndarray) -> float:
    if error == 0:
        return 0.0
    magnitude = _magnitude(expected)
    return error / magnitude if magnitude else float("inf")


def _magnitude(array: np.ndarray) -> float:
    """Return the largest finite magnitude; 0 for an array without one."""
    with np.errstate(all="ignore"):
        sizes = np.abs(_wide(array))
    return float(np.max(sizes, where=np.isfinite(sizes), initial=0.0))


def is_float(array: np.ndarray) -> bool:
    """Return whether results are rounded: floats and complex numbers."""
    dtype = find_dtype(array.dtype)
    return dtype is not None and dtype.is_inexact


def absolute_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest |actual - expected|, exact for integers; infinite where only one is NaN or infinite."""
    if actual.size == 0:
        return 0.0
    if not is_float(actual) and not is_float(expected):
        differ = actual != expected
        pairs = zip(actual[differ].flat, expected[differ].flat, strict=True)
        return float(max((abs(int(a) - int(b)) for a, b in pairs), default=0))
    return float(_differences(actual, expected).max())


def ulp_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference in ulps of `expected` in the dtype of `actual`.

    The ulp of x is 2^(floor(log2 |x|) - p) for p fraction bits, and that of the smallest normal number below it.
    """
    return max(_ulps_by_size(actual, expected))


def _ulps_by_size(actual: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Return the largest difference in ulps of values that do not cancel, and of those that do."""
    if actual.size == 0:
        return 0.0, 0.0
    facts = ml_dtypes.finfo(actual.dtype)
    with np.errstate(all="ignore"):
        # frexp's fraction is in [0.5, 1), so its exponent is one more than floor(log2).
        exponent = np.frexp(np.abs(_wide(expected)))[1] - 1
        unit = np.ldexp(1.0, np.maximum(exponent, facts.minexp) - facts.nmant)
        ulps = _differences(actual, expected) / unit
        # An expected value that overflows the dtype is infinite in it.
        overflows = np.isinf(_wide(actual)) & (expected.astype(actual.dtype) == actual)
    ulps = np.where(overflows, 0.0, ulps)
    with np.errstate(all="ignore"):
        is_small = np.abs(_wide(expected)) < _SMALL * _magnitude(expected)
    # NaN and infinity where a number is expected are no matter of cancellation.
    is_small &= np.isfinite(ulps)
    large, small = (np.max(ulps, where=where, initial=0.0) for where in (~is_small, is_small))
    return float(large), float(small)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _differences(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        a, b = _wide(actual), _wide(expected)
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return np.where(np.isnan(difference), np.inf, difference)
