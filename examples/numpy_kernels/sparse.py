"""Sparse matrices and graphs: rows as index lists, gathers and scatters."""

from __future__ import annotations

import numpy as np

from .case import Case, uniform


def csr_matvec(starts, columns, values, x):
    """A compressed sparse row matrix times a vector: each row gathers what it needs."""
    y = np.empty(starts.size - 1, values.dtype)
    for i in range(starts.size - 1):
        mine = columns[starts[i] : starts[i + 1]]
        v = values[starts[i] : starts[i + 1]]
        y[i] = v @ x[mine]
    return y


def csr_matvec_loops(starts, columns, values, x):
    """The same, element by element."""
    y = np.zeros(starts.size - 1, values.dtype)
    for i in range(starts.size - 1):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total
    return y


def sparse_matrix(rng, dtype, rows, columns, per_row):
    starts = np.concatenate(([0], np.cumsum(rng.integers(0, 2 * per_row + 1, rows))))
    places = rng.integers(0, columns, starts[-1])
    return starts.astype(np.int64), places.astype(np.int64), uniform(rng, dtype, int(starts[-1]))


def csr_matvec_arguments(size, dtype, rng):
    rows, columns, per_row = size
    return *sparse_matrix(rng, dtype, rows, columns, per_row), uniform(rng, dtype, columns)


def pagerank(sources, targets, n, damping, steps):
    """Rank by a random walk over a list of edges; nodes that lead nowhere lead everywhere."""
    degree = np.zeros(n)
    for e in range(sources.shape[0]):
        degree[sources[e]] += 1
    rank = np.full(n, 1.0 / n)
    for _ in range(steps):
        share = np.where(degree > 0, rank / np.maximum(degree, 1), 0.0)
        lost = rank[degree == 0].sum()
        following = np.full(n, (1.0 - damping + damping * lost) / n)
        for e in range(sources.shape[0]):
            following[targets[e]] += damping * share[sources[e]]
        rank = following
    return rank


def pagerank_arguments(size, dtype, rng):
    n, edges, steps = size
    return rng.integers(0, n, edges).astype(dtype), rng.integers(0, n, edges).astype(dtype), n, 0.85, steps


def gather_rows(table, rows, weights):
    """A weighted sum of rows of a table for each sample, and the table's rows after one of each was halved."""
    mixed = np.sum(table[rows] * weights[:, :, None], axis=1)
    table[rows[:, 0]] = 0.5 * mixed
    return mixed


def gather_rows_arguments(size, dtype, rng):
    n, width, samples, each = size
    rows = np.stack([rng.permutation(n)[:samples] for _ in range(each)], axis=1)
    return uniform(rng, dtype, n, width), rows, uniform(rng, dtype, samples, each)


CASES = (
    Case(csr_matvec, csr_matvec_arguments, (12, 10, 3), (20000, 20000, 20)),
    Case(csr_matvec_loops, csr_matvec_arguments, (12, 10, 3), (20000, 20000, 20)),
    Case(pagerank, pagerank_arguments, (12, 40, 5), (5000, 40000, 8), ("int64", "int32")),
    Case(gather_rows, gather_rows_arguments, (12, 5, 7, 3), (20000, 64, 4000, 8)),
)
