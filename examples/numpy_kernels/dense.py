"""Dense linear algebra: products, symmetric and triangular updates, statistics of columns."""

from __future__ import annotations

import numpy as np

from .case import Case, uniform


def gemm(alpha, beta, C, A, B):
    """C = alpha A B + beta C, in place."""
    C[:] = alpha * A @ B + beta * C


def gemm_arguments(size, dtype, rng):
    rows, columns, inner = size
    made = [uniform(rng, dtype, *shape) for shape in ((rows, columns), (rows, inner), (inner, columns))]
    return (1.5, 1.2, *made)


def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    """Two rank-1 updates of A, then two matrix-vector products that use it."""
    A += np.outer(u1, v1) + np.outer(u2, v2)
    x += beta * (y @ A) + z
    w += alpha * (A @ x)


def gemver_arguments(size, dtype, rng):
    (n,) = size
    return (1.5, 1.2 / n, uniform(rng, dtype, n, n), *(uniform(rng, dtype, n) for _ in range(8)))


def gesummv(alpha, beta, A, B, x):
    """The sum of two matrix-vector products."""
    return alpha * A @ x + beta * B @ x


def gesummv_arguments(size, dtype, rng):
    (n,) = size
    return 1.5, 1.2, uniform(rng, dtype, n, n), uniform(rng, dtype, n, n), uniform(rng, dtype, n)


def atax(A, x):
    """Aᵀ A x, without the square of A."""
    return (A @ x) @ A


def atax_arguments(size, dtype, rng):
    rows, columns = size
    return uniform(rng, dtype, rows, columns), uniform(rng, dtype, columns)


def bicg(A, p, r):
    """The two products of a step of the biconjugate gradient method."""
    return r @ A, A @ p


def bicg_arguments(size, dtype, rng):
    rows, columns = size
    return uniform(rng, dtype, rows, columns), uniform(rng, dtype, columns), uniform(rng, dtype, rows)


def mvt(x1, x2, y1, y2, A):
    """A product with A and one with its transpose, both added in place."""
    x1 += A.dot(y1)
    x2 += A.T.dot(y2)


def mvt_arguments(size, dtype, rng):
    (n,) = size
    return (*(uniform(rng, dtype, n) for _ in range(4)), uniform(rng, dtype, n, n))


def syrk(alpha, beta, C, A):
    """The lower triangle of C = beta C + alpha A Aᵀ, row by row."""
    n, m = A.shape
    for i in range(n):
        C[i, : i + 1] *= beta
        for k in range(m):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]


def syrk_arguments(size, dtype, rng):
    n, m = size
    return 1.5, 1.2, uniform(rng, dtype, n, n), uniform(rng, dtype, n, m)


def syr2k(alpha, beta, C, A, B):
    """The lower triangle of C = beta C + alpha (A Bᵀ + B Aᵀ), row by row."""
    n = C.shape[0]
    m = A.shape[1]
    for i in range(n):
        C[i, : i + 1] = C[i, : i + 1] * beta
        for k in range(m):
            C[i, : i + 1] += A[: i + 1, k] * (alpha * B[i, k]) + B[: i + 1, k] * (alpha * A[i, k])


def syr2k_arguments(size, dtype, rng):
    n, m = size
    return 1.5, 1.2, uniform(rng, dtype, n, n), uniform(rng, dtype, n, m), uniform(rng, dtype, n, m)


def symm(alpha, beta, C, A, B):
    """C = alpha A B + beta C for a symmetric A, of which only the lower triangle is read."""
    m, n = C.shape
    partial = np.empty((n,), dtype=C.dtype)
    C *= beta
    for i in range(m):
        for j in range(n):
            C[:i, j] += alpha * B[i, j] * A[i, :i]
            partial[j] = B[:i, j] @ A[i, :i]
        C[i, :] += alpha * B[i, :] * A[i, i] + alpha * partial


def symm_arguments(size, dtype, rng):
    m, n = size
    return 1.5, 1.2, uniform(rng, dtype, m, n), uniform(rng, dtype, m, m), uniform(rng, dtype, m, n)


def trmm(alpha, A, B):
    """B = alpha Aᵀ B for a lower triangular A with a diagonal of ones, in place."""
    m, n = B.shape
    for i in range(m):
        for j in range(n):
            B[i, j] += np.dot(A[i + 1 :, i], B[i + 1 :, j])
    B *= alpha


