"""`numpy.linalg` and `torch.linalg` in the kernel language: functions that the frontend inlines where they are called.

Python never runs them. Algorithms are the unblocked ones of LAPACK's xGETF2 and xPOTF2 (LU with partial pivoting,
Cholesky by columns): results agree with the library up to rounding. The matrices of a stack are processed one by one.
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


def magnitudes(a):
    """Return absolute values; of complex elements |re| + |im|, by which LAPACK chooses pivots."""
    return np.abs(np.real(a)) + np.abs(np.imag(a)) if a.dtype.is_complex else np.abs(a)


def factored(a):
    """Factorise `a` in place (LU, partial pivoting); return the rows' order, the pivots, and the first zero pivot.

    Pivots count rows from 1, as LAPACK's do. The last result is 0 if no pivot is zero.
    """
    count = min(a.shape[0], a.shape[1])
    order = np.arange(a.shape[0])
    pivots = np.zeros(count, np.int32)
    info = 0
    for k in range(count):
        pivot = k + np.argmax(magnitudes(a[k:, k]))
        pivots[k] = pivot + 1
        if pivot != k:
            row = a[k].copy()
            a[k] = a[pivot]
            a[pivot] = row
            swap(order, k, pivot)
        if a[k, k] != 0:
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= a[k + 1 :, k : k + 1] * a[k, k + 1 :]
        elif info == 0:
            info = k + 1
    return order, pivots, info


def swap(order, i, j):
    # In torch's semantics an element is a view.
    swapped = order[i].copy()
    order[i] = order[j]
    order[j] = swapped


def sign_of(pivots):
    """Return the sign of the permutation that LAPACK's pivots describe."""
    return 1 - 2 * (np.count_nonzero(pivots != np.arange(1, pivots.shape[0] + 1)) % 2)


def solved(a, b):
    """Return the solution of one system; b has one or more columns."""
    lu = inexact(a)
    order, _, info = factored(lu)
    require(info == 0, "Singular matrix")
    x = (b * np.ones(1, lu.dtype))[order]
    n = lu.shape[0]
    for k in range(1, n):
        x[k] -= lu[k, :k] @ x[:k]
    for k in range(n - 1, -1, -1):
        x[k] = (x[k] - lu[k, k + 1 :] @ x[k + 1 :]) / lu[k, k]
    return x


def each(a, function, shapes, dtypes):
    """Return stacks of what a function gives, a tuple of these shapes and dtypes, for each matrix of a stack."""
    flat = a.reshape([size_of(a.shape[:-2]), *a.shape[-2:]])
    results = [np.zeros([flat.shape[0], *shape], dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    for i in range(flat.shape[0]):
        parts = function(flat[i])
        for k in range(len(shapes)):
            results[k][i] = parts[k]
    return tuple([result.reshape([*a.shape[:-2], *result.shape[1:]]) for result in results])


def axis_of(axis, rank):
    """Return an axis counted from the front."""
    if axis < -rank or axis >= rank:
        refuse("there is no such axis")
    return axis % rank


def size_of(shape):
    count = 1
    for extent in shape:
        count = count * extent
    return count


def solve(a, b):
    """Solve for each matrix of two stacks whose shapes broadcast; a `b` of one axis is a vector."""
    square(a)
    if b.ndim == 1 and a.ndim > 2:
        return solve(a, b[:, None])[..., 0]
    if a.ndim == 2 and b.ndim <= 2:
        return solved(a, b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    n, columns = b.shape[-2:]
    matrices = np.broadcast_to(a, [*batch, n, n]).reshape([size_of(batch), n, n])
    x = (np.broadcast_to(b, [*batch, n, columns]) * np.ones(1, inexact(matrices[0]).dtype)).reshape(
        [size_of(batch), n, columns]
    )
    for i in range(size_of(batch)):
        x[i] = solved(matrices[i], x[i])
    return x.reshape([*batch, n, columns])


def torch_solve(A, B, *, left=True):
    if not left:
        return np.swapaxes(solve(np.swapaxes(A, -1, -2), np.swapaxes(B, -1, -2)), -1, -2)
    # torch takes vectors in a stack where B has the shape of the rows of A.
    if B.ndim > 1 and B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]:
        return solve(A, B[..., None])[..., 0]
    return solve(A, B)


def inv(a):
    square(a)
    if a.ndim > 2:
        return each(a, lambda matrix: (inv(matrix),), [a.shape[-2:]], [inexact(a).dtype])[0]
    return solved(a, np.eye(a.shape[0], dtype=inexact(a).dtype))


def det(a):
    square(a)
    if a.ndim > 2:
        return each(a, lambda matrix: (det(matrix),), [()], [inexact(a).dtype])[0]
    lu = inexact(a)
    _, pivots, _ = factored(lu)
    return (np.diagonal(lu).prod() * sign_of(pivots)).astype(lu.dtype)


def cholesky(a):
    square(a)
    if a.ndim > 2:
        return each(a, lambda matrix: (cholesky(matrix),), [a.shape[-2:]], [inexact(a).dtype])[0]
    lower, info = root(inexact(a))
    require(info == 0, "Matrix is not positive definite")
    return lower


def root(matrix):
    """Return the Cholesky factor, and the first row whose pivot is not positive, from 1, or 0."""
    lower = np.zeros_like(matrix)
    info = 0
    for j in range(matrix.shape[0]):
        row = np.conj(lower[j, :j])
        diagonal = np.real(matrix[j, j] - lower[j, :j] @ row)
        if diagonal > 0:
            pivot = np.sqrt(diagonal)
        else:
            pivot = diagonal * 0 + 1
            info = j + 1 if info == 0 else info
        lower[j, j] = pivot
        lower[j + 1 :, j] = (matrix[j + 1 :, j] - lower[j + 1 :, :j] @ row) / pivot
    return lower, info


def square(a):
    if a.ndim < 2 or a.shape[-2] != a.shape[-1]:
        refuse("the last two axes of a matrix have the same size")


def refuse(message: str) -> None:
    """Refuse to compile the kernel."""


refuse.__mlirtri_name__ = "mlirtri.refuse"  # type: ignore[attr-defined]

# --- what decompositions of torch programs call ----------------------------------------------------------------------


def lu(a):
    """Return the packed factors of matrices, the rows' order, the pivots, and the first zero pivot, as `factored`."""
    rows, columns = a.shape[-2:]

    def factors(matrix):
        packed = matrix.copy()
        order, pivots, info = factored(packed)
        return packed, order, pivots, info

    shapes = [(rows, columns), (rows,), (min(rows, columns),), ()]
    return each(a, factors, shapes, [a.dtype, np.int64, np.int32, np.int32])


def row_order(pivots, rows):
    """Return the permutations of rows that LAPACK's pivots describe."""

    def order_of(column):
        order = np.arange(rows)
        for k in range(column.shape[0]):
            swap(order, k, column[k, 0] - 1)
        return (order,)

    return each(pivots[..., None], order_of, [(rows,)], [np.int64])[0]


def cholesky_ex(a):
    """Return the Cholesky factors of matrices, and what `root` tells of each."""
    return each(a, root, [a.shape[-2:], ()], [a.dtype, np.int32])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "numpy.linalg.inv": inv, "numpy.linalg.det": det, "numpy.linalg.solve": solve, "numpy.linalg.cholesky": cholesky,
    "torch.linalg.inv": inv, "torch.linalg.det": det, "torch.linalg.solve": torch_solve, "torch.inverse": inv,
    "torch.det": det,
}  # fmt: skip
"""Inlined library functions by qualified name."""
