"""Functions of NumPy on polynomials in the kernel language: arrays of coefficients, those of the highest powers first.

Python never runs them. Each is the documented meaning of NumPy's function of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse
from mlirtri.lowering.frontend.library_functions.random_generator import require_value


def polyadd(a1, a2):
    return _aligned(a1, a2, False)


def polysub(a1, a2):
    return _aligned(a1, a2, True)


def _aligned(a1, a2, is_negated):
    x, y = np.atleast_1d(a1), np.atleast_1d(a2)
    missing = y.shape[0] - x.shape[0]
    x = np.concatenate([np.zeros(max(missing, 0), x.dtype), x])
    y = np.concatenate([np.zeros(max(-missing, 0), y.dtype), y])
    return x - y if is_negated else x + y


def polymul(a1, a2):
    x, y = np.atleast_1d(a1), np.atleast_1d(a2)
    require_value(x[0] != 0 and y[0] != 0, "the first coefficients of numpy.polymul are not zero in kernels")
    return np.convolve(x, y)


def polyder(p, m=1):
    if m < 0:
        refuse("the order of a derivative is 0 or more")
    for _ in range(m):
        size = p.shape[0]
        p = p[:-1] * np.arange(size - 1, 0, -1)
    return p


def polyint(p, m=1, k=None):
    if m < 0:
        refuse("the order of an integral is 0 or more")
    constants = [0] * m if k is None else list(k) if isinstance(k, (tuple, list)) else [k] * m
    for step in range(m):
        size = p.shape[0]
        p = np.concatenate([p / np.arange(size, 0, -1), np.array([constants[step]], np.float64)])
    return p


def poly(seq_of_zeros):
    zeros = np.atleast_1d(seq_of_zeros)
    if zeros.ndim != 1 or zeros.dtype.is_complex:
        refuse("numpy.poly takes the real zeros of a polynomial, not a matrix")
    result = np.zeros(zeros.shape[0] + 1, zeros.dtype if zeros.dtype.is_float else np.float64)
    result[0] = 1
    for k in range(zeros.shape[0]):
        result[1 : k + 2] = result[1 : k + 2] - zeros[k] * result[: k + 1]
    return result


def polydiv(u, v):
    dividend, divisor = np.atleast_1d(u) + 0.0, np.atleast_1d(v) + 0.0
    count = dividend.shape[0] - divisor.shape[0] + 1
    rest, scale, size = dividend + 0 * divisor[0], 1 / divisor[0], divisor.shape[0]
    quotient = np.zeros(max(count, 1), rest.dtype)
    for k in range(max(count, 0)):
        factor = scale * rest[k]
        quotient[k] = factor
        rest[k : k + size] -= factor * divisor
    # Leading coefficients that are nearly 0 go, but for the last one.
    is_kept = np.abs(rest) > 1e-8
    is_kept[-1] = True
    return quotient, rest[np.argmax(is_kept) :]


def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    if full or cov or rcond is not None:
        refuse("numpy.polyfit gives coefficients alone in kernels: full=, cov= and rcond= are not supported")
    powers = np.vander(np.asarray(x, np.float64), deg + 1)
    y = np.asarray(y, np.float64)
    if w is not None:
        powers = powers * w[:, None]
        y = (y.T * w).T
    scale = np.sqrt((powers * powers).sum(axis=0))
    solution = np.linalg.lstsq(powers / scale, y)[0]
    return (solution.T / scale).T


_NAMED: tuple[Callable[..., Any], ...] = (
    polyadd, polysub, polymul, polydiv, polyder, polyint, polyfit, poly,
)  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {f"numpy.{function.__name__}": function for function in _NAMED}
"""Inlined functions of NumPy by qualified name."""
