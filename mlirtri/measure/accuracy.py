"""Errors of results: absolute, and in units in the last place (ulp) of their dtype, bfloat16 included.

The error of complex numbers is the distance in the plane, in ulps of the parts' dtype at the expected absolute value.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from mlirtri.dialect.base.dtypes import find_dtype


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
    if actual.size == 0:
        return 0.0
    facts = ml_dtypes.finfo(actual.dtype)
    with np.errstate(all="ignore"):
        # frexp's fraction is in [0.5, 1), so its exponent is one more than floor(log2).
        exponent = np.frexp(np.abs(_wide(expected)))[1] - 1
        unit = np.ldexp(1.0, np.maximum(exponent, facts.minexp) - facts.nmant)
        ulps = _differences(actual, expected) / unit
        # An expected value that overflows the dtype is infinite in it.
        overflows = np.isinf(_wide(actual)) & (expected.astype(actual.dtype) == actual)
    return float(np.where(overflows, 0.0, ulps).max())


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _differences(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        a, b = _wide(actual), _wide(expected)
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return np.where(np.isnan(difference), np.inf, difference)
