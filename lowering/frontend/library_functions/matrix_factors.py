"""QR, eigenvalues of Hermitian matrices and singular values in the kernel language, inlined where they are called.

Python never runs them. Reflections follow LAPACK's xGEQR2, so Q and R have its signs. Eigenvalues come from cyclic
Jacobi rotations, singular values from one-sided ones (G. Golub and C. Van Loan, Matrix Computations, sections 8.5 and
8.6.3): vectors may differ from the library's by a factor of modulus 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import (
    each,
    factored,
    inexact,
    inv,
    refuse,
    require,
    sign_of,
    square,
)

SWEEPS = 40
"""The largest number of sweeps: convergence is quadratic, and takes fewer than ten."""


def matrix(a):
    if a.ndim != 2:
        refuse("it takes matrices")
    return inexact(a)


def moduli(a):
    """Return the dtype of the moduli of a matrix's elements."""
    return np.abs(inexact(a)).dtype


def reflected(a):
    """Reduce `a` in place to R above and reflections below its diagonal; return their factors."""
    count = min(a.shape[0], a.shape[1])
    tau = np.zeros(count, a.dtype)
    for k in range(count):
        alpha, sizes = a[k, k], np.abs(a[k:, k])
        if np.any(a[k + 1 :, k] != 0) or (a.dtype.is_complex and np.imag(alpha) != 0):
            # Scaled, so that no square overflows or vanishes.
            scale = np.max(sizes)
            beta = -np.copysign(scale * np.sqrt(np.sum(np.square(sizes / scale))), np.real(alpha))
            tau[k] = (beta - alpha) / beta
            a[k + 1 :, k] = a[k + 1 :, k] / (alpha - beta)
            a[k, k] = beta
            row = (a[k, k + 1 :] + np.conj(a[k + 1 :, k]) @ a[k + 1 :, k + 1 :]) * np.conj(tau[k])
            a[k, k + 1 :] -= row
            a[k + 1 :, k + 1 :] -= a[k + 1 :, k : k + 1] * row
    return tau


def product_of_reflections(packed, tau, columns):
    """Return the first `columns` columns of the product of the reflections."""
    q = np.eye(packed.shape[0], columns, dtype=packed.dtype)
    for k in range(tau.shape[0] - 1, -1, -1):
        row = (q[k, k:] + np.conj(packed[k + 1 :, k]) @ q[k + 1 :, k:]) * tau[k]
        q[k, k:] -= row
        q[k + 1 :, k:] -= packed[k + 1 :, k : k + 1] * row
    return q


def qr(a, mode="reduced"):
    if a.ndim > 2:
        rows, columns = a.shape[-2:]
        kept, dtype = rows if mode == "complete" else min(rows, columns), inexact(a).dtype
        if mode == "r":
            return each(a, lambda part: (qr(part, mode),), [(kept, columns)], [dtype])[0]
        return each(a, lambda part: qr(part, mode), [(rows, kept), (kept, columns)], [dtype, dtype])
    packed = matrix(a)
    rows, columns = packed.shape
    tau = reflected(packed)
    kept = rows if mode == "complete" else min(rows, columns)
    if mode == "r":
        return np.triu(packed[:kept])
    if mode not in ("reduced", "complete"):
        refuse("the mode is 'reduced', 'complete' or 'r'")
    return product_of_reflections(packed, tau, kept), np.triu(packed[:kept])


def torch_qr(A, mode="reduced"):
    if mode == "r":
        refuse("the mode is 'reduced' or 'complete'")
    return qr(A, mode)


# --- eigenvalues ---------------------------------------------------------------------------------------------------


def rotation(difference, modulus):
    """Return the cosine and sine of the rotation that makes an element of this modulus zero."""
    ratio = difference / (2 * modulus)
    tangent = np.copysign(1.0, ratio) / (np.abs(ratio) + np.hypot(1.0, ratio))
    cosine = 1 / np.hypot(1.0, tangent)
    return cosine, cosine * tangent


