"""Particles that attract each other: each iteration has an array of its own."""

from __future__ import annotations

import numpy as np

import mlirtri as mt

from .example import Example


def n_body(positions, masses, forces):
    for i in mt.prange(positions.shape[0]):
        force = np.zeros(3, np.float32)
        for j in range(positions.shape[0]):
            dx = positions[j, 0] - positions[i, 0]
            dy = positions[j, 1] - positions[i, 1]
            dz = positions[j, 2] - positions[i, 2]
            squared = dx * dx + dy * dy + dz * dz + np.float32(0.01)
            pull = masses[j] / (squared * np.sqrt(squared))
            force[0] += dx * pull
            force[1] += dy * pull
            force[2] += dz * pull
        for axis in range(3):
            forces[i, axis] = force[axis]


def n_body_in_numpy(positions, masses, forces):
    apart = positions[None] - positions[:, None]
    squared = (apart**2).sum(2) + np.float32(0.01)
    forces[...] = (apart * (masses / (squared * np.sqrt(squared)))[..., None]).sum(1)


def bodies(scale):
    random = np.random.default_rng(0)
    count = 60 * scale
    return random.random((count, 3), np.float32), random.random(count, np.float32), np.zeros((count, 3), np.float32)


EXAMPLES = (Example("n_body", n_body, bodies, n_body_in_numpy, 1e-3),)
