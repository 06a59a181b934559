"""Sorting, searching and numbers: loops over elements with conditions, early ends and swaps."""

from __future__ import annotations

import numpy as np

from .case import Case, uniform


def bubble_sort(x):
    """In place; stops after a pass that swapped nothing."""
    n = len(x)
    for last in range(n - 1, 0, -1):
        swapped = False
        for i in range(last):
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]
                swapped = True
        if not swapped:
            break


def insertion_sort(x):
    """In place: each element moves left until it stands right."""
    for i in range(1, x.shape[0]):
        value = x[i]
        j = i - 1
        while j >= 0 and x[j] > value:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = value


def shell_sort(x):
    """Insertion sorts of elements ever less far apart (Knuth's gaps)."""
    gap = 1
    while gap < x.size // 3:
        gap = 3 * gap + 1
    while gap >= 1:
        for i in range(gap, x.size):
            value = x[i]
            j = i
            while j >= gap and x[j - gap] > value:
                x[j] = x[j - gap]
                j -= gap
            x[j] = value
        gap //= 3


def sort_arguments(size, dtype, rng):
    (n,) = size
    return ((rng.permutation(n) - n // 3).astype(dtype),)


def binary_search(table, wanted):
    """Where each wanted value stands in a sorted table, -1 where it does not."""
    found = np.empty(wanted.shape, dtype=np.int64)
    for i in range(len(wanted)):
        low, high = 0, len(table) - 1
        place = -1
        while low <= high:
            middle = (low + high) // 2
            if table[middle] == wanted[i]:
                place = middle
                break
            if table[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle - 1
        found[i] = place
    return found


def binary_search_arguments(size, dtype, rng):
    n, wanted = size
    return np.sort(rng.choice(3 * n, n, replace=False)).astype(dtype), rng.integers(0, 3 * n, wanted).astype(dtype)


def prime_sieve(n):
    """Eratosthenes' sieve: which numbers below n are prime, and how many."""
    prime = np.ones(n, dtype=np.bool_)
    prime[:2] = False
    i = 2
    while i * i < n:
        if prime[i]:
            prime[i * i :: i] = False
        i += 1
    return prime, np.count_nonzero(prime)


def prime_sieve_arguments(size, dtype, rng):
    return size


def collatz_lengths(n):
    """How many steps each number takes to come down to 1."""
    lengths = np.zeros(n, dtype=np.int64)
    for start in range(1, n):
        x = start
        steps = 0
        while x != 1:
            if x % 2 == 0:
                x //= 2
            else:
                x = 3 * x + 1
            steps += 1
        lengths[start] = steps
    return lengths


def integrate_adaptive(low, high, tolerance):
    """An integral by Simpson's rule, with intervals split on a stack of our own where they are not yet right."""
    stack = np.zeros((64, 2))
    stack[0, 0] = low
    stack[0, 1] = high
    depth = 1
    total = 0.0
    calls = 0
    while depth > 0:
        depth -= 1
        a, b = stack[depth, 0], stack[depth, 1]
        m = (a + b) / 2
        calls += 1
        whole = simpson(a, b)
        halves = simpson(a, m) + simpson(m, b)
        if abs(halves - whole) < 15 * tolerance * (b - a) or depth > 60:
            total += halves
        else:
            stack[depth, 0], stack[depth, 1] = a, m
            stack[depth + 1] = m, b
            depth += 2
    return total, calls


def simpson(a, b):
    """Simpson's rule on one interval of sin(x²)."""
    m = (a + b) / 2
    return (b - a) / 6 * (np.sin(a * a) + 4 * np.sin(m * m) + np.sin(b * b))


def integrate_adaptive_arguments(size, dtype, rng):
    (high,) = size
    return 0.0, float(high), 1e-6


def median_filter(x, width):
    """The median of a window around each element; windows are cut off at the ends."""
    out = np.empty_like(x)
    half = width // 2
    for i in range(len(x)):
        window = np.sort(x[max(0, i - half) : min(len(x), i + half + 1)])
        out[i] = window[len(window) // 2]
    return out


def median_filter_arguments(size, dtype, rng):
    n, width = size
    return uniform(rng, dtype, n), width


CASES = (
    Case(bubble_sort, sort_arguments, (14,), (800,), ("float64", "float32", "int64")),
    Case(insertion_sort, sort_arguments, (14,), (1500,), ("float64", "float32", "int64")),
    Case(shell_sort, sort_arguments, (20,), (20000,), ("float64", "int64")),
    Case(binary_search, binary_search_arguments, (16, 9), (100000, 10000), ("float64", "int64")),
    Case(prime_sieve, prime_sieve_arguments, (60,), (2000000,), ("int64",)),
    Case(collatz_lengths, prime_sieve_arguments, (30,), (10000,), ("int64",)),
    Case(integrate_adaptive, integrate_adaptive_arguments, (3,), (30,), ("float64",)),
    Case(median_filter, median_filter_arguments, (20, 5), (10000, 9)),
)