def rotate_columns(a, p, q, cosine, sine, phase):
    """Rotate two columns of `a` in place; `phase` is that of the element of row p and column q."""
    other = np.conj(phase) * a[:, q]
    rotated = sine * a[:, p] + cosine * other
    a[:, p] = cosine * a[:, p] - sine * other
    a[:, q] = rotated


def diagonalised(a, with_vectors):
    """Diagonalise the Hermitian `a` in place; return the vectors as columns."""
    n = a.shape[0]
    vectors = np.eye(n if with_vectors else 0, n, dtype=a.dtype)
    off = np.sum(np.square(np.abs(np.tril(a, -1))))
    enough = np.square(np.finfo(a.dtype).eps) * (off + np.sum(np.square(np.abs(np.diagonal(a)))))
    sweep = 0
    while off > enough and sweep < SWEEPS:
        for p in range(n - 1):
            for q in range(p + 1, n):
                modulus = np.abs(a[p, q])
                if modulus > 0:
                    phase = a[p, q] / modulus
                    cosine, sine = rotation(np.real(a[q, q] - a[p, p]), modulus)
                    rotate_columns(a, p, q, cosine, sine, phase)
                    rotate_columns(a.T, p, q, cosine, sine, np.conj(phase))
                    a[p, q] = 0
                    a[q, p] = 0
                    rotate_columns(vectors, p, q, cosine, sine, phase)
        off = np.sum(np.square(np.abs(np.tril(a, -1))))
        sweep += 1
    # No comparison with NaN is true.
    require(off <= enough, "Eigenvalues did not converge")
    return vectors


def hermitian(a, triangle):
    square(a)
    full = matrix(a)
    if triangle not in ("L", "U", "l", "u"):
        refuse("UPLO is 'L' or 'U'")
    strict = np.tril(full, -1) if triangle in ("L", "l") else np.conj(np.triu(full, 1).T)
    return strict + np.conj(strict.T) + np.diag(np.real(np.diagonal(full))).astype(full.dtype)


def eigh(a, UPLO="L"):
    if a.ndim > 2:
        shapes = [a.shape[-1:], a.shape[-2:]]
        return each(a, lambda part: eigh(part, UPLO), shapes, [moduli(a), inexact(a).dtype])
    reduced = hermitian(a, UPLO)
    vectors = diagonalised(reduced, True)
    values = np.real(np.diagonal(reduced))
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]


def eigvalsh(a, UPLO="L"):
    if a.ndim > 2:
        return each(a, lambda part: (eigvalsh(part, UPLO),), [a.shape[-1:]], [moduli(a)])[0]
    reduced = hermitian(a, UPLO)
    diagonalised(reduced, False)
    return np.sort(np.real(np.diagonal(reduced)))


# --- singular values -----------------------------------------------------------------------------------------------


def orthogonalised(a, vectors):
    """Make the columns of `a` orthogonal, in place, by rotations from the right, which `vectors` gathers."""
    n = a.shape[1]
    require(np.all(np.isfinite(a)), "SVD did not converge")
    near = np.finfo(a.dtype).eps * max(10, a.shape[0])
    rotated = True
    sweep = 0
    while rotated and sweep < SWEEPS:
        rotated = False
        for p in range(n - 1):
            for q in range(p + 1, n):
                first = np.sum(np.square(np.abs(a[:, p])))
                second = np.sum(np.square(np.abs(a[:, q])))
                product = np.sum(np.conj(a[:, p]) * a[:, q])
                modulus = np.abs(product)
                if modulus > near * np.sqrt(first) * np.sqrt(second) and modulus > 0:
                    rotated = True
                    phase = product / modulus
                    cosine, sine = rotation(second - first, modulus)
                    rotate_columns(a, p, q, cosine, sine, phase)
                    rotate_columns(vectors, p, q, cosine, sine, phase)
        sweep += 1
    require(not rotated, "SVD did not converge")


