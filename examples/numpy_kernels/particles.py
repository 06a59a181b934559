"""Points and bodies: gravity, distances, clusters, images of the plane."""

from __future__ import annotations

import numpy as np

from .case import Case, uniform


def accelerations(position, mass, gravity, softening):
    """The acceleration of each body by all others, from the matrices of their separations."""
    x = position[:, 0:1]
    y = position[:, 1:2]
    z = position[:, 2:3]
    dx = x.T - x
    dy = y.T - y
    dz = z.T - z
    inverse = dx**2 + dy**2 + dz**2 + softening**2
    inverse[inverse > 0] = inverse[inverse > 0] ** (-1.5)
    ax = gravity * (dx * inverse) @ mass
    ay = gravity * (dy * inverse) @ mass
    az = gravity * (dz * inverse) @ mass
    return np.hstack((ax, ay, az))


def energies(position, velocity, mass, gravity):
    """Kinetic and potential energy."""
    kinetic = 0.5 * np.sum(np.sum(mass * velocity**2))
    x = position[:, 0:1]
    y = position[:, 1:2]
    z = position[:, 2:3]
    distance = np.sqrt((x.T - x) ** 2 + (y.T - y) ** 2 + (z.T - z) ** 2)
    distance[distance > 0] = 1.0 / distance[distance > 0]
    potential = gravity * np.sum(np.triu(-(mass * mass.T) * distance, 1))
    return kinetic, potential


def nbody(mass, position, velocity, steps, dt, gravity, softening):
    """Bodies under gravity by leapfrog steps (kick, drift, kick), and their energies after each."""
    velocity -= np.mean(mass * velocity, axis=0) / np.mean(mass)
    acceleration = accelerations(position, mass, gravity, softening)
    kinetic = np.ndarray(steps + 1, dtype=mass.dtype)
    potential = np.ndarray(steps + 1, dtype=mass.dtype)
    kinetic[0], potential[0] = energies(position, velocity, mass, gravity)
    for i in range(steps):
        velocity += acceleration * dt / 2.0
        position += velocity * dt
        acceleration = accelerations(position, mass, gravity, softening)
        velocity += acceleration * dt / 2.0
        kinetic[i + 1], potential[i + 1] = energies(position, velocity, mass, gravity)
    return kinetic, potential


def nbody_arguments(size, dtype, rng):
    n, steps = size
    mass = np.full((n, 1), 20.0 / n, dtype)
    position = rng.normal(size=(n, 3)).astype(dtype)
    return mass, position, rng.normal(size=(n, 3)).astype(dtype), steps, 0.01, 1.0, 0.1


def nbody_pairs(position, velocity, mass, steps, dt):
    """The same by loops over pairs of bodies, each pair once."""
    n = len(mass)
    for _ in range(steps):
        for i in range(n):
            for j in range(i + 1, n):
                d = position[i] - position[j]
                pull = dt / (np.sum(d * d) + 0.01) ** 1.5
                velocity[i] -= d * mass[j] * pull
                velocity[j] += d * mass[i] * pull
        position += dt * velocity


def nbody_pairs_arguments(size, dtype, rng):
    n, steps = size
    return (
        rng.normal(size=(n, 3)).astype(dtype), rng.normal(size=(n, 3)).astype(dtype), uniform(rng, dtype, n), steps,
        0.01,
    )  # fmt: skip


def pairwise_distances(points):
    """Euclidean distances of all pairs, by loops down to the coordinates."""
    n = points.shape[0]
    m = points.shape[1]
    distance = np.zeros((n, n), dtype=points.dtype)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(m):
                step = points[i, k] - points[j, k]
                total += step * step
            distance[i, j] = np.sqrt(total)
    return distance


def pairwise_distances_arguments(size, dtype, rng):
    n, m = size
    return (uniform(rng, dtype, n, m),)


