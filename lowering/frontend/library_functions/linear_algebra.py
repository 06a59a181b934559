"""`numpy.linalg` and `torch.linalg` in the kernel language: functions that the frontend inlines where they are called.

Python never runs them. Algorithms are the unblocked ones of LAPACK's xGETF2 and xPOTF2 (LU with partial pivoting,
Cholesky by columns): results agree with the library up to rounding. Batched matrices are processed one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def require(condition: Any, message: str) -> None:
    """Raise `LinAlgError` with the message after the call if the condition was false."""


require.__mlirtri_name__ = "mlirtri.require_of_matrix"  # type: ignore[attr-defined]


def inexact(a):
    """Return `a` as float64 if it is an integer array, as NumPy does."""
    if a.dtype.is_inexact:
        return a.copy()
    return a.astype(np.float64)


def factored(a):
    """Factorise `a` in place (LU, partial pivoting); return the permutation, its sign, and whether a pivot is zero."""
    n = a.shape[0]
    order = np.arange(n)
    sign = 1.0
    singular = False
    for k in range(n):
        pivot = k + np.argmax(np.abs(a[k:, k]))
        if pivot != k:
            row = a[k].copy()
            a[k] = a[pivot]
            a[pivot] = row
            # In torch's semantics an element is a view.
            swapped = order[k].copy()
            order[k] = order[pivot]
            order[pivot] = swapped
            sign = -sign
        if a[k, k] == 0:
            singular = True
        else:
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= a[k + 1 :, k : k + 1] * a[k, k + 1 :]
    return order, sign, singular


def solved(a, b):
    """Return the solution of one system; b has one or more columns."""
    lu = inexact(a)
    order, _, singular = factored(lu)
    require(not singular, "Singular matrix")
    x = (b * np.ones(1, lu.dtype))[order]
    n = lu.shape[0]
    for k in range(1, n):
        x[k] -= lu[k, :k] @ x[:k]
    for k in range(n - 1, -1, -1):
        x[k] = (x[k] - lu[k, k + 1 :] @ x[k + 1 :]) / lu[k, k]
    return x


def solve(a, b):
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        if a.ndim == 3 and a.shape[1] == a.shape[2] and b.ndim == 3:
            x = b * np.ones(1, inexact(a[0]).dtype)
            for i in range(a.shape[0]):
                x[i] = solved(a[i], b[i])
            return x
        refuse("the last two axes of a matrix have the same size")
    return solved(a, b)


def inv(a):
    if a.ndim == 3:
        x = inexact(a)
        for i in range(a.shape[0]):
            x[i] = inv(a[i])
        return x
    square(a)
    return solved(a, np.eye(a.shape[0], dtype=inexact(a).dtype))


def det(a):
    if a.ndim == 3:
        x = np.zeros(a.shape[0], inexact(a[0]).dtype)
        for i in range(a.shape[0]):
            x[i] = det(a[i])
        return x
    square(a)
    lu = inexact(a)
    _, sign, _ = factored(lu)
    return (np.diagonal(lu).prod() * sign).astype(lu.dtype)


def cholesky(a):
    if a.ndim == 3:
        x = inexact(a)
        for i in range(a.shape[0]):
            x[i] = cholesky(a[i])
        return x
    square(a)
    n = a.shape[0]
    matrix = inexact(a)
    lower = np.zeros_like(matrix)
    positive = True
    for j in range(n):
        row = np.conj(lower[j, :j])
        diagonal = np.real(matrix[j, j] - lower[j, :j] @ row)
        if diagonal > 0:
            pivot = np.sqrt(diagonal)
        else:
            positive = False
            pivot = diagonal * 0 + 1
        lower[j, j] = pivot
        lower[j + 1 :, j] = (matrix[j + 1 :, j] - lower[j + 1 :, :j] @ row) / pivot
    require(positive, "Matrix is not positive definite")
    return lower


def square(a):
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        refuse("the last two axes of a matrix have the same size")


def refuse(message: str) -> None:
    """Refuse to compile the kernel."""


refuse.__mlirtri_name__ = "mlirtri.refuse"  # type: ignore[attr-defined]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"{library}.linalg.{function.__name__}": function
    for library in ("numpy", "torch")
    for function in (solve, inv, det)
} | {"numpy.linalg.cholesky": cholesky, "torch.inverse": inv, "torch.det": det}
"""Inlined library functions by qualified name."""
