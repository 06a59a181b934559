"""How far two right results of floats may lie apart; shared by the tests that compare with NumPy and torch."""

from __future__ import annotations

import math

import ml_dtypes

from mlirtri.dialect.base.dtypes import as_dtype

ROUNDINGS = 32
"""A function of the C library and the handful of operations around it, each off by an ulp or two."""


def tolerance(dtype: object, length: int = 1) -> float:
    """The relative error that a result of `dtype` may have: ``ROUNDINGS * eps * sqrt(length)``, 0 if it is not rounded.

    `length` is the number of terms that were summed: errors of independent roundings grow with its square root
    (Higham, Accuracy and Stability of Numerical Algorithms, section 2.8). Halves are computed in float32 and rounded
    once, so the neighbouring half is right too.
    """
    kind = as_dtype(dtype).part
    if not kind.is_float:
        return 0.0
    last = float(ml_dtypes.finfo(kind.numpy).eps) if kind.is_half else 0.0
    computed = as_dtype("float32") if kind.is_half else kind
    return last + ROUNDINGS * float(ml_dtypes.finfo(computed.numpy).eps) * math.sqrt(max(length, 1))


def within(dtype: object, length: int = 1) -> dict[str, float]:
    """`tolerance` as the arguments of ``assert_close`` and ``assert_allclose``, for values of about 1 and larger."""
    near = tolerance(dtype, length)
    return {"rtol": near, "atol": near}
