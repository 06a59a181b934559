"""Stencils: each point from its neighbours, over time, with whole-array slices or point by point."""

from __future__ import annotations

import numpy as np

from .case import Case, uniform


def jacobi_1d(steps, A, B):
    """A point is the mean of itself and its two neighbours; two arrays take turns."""
    for _ in range(1, steps):
        B[1:-1] = (A[:-2] + A[1:-1] + A[2:]) / 3.0
        A[1:-1] = (B[:-2] + B[1:-1] + B[2:]) / 3.0


def jacobi_1d_arguments(size, dtype, rng):
    n, steps = size
    return steps, uniform(rng, dtype, n), uniform(rng, dtype, n)


def jacobi_2d(steps, A, B):
    """A point is the mean of itself and its four neighbours."""
    for _ in range(steps):
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])


def jacobi_2d_arguments(size, dtype, rng):
    n, steps = size
    return steps, uniform(rng, dtype, n, n), uniform(rng, dtype, n, n)


def heat_3d(steps, u, v):
    """Explicit Euler steps of the heat equation in a cube."""
    for _ in range(steps):
        v[1:-1, 1:-1, 1:-1] = (
            u[1:-1, 1:-1, 1:-1]
            + 0.125 * (u[2:, 1:-1, 1:-1] - 2.0 * u[1:-1, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1])
            + 0.125 * (u[1:-1, 2:, 1:-1] - 2.0 * u[1:-1, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1])
            + 0.125 * (u[1:-1, 1:-1, 2:] - 2.0 * u[1:-1, 1:-1, 1:-1] + u[1:-1, 1:-1, :-2])
        )
        u[1:-1, 1:-1, 1:-1] = v[1:-1, 1:-1, 1:-1]


def heat_3d_arguments(size, dtype, rng):
    n, steps = size
    return steps, uniform(rng, dtype, n, n, n), uniform(rng, dtype, n, n, n)


def seidel_2d(steps, A):
    """Gauss-Seidel over nine points: a point reads neighbours that this sweep has changed already."""
    n = A.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            A[i, 1:-1] += (
                A[i - 1, :-2] + A[i - 1, 1:-1] + A[i - 1, 2:] + A[i, 2:] + A[i + 1, :-2] + A[i + 1, 1:-1] + A[i + 1, 2:]
            )
            for j in range(1, n - 1):
                A[i, j] += A[i, j - 1]
                A[i, j] /= 9.0


def seidel_points(steps, A):
    """`seidel_2d` with one statement for a point."""
    n = len(A)
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                A[i, j] = (
                    A[i - 1, j - 1] + A[i - 1, j] + A[i - 1, j + 1]
                    + A[i, j - 1] + A[i, j] + A[i, j + 1]
                    + A[i + 1, j - 1] + A[i + 1, j] + A[i + 1, j + 1]
                ) / 9.0  # fmt: skip


def seidel_2d_arguments(size, dtype, rng):
    n, steps = size
    return steps, uniform(rng, dtype, n, n)


def fdtd_2d(steps, ex, ey, hz, source):
    """Maxwell's equations in a plane on Yee's staggered grid, driven by a source at one edge."""
    for t in range(steps):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def fdtd_2d_arguments(size, dtype, rng):
    nx, ny, steps = size
    return steps, *(uniform(rng, dtype, nx, ny) for _ in range(3)), np.arange(steps).astype(dtype)