def trmm_arguments(size, dtype, rng):
    m, n = size
    return 1.5, uniform(rng, dtype, m, m), uniform(rng, dtype, m, n)


def doitgen(A, C4):
    """The last axis of a three-dimensional array times a matrix, in place, through views."""
    r, q, p = A.shape
    A[:] = np.reshape(np.reshape(A, (r * q, p)) @ C4, (r, q, p))


def doitgen_slices(A, C4):
    """`doitgen`, slice by slice through a buffer."""
    row = np.zeros(C4.shape[1], A.dtype)
    for r in range(A.shape[0]):
        for q in range(A.shape[1]):
            row[:] = A[r, q, :] @ C4
            A[r, q, :] = row


def doitgen_arguments(size, dtype, rng):
    r, q, p = size
    return uniform(rng, dtype, r, q, p), uniform(rng, dtype, p, p, high=1 / p)


def two_products(alpha, beta, A, B, C, D):
    """D = alpha A B C + beta D."""
    D[:] = alpha * A @ B @ C + beta * D


def two_products_arguments(size, dtype, rng):
    i, j, k, m = size
    made = [uniform(rng, dtype, *shape) for shape in ((i, k), (k, j), (j, m), (i, m))]
    return (1.5, 1.2, *made)


def three_products(A, B, C, D):
    """(A B) (C D)."""
    return np.matmul(np.matmul(A, B), np.matmul(C, D))


def three_products_arguments(size, dtype, rng):
    i, j, k, m, n = size
    return tuple(uniform(rng, dtype, *shape) for shape in ((i, k), (k, j), (j, n), (n, m)))


def covariance(data):
    """The covariance matrix of the columns, one row of its upper triangle at a time; the data are centred in place."""
    n, m = data.shape
    data -= np.mean(data, axis=0)
    cov = np.zeros((m, m), dtype=data.dtype)
    for i in range(m):
        cov[i, i:] = data[:, i] @ data[:, i:] / (n - 1.0)
        cov[i:, i] = cov[i, i:]
    return cov


def covariance_arguments(size, dtype, rng):
    n, m = size
    return (uniform(rng, dtype, n, m),)


def correlation(data):
    """The correlation matrix of the columns; a column that hardly varies counts as varying by 1."""
    n, m = data.shape
    mean = data.mean(axis=0)
    deviation = np.std(data, axis=0)
    deviation[deviation <= 0.1] = 1.0
    data -= mean
    data /= np.sqrt(n) * deviation
    corr = np.eye(m, dtype=data.dtype)
    for i in range(m - 1):
        corr[i + 1 :, i] = corr[i, i + 1 :] = data[:, i] @ data[:, i + 1 :]
    return corr


def correlation_arguments(size, dtype, rng):
    n, m = size
    data = uniform(rng, dtype, n, m)
    data[:, 1] *= dtype(0.01)
    return (data,)


CASES = (
    Case(gemm, gemm_arguments, (9, 11, 7), (500, 550, 600)),
    Case(gemver, gemver_arguments, (14,), (2000,)),
    Case(gesummv, gesummv_arguments, (13,), (2000,)),
    Case(atax, atax_arguments, (12, 17), (2200, 1800)),
    Case(bicg, bicg_arguments, (12, 17), (2200, 1800)),
    Case(mvt, mvt_arguments, (13,), (2000,)),
    Case(syrk, syrk_arguments, (10, 8), (220, 180)),
    Case(syr2k, syr2k_arguments, (10, 8), (160, 140)),
    Case(symm, symm_arguments, (8, 10), (120, 140)),
    Case(trmm, trmm_arguments, (9, 11), (200, 220)),
    Case(doitgen, doitgen_arguments, (4, 5, 6), (60, 60, 128)),
    Case(doitgen_slices, doitgen_arguments, (4, 5, 6), (60, 60, 128)),
    Case(two_products, two_products_arguments, (6, 7, 8, 9), (400, 450, 500, 550)),
    Case(three_products, three_products_arguments, (5, 6, 7, 8, 9), (400, 420, 440, 460, 480)),
    Case(covariance, covariance_arguments, (16, 9), (500, 400)),
    Case(correlation, correlation_arguments, (16, 9), (500, 400)),
)
