"""Flows: incompressible flow in a cavity and in a channel, and two operators of weather models."""

from __future__ import annotations

import numpy as np

from .case import Case, uniform


def pressure_source(b, density, dt, u, v, dx, dy):
    """The right side of the pressure equation: how far a step without pressure would leave the flow compressed."""
    b[1:-1, 1:-1] = density * (
        1 / dt * ((u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx) + (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dy))
        - ((u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx)) ** 2
        - 2 * ((u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dy) * (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx))
        - ((v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dy)) ** 2
    )


def pressure(p, b, dx, dy, sweeps):
    """Jacobi sweeps of the Poisson equation of the pressure, with its conditions at the four walls."""
    for _ in range(sweeps):
        pn = p.copy()
        p[1:-1, 1:-1] = (
            (pn[1:-1, 2:] + pn[1:-1, :-2]) * dy**2 + (pn[2:, 1:-1] + pn[:-2, 1:-1]) * dx**2
        ) / (2 * (dx**2 + dy**2)) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 1:-1]  # fmt: skip
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0


def cavity_flow(steps, sweeps, u, v, p, dt, dx, dy, density, viscosity):
    """Flow in a box whose lid moves: Chorin's projection with central differences."""
    b = np.zeros(u.shape, dtype=u.dtype)
    for _ in range(steps):
        un = u.copy()
        vn = v.copy()
        pressure_source(b, density, dt, u, v, dx, dy)
        pressure(p, b, dx, dy, sweeps)
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / dy * (un[1:-1, 1:-1] - un[:-2, 1:-1])
            - dt / (2 * density * dx) * (p[1:-1, 2:] - p[1:-1, :-2])
            + viscosity * dt / dx**2 * (un[1:-1, 2:] - 2 * un[1:-1, 1:-1] + un[1:-1, :-2])
            + viscosity * dt / dy**2 * (un[2:, 1:-1] - 2 * un[1:-1, 1:-1] + un[:-2, 1:-1])
        )
        v[1:-1, 1:-1] = (
            vn[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (vn[1:-1, 1:-1] - vn[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / dy * (vn[1:-1, 1:-1] - vn[:-2, 1:-1])
            - dt / (2 * density * dy) * (p[2:, 1:-1] - p[:-2, 1:-1])
            + viscosity * dt / dx**2 * (vn[1:-1, 2:] - 2 * vn[1:-1, 1:-1] + vn[1:-1, :-2])
            + viscosity * dt / dy**2 * (vn[2:, 1:-1] - 2 * vn[1:-1, 1:-1] + vn[:-2, 1:-1])
        )
        u[0, :] = 0
        u[:, 0] = 0
        u[:, -1] = 0
        u[-1, :] = 1
        v[0, :] = 0
        v[-1, :] = 0
        v[:, 0] = 0
        v[:, -1] = 0


def cavity_flow_arguments(size, dtype, rng):
    n, steps, sweeps = size
    fields = [np.zeros((n, n), dtype) for _ in range(3)]
    return steps, sweeps, *fields, 0.001, 2 / (n - 1), 2 / (n - 1), 1.0, 0.1


def periodic(field, axis_slices):
    """The left and the right neighbours of a field that closes upon itself in x."""
    row = field[axis_slices]
    return np.hstack((row[:, -1:], row[:, :-1])), np.hstack((row[:, 1:], row[:, :1]))


def channel_flow(u, v, dt, dx, dy, density, viscosity, force, tolerance):
    """Flow between two plates, driven by a force, until it hardly changes; says after how many steps that was.

    The flow closes upon itself in x, and does not depend on it: the pressure stays what it is.
    """
    change = 1.0
    steps = 0
    while change > tolerance:
        un = u.copy()
        vn = v.copy()
        inside = un[1:-1]
        west, east = periodic(un, np.s_[1:-1])
        vwest, veast = periodic(vn, np.s_[1:-1])
        u[1:-1] = (
            inside
            - inside * dt / dx * (inside - west)
            - vn[1:-1] * dt / dy * (inside - un[:-2])
            + viscosity * (dt / dx**2 * (east - 2 * inside + west) + dt / dy**2 * (un[2:] - 2 * inside + un[:-2]))
            + force * dt / density
        )
        v[1:-1] = (
            vn[1:-1]
            - inside * dt / dx * (vn[1:-1] - vwest)
            - vn[1:-1] * dt / dy * (vn[1:-1] - vn[:-2])
            + viscosity * dt / dx**2 * (veast - 2 * vn[1:-1] + vwest)
            + viscosity * dt / dy**2 * (vn[2:] - 2 * vn[1:-1] + vn[:-2])
        )
        u[0, :] = 0
        u[-1, :] = 0
        v[0, :] = 0
        v[-1, :] = 0
        change = (np.sum(u) - np.sum(un)) / np.sum(u)
        steps += 1
    return steps


def channel_flow_arguments(size, dtype, rng):
    rows, columns, steps = size
    dx, dy = 2 / (columns - 1), 2 / (rows - 1)
    fields = [np.zeros((rows, columns), dtype) for _ in range(2)]
    # At first a step adds what every step before it added: the tolerance lies in the middle of two changes.
    return *fields, min(dx, dy) ** 2, dx, dy, 1.0, 0.1, 1.0, 1 / (steps + 0.5)


def horizontal_diffusion(field, out, coefficient):
    """Fourth-order diffusion of a weather model: the Laplacian's Laplacian, with fluxes that run uphill cut off."""
    i, j = out.shape[:2]
    lap = 4.0 * field[1 : i + 3, 1 : j + 3, :] - (
        field[2 : i + 4, 1 : j + 3, :] + field[0 : i + 2, 1 : j + 3, :]
        + field[1 : i + 3, 2 : j + 4, :] + field[1 : i + 3, 0 : j + 2, :]
    )  # fmt: skip
    step = lap[1:, 1 : j + 1, :] - lap[:-1, 1 : j + 1, :]
    fx = np.where(step * (field[2 : i + 3, 2 : j + 2, :] - field[1 : i + 2, 2 : j + 2, :]) > 0, 0, step)
    step = lap[1 : i + 1, 1:, :] - lap[1 : i + 1, :-1, :]
    fy = np.where(step * (field[2 : i + 2, 2 : j + 3, :] - field[2 : i + 2, 1 : j + 2, :]) > 0, 0, step)
    out[:, :, :] = field[2 : i + 2, 2 : j + 2, :] - coefficient[:, :, :] * (
        fx[1:, :, :] - fx[:-1, :, :] + fy[:, 1:, :] - fy[:, :-1, :]
    )


def horizontal_diffusion_arguments(size, dtype, rng):
    i, j, k = size
    return uniform(rng, dtype, i + 4, j + 4, k), np.zeros((i, j, k), dtype), uniform(rng, dtype, i, j, k)


def vertical_advection(tendency, w, u, dt):
    """Implicit advection along k: one tridiagonal system for each column, by Thomas's algorithm over whole planes.

    `w` has one row of i more than the others, since winds stand between the columns.
    """
    i, j, k = u.shape
    c = np.ndarray((i, j, k), dtype=u.dtype)
    d = np.ndarray((i, j, k), dtype=u.dtype)
    result = np.ndarray((i, j), dtype=u.dtype)
    for level in range(k):
        below = np.zeros((i, j), dtype=u.dtype)
        above = np.zeros((i, j), dtype=u.dtype)
        correction = np.zeros((i, j), dtype=u.dtype)
        if level > 0:
            below = -0.25 * (w[1:, :, level] + w[:-1, :, level])
            correction += below * (u[:, :, level - 1] - u[:, :, level])
        if level < k - 1:
            above = 0.25 * (w[1:, :, level + 1] + w[:-1, :, level + 1])
            correction += above * (u[:, :, level + 1] - u[:, :, level])
        diagonal = 1.0 / dt - below - above
        rhs = u[:, :, level] / dt + tendency[:, :, level] - 0.5 * correction
        if level == 0:
            c[:, :, level] = above / diagonal
            d[:, :, level] = rhs / diagonal
        else:
            divided = 1.0 / (diagonal - c[:, :, level - 1] * below)
            c[:, :, level] = above * divided
            d[:, :, level] = (rhs - d[:, :, level - 1] * below) * divided
    for level in range(k - 1, -1, -1):
        if level == k - 1:
            result[:] = d[:, :, level]
        else:
            result[:] = d[:, :, level] - c[:, :, level] * result
        tendency[:, :, level] = (result - u[:, :, level]) / dt


def vertical_advection_arguments(size, dtype, rng):
    i, j, k = size
    w = uniform(rng, dtype, i + 1, j, k, low=-0.1, high=0.1)
    return uniform(rng, dtype, i, j, k), w, uniform(rng, dtype, i, j, k), 0.5


CASES = (
    Case(cavity_flow, cavity_flow_arguments, (11, 4, 5), (101, 40, 20), terms=10000),
    Case(channel_flow, channel_flow_arguments, (9, 11, 40), (101, 121, 500), terms=10000),
    Case(horizontal_diffusion, horizontal_diffusion_arguments, (6, 7, 4), (128, 128, 60)),
    Case(vertical_advection, vertical_advection_arguments, (5, 6, 7), (100, 100, 60)),
)
