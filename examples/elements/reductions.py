"""Sums, extrema and counts over parallel loops: each has the same bits for any number of threads."""

from __future__ import annotations

import numpy as np

import mlirtri as mt

from .example import Example


def dot(a, b):
    total = np.float32(0)
    for i in mt.prange(a.shape[0]):
        total += a[i] * b[i]
    return total


def dot_in_numpy(a, b):
    return np.dot(a.astype(np.float64), b)


def histogram(values, counts):
    for i in mt.prange(values.shape[0]):
        counts[values[i]] += 1


def histogram_in_numpy(values, counts):
    counts += np.bincount(values, minlength=counts.shape[0])


def positive(a, out):
    count = np.zeros(1, np.int64)
    for i in mt.prange(a.shape[0]):
        if a[i] <= 0:
            continue
        mt.atomic_add(count[0], 1)
        out[i] = np.sqrt(a[i])
    return count[0]


def positive_nested(a, out):
    count = 0
    for i in mt.prange(a.shape[0]):
        if a[i] <= 0:
            continue
        count += 1
        out[i] = np.sqrt(a[i])
    return count


def positive_in_numpy(a, out):
    out[a > 0] = np.sqrt(a[a > 0])
    return np.count_nonzero(a > 0)


def numbers(scale):
    random = np.random.default_rng(0)
    return random.random(5000 * scale, np.float32), random.random(5000 * scale, np.float32)


def bytes_and_counts(scale):
    return np.random.default_rng(1).integers(0, 256, 5000 * scale), np.zeros(256, np.int64)


def signed(scale):
    return np.random.default_rng(2).standard_normal(5000 * scale, np.float32), np.zeros(5000 * scale, np.float32)


EXAMPLES = (
    Example("dot", dot, numbers, dot_in_numpy),
    Example("histogram", histogram, bytes_and_counts, histogram_in_numpy),
    Example("positive", positive, signed, positive_in_numpy, nested=positive_nested),
)