def tall_svd(a, full, with_vectors):
    """Return the decomposition of a matrix with at least as many rows as columns: u, values, v."""
    columns = a.shape[1]
    v = np.eye(columns if with_vectors else 0, columns, dtype=a.dtype)
    orthogonalised(a, v)
    order = np.argsort(-np.sum(np.square(np.abs(a)), 0), kind="stable")
    a = a[:, order]
    # Of orthogonal columns R is diagonal, and Q completes them to a basis where some are zero.
    tau = reflected(a)
    diagonal = np.diagonal(a)
    values = np.abs(diagonal)
    u = product_of_reflections(a, tau, a.shape[0] if full else columns)
    phase = np.where(values > 0, diagonal / np.where(values > 0, values, 1), 1).astype(a.dtype)
    u[:, :columns] = u[:, :columns] * phase
    return u, values, v[:, order]


def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    if hermitian:
        refuse("hermitian=True is not supported: eigh gives these values")
    if a.ndim > 2:
        rows, columns, count = *a.shape[-2:], min(a.shape[-2:])
        if not compute_uv:
            return each(a, lambda part: (svd(part, False, False),), [(count,)], [moduli(a)])[0]
        shapes = [(rows, rows if full_matrices else count), (count,), (columns if full_matrices else count, columns)]
        dtype = inexact(a).dtype
        return each(a, lambda part: svd(part, full_matrices), shapes, [dtype, moduli(a), dtype])
    a = matrix(a)
    if a.shape[0] >= a.shape[1]:
        u, values, v = tall_svd(a, full_matrices, compute_uv)
    else:
        v, values, u = tall_svd(np.conj(a.T).copy(), full_matrices, compute_uv)
    if compute_uv:
        return u, values, np.conj(v.T)
    return values


def torch_svd(A, full_matrices=True):
    return svd(A, full_matrices)


def svdvals(x: Any, /) -> Any:
    return svd(x, False, False)


def pinv(a, rcond=None, hermitian=False, *, rtol=None):
    if a.ndim > 2:
        shape = (a.shape[-1], a.shape[-2])
        return each(a, lambda part: (pinv(part, rcond, hermitian, rtol=rtol),), [shape], [inexact(a).dtype])[0]
    u, values, vh = svd(a, False, True, hermitian)
    limit = rtol
    if rtol is None:
        limit = 1e-15 if rcond is None else rcond
    is_kept = values > limit * np.max(values)
    inverse = np.where(is_kept, 1 / np.where(is_kept, values, 1), 0)
    return np.conj(vh.T) @ (inverse[:, None] * np.conj(u.T))


def torch_pinv(input, *, atol=None, rtol=None, hermitian=False):
    if atol is not None:
        refuse("atol is not supported: use rtol")
    default = np.finfo(inexact(input).dtype).eps * max(input.shape[-2], input.shape[-1])
    return pinv(input, None, hermitian, rtol=default if rtol is None else rtol)


def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    if hermitian:
        refuse("hermitian=True is not supported")
    values = svdvals(A)
    limit = tol
    if tol is None:
        default = np.finfo(values.dtype).eps * max(A.shape[-2], A.shape[-1])
        limit = np.max(values, -1, keepdims=True) * (default if rtol is None else rtol)
    return np.count_nonzero(values > limit, -1)  # type: ignore[operator]


def torch_matrix_rank(A, *, atol=None, rtol=None, hermitian=False):
    if atol is not None:
        refuse("atol is not supported: use rtol")
    return matrix_rank(A, None, hermitian, rtol=rtol)


def cond(x, p=None):
    if p is None or p == 2:
        values = svdvals(x)
        return values[..., 0] / values[..., -1]
    if p == -2:
        values = svdvals(x)
        return values[..., -1] / values[..., 0]
    if x.ndim > 2:
        return each(x, lambda part: (cond(part, p),), [()], [moduli(x)])[0]
    return np.linalg.norm(x, p) * np.linalg.norm(inv(x), p)


def least_squares(a, right, rcond):
    """Return the shortest solutions of least squares of a stack of matrices, the ranks and the singular values."""
    u, values, vh = svd(a, False)
    limit = np.finfo(values.dtype).eps * max(a.shape[-2], a.shape[-1]) if rcond is None else rcond
    is_kept = values > limit * np.max(values, -1, keepdims=True)
    inverse = np.where(is_kept, 1 / np.where(is_kept, values, 1), 0)
    x = np.conj(np.swapaxes(vh, -1, -2)) @ (inverse[..., None] * (np.conj(np.swapaxes(u, -1, -2)) @ right))
    return x, np.count_nonzero(is_kept, -1), values


