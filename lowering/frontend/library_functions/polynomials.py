"""Functions of NumPy on polynomials in the kernel language: arrays of coefficients, those of the highest powers first.

Python never runs them. Each is the documented meaning of NumPy's function of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
    for _ in range(m):
        size = p.shape[0]
        p = p[:-1] * np.arange(size - 1, 0, -1)
    return p


def polyint(p, m=1, k=None):
    constants = [0] * m if k is None else list(k) if isinstance(k, (tuple, list)) else [k] * m
    for step in range(m):
        size = p.shape[0]
        p = np.concatenate([p / np.arange(size, 0, -1), np.array([constants[step]], np.float64)])
    return p


def polyfit(x, y, deg):
    powers = np.vander(np.asarray(x, np.float64), deg + 1)
    scale = np.sqrt((powers * powers).sum(axis=0))
    solution = np.linalg.lstsq(powers / scale, np.asarray(y, np.float64))[0]
    return (solution.T / scale).T


_NAMED: tuple[Callable[..., Any], ...] = (polyadd, polysub, polymul, polyder, polyint, polyfit)
FUNCTIONS: dict[str, Callable[..., Any]] = {f"numpy.{function.__name__}": function for function in _NAMED}
"""Inlined functions of NumPy by qualified name."""
