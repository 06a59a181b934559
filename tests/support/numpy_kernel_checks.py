"""Runs a kernel of the suite plainly and compiled, and says how far the two lie apart."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy_kernels import Case
from numpy_kernels.case import copied
from tolerances import tolerance


def check(case: Case, dtype: str, compiled: Callable[..., Any]) -> None:
    """Call both on the same arguments; returned values and arguments afterwards have to be the same."""
    arguments = case.arguments("S", dtype)
    plain, ours = copied(arguments), copied(arguments)
    expected, results = case.function(*plain), compiled(*ours)
    compare_results(results, expected, near(case, dtype), "returned value")
    for position, (mine, other) in enumerate(zip(ours, plain, strict=True)):
        compare(mine, other, near(case, dtype), f"argument {position}")


def near(case: Case, dtype: str) -> float:
    """The relative error allowed; integers that floats were counted into have to be equal all the same."""
    return tolerance(dtype if dtype.startswith("float") else "float64", case.terms)


def compare_results(results: Any, expected: Any, relative: float, label: str) -> None:
    """Tuples position by position; None has to be None."""
    if isinstance(expected, tuple):
        assert isinstance(results, tuple), label
        assert len(results) == len(expected), label
        for position, (mine, other) in enumerate(zip(results, expected, strict=True)):
            compare(mine, other, relative, f"{label} {position}")
    elif expected is None:
        assert results is None, label
    else:
        compare(results, expected, relative, label)


def compare(result: Any, expected: Any, relative: float, label: str) -> None:
    """Shape and dtype the same (a Python number has none), values as near as the largest of them allows."""
    if not isinstance(expected, (np.ndarray, np.generic, int, float, complex)):
        return
    mine, other = np.asarray(result), np.asarray(expected)
    assert mine.shape == other.shape, label
    if isinstance(expected, (np.ndarray, np.generic)):
        assert mine.dtype == other.dtype, label
    if other.dtype.kind not in "fc":
        np.testing.assert_array_equal(mine, other, label)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        largest = float(np.max(np.abs(other), initial=0.0, where=np.isfinite(other)))
    np.testing.assert_allclose(mine, other, rtol=relative, atol=relative * max(1.0, largest), err_msg=label)