def lstsq(a, b, rcond=None):
    rows, columns = a.shape
    right = b if b.ndim == 2 else b[:, None]
    x, count, values = least_squares(a, right, rcond)
    rank = count.astype(np.int32)
    sums = np.sum(np.square(np.abs(right - a @ x)), 0)
    # There are sums of squares only where the columns are independent and fewer than the rows.
    sums = sums[np.full(sums.shape, rank == columns and rows > columns)]
    return x if b.ndim == 2 else x[:, 0], sums, rank, values


class LeastSquares(NamedTuple):
    """The result of `torch.linalg.lstsq`."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def torch_lstsq(input, b, rcond=None, *, driver=None):
    if driver is not None and driver != "gelsy":
        refuse("driver= is 'gelsy', torch's default on a CPU")
    is_vector = b.ndim == input.ndim - 1
    x, rank, values = least_squares(input, b[..., None] if is_vector else b, rcond)
    # Of the driver 'gelsy' torch gives neither residuals nor singular values.
    return LeastSquares(x[..., 0] if is_vector else x, np.zeros(0, values.dtype), rank, np.zeros(0, values.dtype))


def matrix_norm(A, ord: Any = "fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    x = np.moveaxis(A if dtype is None else A.astype(dtype), tuple(dim), (-2, -1))
    result: Any = None
    if ord == "nuc":
        result = np.sum(svdvals(x), -1)
    elif ord == 2 or ord == -2:
        values = svdvals(x)
        result = values[..., 0] if ord == 2 else values[..., -1]
    elif ord == "fro":
        result = np.sqrt(np.sum(np.square(np.abs(x)), (-2, -1)))
    elif ord == 1 or ord == -1 or ord == float("inf") or ord == -float("inf"):
        sums = np.sum(np.abs(x), -2 if ord == 1 or ord == -1 else -1)
        result = np.max(sums, -1) if ord == 1 or ord == float("inf") else np.min(sums, -1)
    else:
        refuse("ord= is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    return np.expand_dims(result, tuple(dim)) if keepdim else result


def norm(x, ord: Any = None, axis: Any = None, keepdims=False):
    return matrix_norm(x, ord, (0, 1) if axis is None else axis, keepdims).astype(moduli(x))


def slogdet(a):
    square(a)
    if a.ndim > 2:
        return each(a, slogdet, [(), ()], [inexact(a).dtype, moduli(a)])
    lu = matrix(a)
    _, pivots, _ = factored(lu)
    diagonal = np.diagonal(lu)
    sizes = np.abs(diagonal)
    is_zero = np.any(sizes == 0)
    sign = np.prod(diagonal / np.where(sizes == 0, 1, sizes)) * sign_of(pivots)
    total = np.sum(np.log(np.where(sizes == 0, 1, sizes)))
    return np.where(is_zero, 0, sign).astype(lu.dtype), np.where(is_zero, -np.inf, total).astype(sizes.dtype)


def logdet(input):
    sign, total = slogdet(input)
    return np.where(sign < 0, np.nan, total).astype(total.dtype)


_OF_NUMPY = (qr, eigh, eigvalsh, svd, svdvals, pinv, matrix_rank, cond, lstsq, slogdet, norm)
_OF_TORCH = {
    "qr": torch_qr, "svd": torch_svd, "pinv": torch_pinv, "matrix_rank": torch_matrix_rank, "eigh": eigh,
    "eigvalsh": eigvalsh, "svdvals": svdvals, "cond": cond, "slogdet": slogdet,
    "lstsq": torch_lstsq, "matrix_norm": matrix_norm,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"numpy.linalg.{function.__name__}": function for function in _OF_NUMPY},
    **{f"torch.linalg.{name}": function for name, function in _OF_TORCH.items()},
    "torch.slogdet": slogdet, "torch.logdet": logdet,
}  # fmt: skip
"""Inlined library functions by qualified name."""
