"""Grids: neighbours of each point, a parallel loop in a serial one, and bounds that are known at run time only."""

from __future__ import annotations

import numpy as np

import mlirtri as mt

from .example import Example


def jacobi(a, b, steps: mt.int64):
    change = np.float32(0)
    for _ in mt.serial(steps):
        for i in mt.prange(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                b[i, j] = np.float32(0.25) * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
        change = np.float32(0)
        for i in mt.prange(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                change = max(change, abs(b[i, j] - a[i, j]))
                a[i, j] = b[i, j]
    return change


def jacobi_in_numpy(a, b, steps):
    for _ in range(steps):
        b[1:-1, 1:-1] = np.float32(0.25) * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        change = np.abs(b - a)[1:-1, 1:-1].max()
        a[1:-1, 1:-1] = b[1:-1, 1:-1]
    return change


def inside(a, out, top: mt.int64, bottom: mt.int64, left: mt.int64, right: mt.int64):
    for i, j in mt.ndrange((top, bottom), (left, right)):
        out[i, j] = np.sqrt(a[i, j]) + a[i, j] * a[i, j]


def inside_nested(a, out, top, bottom, left, right):
    for i in mt.prange(top, bottom):
        for j in range(left, right):
            out[i, j] = np.sqrt(a[i, j]) + a[i, j] * a[i, j]


def inside_in_numpy(a, out, top, bottom, left, right):
    window = a[top:bottom, left:right]
    out[top:bottom, left:right] = np.sqrt(window) + window * window


def march(field, depth, step, farthest):
    """Walk from each pixel into a field of spheres, by the distance to the next one, until one is hit."""
    for i in mt.prange(depth.shape[0]):
        for j in range(depth.shape[1]):
            x, y, z = np.float32(j) * step, np.float32(i) * step, np.float32(0)
            distance, rounds = np.float32(1), 0
            while z < farthest and distance > np.float32(1e-3) and rounds < 60:
                distance = farthest
                for k in range(field.shape[0]):
                    dx, dy, dz = x - field[k, 0], y - field[k, 1], z - field[k, 2]
                    distance = min(distance, np.sqrt(dx * dx + dy * dy + dz * dz) - field[k, 3])
                z += distance
                rounds += 1
            depth[i, j] = min(z, farthest)


def march_in_numpy(field, depth, step, farthest):
    step, farthest = np.float32(step), np.float32(farthest)
    rows, columns = np.indices(depth.shape, np.float32) * step
    z, distance = np.zeros_like(depth), np.ones_like(depth)
    for _ in range(60):
        going = (z < farthest) & (distance > np.float32(1e-3))
        gaps = [np.sqrt((columns - x) ** 2 + (rows - y) ** 2 + (z - c) ** 2) - radius for x, y, c, radius in field]
        distance = np.where(going, np.minimum(np.min(gaps, 0), farthest), distance)
        z = np.where(going, z + distance, z)
    depth[...] = np.minimum(z, farthest)


def plates(scale):
    a = np.random.default_rng(0).random((40 * scale, 50), np.float32)
    return a, a.copy(), 5


def window(scale):
    a = np.random.default_rng(1).random((60 * scale, 70), np.float32)
    return a, np.zeros_like(a), 3, 60 * scale - 7, 5, 66


def spheres(scale):
    random = np.random.default_rng(2)
    field = np.concatenate([random.random((6, 3)) * [4, 4, 5] + [0, 0, 2], random.random((6, 1))], 1)
    return field.astype(np.float32), np.zeros((20 * scale, 40), np.float32), np.float32(0.1), np.float32(20)


EXAMPLES = (
    Example("jacobi", jacobi, plates, jacobi_in_numpy),
    Example("inside", inside, window, inside_in_numpy, nested=inside_nested),
    Example("march", march, spheres, march_in_numpy, 1e-3),
)
