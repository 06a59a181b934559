"""Dynamic programming over tables: shortest paths, sequences, folding, packing."""

from __future__ import annotations

import numpy as np

from .case import Case


def floyd_warshall(path):
    """All shortest paths of a graph, from the matrix of its edges' lengths, in place."""
    for k in range(path.shape[0]):
        path[:] = np.minimum(path, np.add.outer(path[:, k], path[k, :]))


def floyd_warshall_rows(path):
    """`floyd_warshall`, row by row."""
    n = path.shape[0]
    for k in range(n):
        for i in range(n):
            path[i, :] = np.minimum(path[i, :], path[i, k] + path[k, :])


def floyd_warshall_arguments(size, dtype, rng):
    (n,) = size
    path = rng.integers(1, 100, (n, n)).astype(dtype)
    path[rng.random((n, n)) < 0.7] = 10000
    np.fill_diagonal(path, 0)
    return (path,)


def pairs(b1, b2):
    """Whether two bases (A C G U as 0 to 3) bind."""
    if b1 + b2 == 3:
        return 1
    return 0


def nussinov(n, sequence):
    """The most base pairs that a strand of RNA can fold into without crossing (Nussinov & Jacobson, 1980)."""
    table = np.zeros((n, n), np.int32)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            if j - 1 >= 0:
                table[i, j] = max(table[i, j], table[i, j - 1])
            if i + 1 < n:
                table[i, j] = max(table[i, j], table[i + 1, j])
            if j - 1 >= 0 and i + 1 < n:
                if i < j - 1:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1] + pairs(sequence[i], sequence[j]))
                else:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table


def nussinov_arguments(size, dtype, rng):
    (n,) = size
    return n, rng.integers(0, 4, n).astype(dtype)


def longest_common_subsequence(a, b):
    """The length of the longest sequence that both contain in order."""
    m, n = len(a), len(b)
    table = np.zeros((m + 1, n + 1), dtype=np.int64)
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            if a[i - 1] == b[j - 1]:
                table[i, j] = table[i - 1, j - 1] + 1
            else:
                table[i, j] = max(table[i - 1, j], table[i, j - 1])
    return table[m, n]


def edit_distance(a, b):
    """Levenshtein's distance with two rows of the table."""
    previous = np.arange(b.shape[0] + 1)
    for i in range(a.shape[0]):
        current = np.empty_like(previous)
        current[0] = i + 1
        for j in range(b.shape[0]):
            cost = 0 if a[i] == b[j] else 1
            current[j + 1] = min(previous[j + 1] + 1, current[j] + 1, previous[j] + cost)
        previous = current
    return previous[-1]


def two_sequences(size, dtype, rng):
    m, n = size
    return rng.integers(0, 5, m).astype(dtype), rng.integers(0, 5, n).astype(dtype)


def knapsack(weights, values, capacity):
    """The best value within a capacity; each thing is taken once or not at all."""
    best = np.zeros(capacity + 1, values.dtype)
    for i in range(len(weights)):
        w = weights[i]
        best[w:] = np.maximum(best[w:], best[: capacity + 1 - w] + values[i])
    return best[capacity]


def knapsack_arguments(size, dtype, rng):
    count, capacity = size
    return rng.integers(1, capacity // 2, count), rng.integers(1, 100, count).astype(dtype), capacity


CASES = (
    Case(floyd_warshall, floyd_warshall_arguments, (13,), (250,), ("int32", "float64", "float32")),
    Case(floyd_warshall_rows, floyd_warshall_arguments, (13,), (250,), ("int32", "float64")),
    Case(nussinov, nussinov_arguments, (14,), (140,), ("int32",)),
    Case(longest_common_subsequence, two_sequences, (12, 15), (600, 560), ("int64", "uint8")),
    Case(edit_distance, two_sequences, (12, 15), (400, 440), ("int64", "uint8")),
    Case(knapsack, knapsack_arguments, (9, 60), (200, 50000), ("int64", "float64")),
)
