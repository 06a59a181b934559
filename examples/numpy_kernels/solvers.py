"""Factorizations, triangular systems and iterations that solve equations."""

from __future__ import annotations

import numpy as np

from .case import Case, uniform


def lu(A):
    """A = L U in place, without pivoting: L below the diagonal (its own is 1), U on and above it."""
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[:j, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            A[i, j] -= A[i, :i] @ A[:i, j]


def lu_elimination(A):
    """`lu` by Gaussian elimination: a rank-1 update of what is left, for each pivot."""
    n = len(A)
    for k in range(n - 1):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])


def dominant(rng, dtype, n):
    """A matrix that needs no pivoting."""
    return uniform(rng, dtype, n, n, low=-1) + n * np.eye(n, dtype=dtype)


def lu_arguments(size, dtype, rng):
    (n,) = size
    return (dominant(rng, dtype, n),)


def ludcmp(A, b):
    """Solve A x = b: factorize in place, then forward and backward substitution."""
    n = A.shape[0]
    x = np.zeros_like(b)
    y = np.zeros_like(b)
    for i in range(n):
        for j in range(i):
            A[i, j] = (A[i, j] - A[i, :j] @ A[:j, j]) / A[j, j]
        for j in range(i, n):
            A[i, j] = A[i, j] - A[i, :i] @ A[:i, j]
    for i in range(n):
        y[i] = b[i] - A[i, :i] @ y[:i]
    for i in range(n - 1, -1, -1):
        x[i] = (y[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x, y


def ludcmp_arguments(size, dtype, rng):
    (n,) = size
    return dominant(rng, dtype, n), uniform(rng, dtype, n)


def cholesky(A):
    """The lower factor of a positive definite matrix, in its lower triangle; the Cholesky-Banachiewicz order."""
    A[0, 0] = np.sqrt(A[0, 0])
    for i in range(1, A.shape[0]):
        for j in range(i):
            A[i, j] -= np.dot(A[i, :j], A[j, :j])
            A[i, j] /= A[j, j]
        A[i, i] -= np.dot(A[i, :i], A[i, :i])
        A[i, i] = np.sqrt(A[i, i])


def cholesky_library(A):
    """The factor from the library, with what was above the diagonal put back."""
    A[:] = np.linalg.cholesky(A) + np.triu(A, k=1)


def cholesky_arguments(size, dtype, rng):
    (n,) = size
    half = uniform(rng, dtype, n, n)
    return ((half @ half.T / n + np.eye(n, dtype=dtype)).astype(dtype),)


def trisolv(L, x, b):
    """Solve L x = b for a lower triangular L."""
    for i in range(x.shape[0]):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]


def trisolv_arguments(size, dtype, rng):
    (n,) = size
    return dominant(rng, dtype, n), np.zeros(n, dtype), uniform(rng, dtype, n)


def gramschmidt(A):
    """A = Q R by the modified Gram-Schmidt process; what is left of A is overwritten."""
    Q = np.zeros_like(A)
    R = np.zeros((A.shape[1], A.shape[1]), dtype=A.dtype)
    for k in range(A.shape[1]):
        length = np.dot(A[:, k], A[:, k])
        R[k, k] = np.sqrt(length)
        Q[:, k] = A[:, k] / R[k, k]
        for j in range(k + 1, A.shape[1]):
            R[k, j] = np.dot(Q[:, k], A[:, j])
            A[:, j] -= Q[:, k] * R[k, j]
    return Q, R


def gramschmidt_arguments(size, dtype, rng):
    m, n = size
    A = uniform(rng, dtype, m, n)
    A[:n] += 3 * np.eye(n, dtype=dtype)
    return (A,)


def durbin(r):
    """The Yule-Walker equations of an autocorrelation by the Levinson-Durbin recursion."""
    y = np.empty_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


def durbin_arguments(size, dtype, rng):
    (n,) = size
    # Autocorrelations that fall off keep the recursion well-conditioned.
    lags = np.arange(1, n + 1)
    return ((0.5**lags * rng.uniform(0.5, 1, n)).astype(dtype),)


def power_iteration(A, steps):
    """The largest eigenvalue by repeated products, with the vector's length taken out at each step."""
    v = np.ones(A.shape[0], dtype=A.dtype)
    for _ in range(steps):
        w = A @ v
        v = w / np.linalg.norm(w)
    return (v @ A @ v) / (v @ v), v


def power_iteration_arguments(size, dtype, rng):
    n, steps = size
    half = uniform(rng, dtype, n, n)
    return (half + half.T) / 2, steps


def conjugate_gradient(A, b, tolerance):
    """Solve A x = b for a positive definite A; stops when the residual is small, and says after how many steps."""
    x = np.zeros_like(b)
    r = b - A @ x
    p = r.copy()
    rho = r @ r
    steps = 0
    while rho > tolerance and steps < b.shape[0]:
        q = A @ p
        alpha = rho / (p @ q)
        x += alpha * p
        r -= alpha * q
        previous = rho
        rho = r @ r
        p = r + (rho / previous) * p
        steps += 1
    return x, steps


def conjugate_gradient_arguments(size, dtype, rng):
    (n,) = size
    half = uniform(rng, dtype, n, n, low=-1)
    return (half @ half.T / n + np.eye(n, dtype=dtype)).astype(dtype), uniform(rng, dtype, n), 1e-7


def newton_roots(c, steps):
    """Square roots by Newton's method, each of them until it no longer moves."""
    roots = np.empty_like(c)
    for i in range(c.shape[0]):
        x = c[i]
        for _ in range(steps):
            better = 0.5 * (x + c[i] / x)
            if abs(better - x) <= 1e-3 * x:
                x = better
                break
            x = better
        roots[i] = x
    return roots


def newton_roots_arguments(size, dtype, rng):
    n, steps = size
    return uniform(rng, dtype, n, low=1, high=50), steps


def jacobi_solver(A, b, steps):
    """Jacobi's iteration: the diagonal solves, the rest is moved to the right side."""
    x = np.zeros(A.shape[0], dtype=A.dtype)
    d = np.diag(A)
    rest = A - np.diagflat(d)
    for _ in range(steps):
        x = (b - rest @ x) / d
    return x


def jacobi_solver_arguments(size, dtype, rng):
    n, steps = size
    return dominant(rng, dtype, n), uniform(rng, dtype, n), steps


CASES = (
    Case(lu, lu_arguments, (12,), (250,)),
    Case(lu_elimination, lu_arguments, (12,), (300,)),
    Case(ludcmp, ludcmp_arguments, (12,), (250,)),
    Case(cholesky, cholesky_arguments, (12,), (350,)),
    Case(cholesky_library, cholesky_arguments, (12,), (800,)),
    Case(trisolv, trisolv_arguments, (15,), (3000,)),
    Case(gramschmidt, gramschmidt_arguments, (14, 9), (300, 200)),
    Case(durbin, durbin_arguments, (20,), (4000,)),
    Case(power_iteration, power_iteration_arguments, (10, 15), (800, 100)),
    Case(conjugate_gradient, conjugate_gradient_arguments, (12,), (800,)),
    Case(newton_roots, newton_roots_arguments, (11, 20), (20000, 20)),
    Case(jacobi_solver, jacobi_solver_arguments, (12, 10), (1000, 60)),
)