def kmeans_step(points, centres):
    """One step of Lloyd's algorithm: each point to its nearest centre, each centre to its points' mean."""
    distance = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    label = np.argmin(distance, axis=1)
    for k in range(centres.shape[0]):
        mine = label == k
        count = np.sum(mine)
        if count > 0:
            centres[k] = points[mine].sum(axis=0) / count
    return label


def kmeans_step_arguments(size, dtype, rng):
    n, k, m = size
    return uniform(rng, dtype, n, m), uniform(rng, dtype, k, m)


def mandelbrot_masks(left, right, bottom, top, width, height, limit, horizon):
    """When each point of the plane escapes: the points that have not are a mask over the whole image."""
    x = np.linspace(left, right, width)
    y = np.linspace(bottom, top, height)
    c = x + y[:, None] * 1j
    escaped = np.zeros(c.shape, dtype=np.int64)
    z = np.zeros(c.shape, dtype=np.complex128)
    for n in range(limit):
        stays = np.less(abs(z), horizon)
        escaped[stays] = n
        z[stays] = z[stays] ** 2 + c[stays]
    escaped[escaped == limit - 1] = 0
    return z, escaped


def mandelbrot_shrinking(left, right, bottom, top, width, height, limit, horizon):
    """The same with arrays that shrink: points leave them as they escape."""
    rows, columns = np.mgrid[0:width, 0:height]
    x = np.linspace(left, right, width)[rows]
    y = np.linspace(bottom, top, height)[columns]
    c = x + 1j * y
    escaped = np.zeros(c.shape, dtype=np.int64)
    rows = rows.reshape(-1)
    columns = columns.reshape(-1)
    c = c.reshape(-1)
    z = np.zeros(c.shape, np.complex128)
    for i in range(limit):
        if not len(z):
            break
        z = z * z + c
        gone = np.abs(z) > horizon
        escaped[rows[gone], columns[gone]] = i + 1
        stays = ~gone
        rows, columns = rows[stays], columns[stays]
        z, c = z[stays], c[stays]
    return escaped.T


def mandelbrot_arguments(size, dtype, rng):
    width, height, limit = size
    return -2.0, 0.5, -1.25, 1.25, width, height, limit, 2.0


def azimuthal_means(data, radius, bins):
    """The mean of the points in each ring around a centre, ring by ring."""
    farthest = radius.max()
    means = np.zeros(bins, dtype=data.dtype)
    for i in range(bins):
        inner = farthest * i / bins
        outer = farthest * (i + 1) / bins
        ring = np.logical_and(inner <= radius, radius < outer)
        means[i] = data[ring].mean()
    return means


def azimuthal_histograms(data, radius, bins):
    """The same by a weighted and a plain histogram."""
    total = np.histogram(radius, bins, weights=data)[0]
    count = np.histogram(radius, bins)[0]
    return total / count


def azimuthal_arguments(size, dtype, rng):
    n, bins = size
    # Radii on a grid that no ring's edge lies on, but for the largest.
    radius = (rng.integers(0, 64, n) + 0.5) / 64
    radius[0] = 1.0
    return uniform(rng, dtype, n), radius.astype(dtype), bins


CASES = (
    Case(nbody, nbody_arguments, (7, 5), (25, 400), terms=10000),
    Case(nbody_pairs, nbody_pairs_arguments, (6, 4), (24, 20), terms=10000),
    Case(pairwise_distances, pairwise_distances_arguments, (10, 3), (300, 3)),
    Case(kmeans_step, kmeans_step_arguments, (40, 3, 2), (40000, 16, 4)),
    Case(mandelbrot_masks, mandelbrot_arguments, (14, 15, 12), (300, 300, 40), ("float64",), terms=10000),
    Case(mandelbrot_shrinking, mandelbrot_arguments, (14, 15, 12), (300, 300, 40), ("float64",)),
    Case(azimuthal_means, azimuthal_arguments, (300, 10), (200000, 60)),
    Case(azimuthal_histograms, azimuthal_arguments, (300, 10), (200000, 50)),
)