def adi(steps, n, u):
    """The heat equation by alternating directions (Peaceman-Rachford): implicit in columns, then in rows."""
    v = np.empty(u.shape, dtype=u.dtype)
    p = np.empty(u.shape, dtype=u.dtype)
    q = np.empty(u.shape, dtype=u.dtype)
    space = 1.0 / n
    time = 1.0 / steps
    ahead = 2.0 * time / (space * space)
    across = time / (space * space)
    a = -ahead / 2.0
    b = 1.0 + ahead
    d = -across / 2.0
    e = 1.0 + across
    for _ in range(1, steps + 1):
        v[0, 1 : n - 1] = 1.0
        p[1 : n - 1, 0] = 0.0
        q[1 : n - 1, 0] = v[0, 1 : n - 1]
        for j in range(1, n - 1):
            p[1 : n - 1, j] = -a / (a * p[1 : n - 1, j - 1] + b)
            q[1 : n - 1, j] = (
                -d * u[j, : n - 2] + (1.0 + 2.0 * d) * u[j, 1 : n - 1] - d * u[j, 2:n] - a * q[1 : n - 1, j - 1]
            ) / (a * p[1 : n - 1, j - 1] + b)
        v[n - 1, 1 : n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1 : n - 1] = p[1 : n - 1, j] * v[j + 1, 1 : n - 1] + q[1 : n - 1, j]
        u[1 : n - 1, 0] = 1.0
        p[1 : n - 1, 0] = 0.0
        q[1 : n - 1, 0] = u[1 : n - 1, 0]
        for j in range(1, n - 1):
            p[1 : n - 1, j] = -d / (d * p[1 : n - 1, j - 1] + e)
            q[1 : n - 1, j] = (
                -a * v[: n - 2, j] + (1.0 + 2.0 * a) * v[1 : n - 1, j] - a * v[2:n, j] - d * q[1 : n - 1, j - 1]
            ) / (d * p[1 : n - 1, j - 1] + e)
        u[1 : n - 1, n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            u[1 : n - 1, j] = p[1 : n - 1, j] * u[1 : n - 1, j + 1] + q[1 : n - 1, j]


def adi_arguments(size, dtype, rng):
    n, steps = size
    return steps, n, uniform(rng, dtype, n, n)


def laplacian(u):
    """The five-point Laplacian of a field, on a torus."""
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, axis=1) + np.roll(u, -1, axis=1) - 4 * u


def gray_scott(u, v, steps, feed, kill):
    """Two reacting and diffusing substances."""
    for _ in range(steps):
        reaction = u * v * v
        u += 0.16 * laplacian(u) - reaction + feed * (1 - u)
        v += 0.08 * laplacian(v) + reaction - (feed + kill) * v


def gray_scott_arguments(size, dtype, rng):
    n, steps = size
    return uniform(rng, dtype, n, n), uniform(rng, dtype, n, n, high=0.25), steps, 0.06, 0.062


def wave_2d(u, previous, steps, courant):
    """Leapfrog steps of the wave equation with fixed ends; three time levels take turns by name."""
    for _ in range(steps):
        following = np.zeros_like(u)
        following[1:-1, 1:-1] = (
            2 * u[1:-1, 1:-1]
            - previous[1:-1, 1:-1]
            + courant**2
            * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
        )  # fmt: skip
        previous, u = u, following
    return u, previous


def wave_2d_arguments(size, dtype, rng):
    n, steps = size
    u = np.zeros((n, n), dtype)
    u[n // 3 : n // 2, n // 3 : n // 2] = 1
    return u, u.copy(), steps, 0.5


def game_of_life(grid, generations):
    """Conway's game on a board with a dead rim."""
    for _ in range(generations):
        count = (
            grid[:-2, :-2] + grid[:-2, 1:-1] + grid[:-2, 2:] + grid[1:-1, :-2] + grid[1:-1, 2:]
            + grid[2:, :-2] + grid[2:, 1:-1] + grid[2:, 2:]
        )  # fmt: skip
        born = (count == 3) & (grid[1:-1, 1:-1] == 0)
        stays = ((count == 2) | (count == 3)) & (grid[1:-1, 1:-1] == 1)
        grid[...] = 0
        grid[1:-1, 1:-1][born | stays] = 1
    return grid.sum()


def game_of_life_arguments(size, dtype, rng):
    n, generations = size
    grid = np.zeros((n, n), dtype)
    grid[1:-1, 1:-1] = rng.integers(0, 2, (n - 2, n - 2))
    return grid, generations


CASES = (
    Case(jacobi_1d, jacobi_1d_arguments, (30, 10), (20000, 1000)),
    Case(jacobi_2d, jacobi_2d_arguments, (14, 6), (500, 100)),
    Case(heat_3d, heat_3d_arguments, (8, 5), (60, 40)),
    Case(seidel_2d, seidel_2d_arguments, (11, 3), (200, 10)),
    Case(seidel_points, seidel_2d_arguments, (11, 3), (160, 10)),
    Case(fdtd_2d, fdtd_2d_arguments, (11, 13, 6), (500, 550, 60)),
    Case(adi, adi_arguments, (11, 4), (200, 25)),
    Case(gray_scott, gray_scott_arguments, (12, 4), (400, 25)),
    Case(wave_2d, wave_2d_arguments, (15, 7), (500, 50)),
    Case(game_of_life, game_of_life_arguments, (16, 5), (800, 20), ("int64", "int32")),
)
