"""Programs as users of Taichi write them, each with its arguments and what Python gives for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mlirtri as mt


def roots(parent, root):
    """Follow links until one points to itself; the `while` reads an index that is checked."""
    for i in mt.prange(parent.shape[0]):
        r = i
        while parent[r] != r:
            r = parent[r]
        root[i] = r


def roots_in_python(parent, root):
    for i in range(len(parent)):
        r = i
        while parent[r] != r:
            r = parent[r]
        root[i] = r


def histogram(image, counts):
    for i, j in mt.ndrange(image.shape[0], image.shape[1]):
        counts[image[i, j]] += 1


def histogram_in_python(image, counts):
    counts += np.bincount(image.ravel(), minlength=counts.size).astype(counts.dtype)


def walks(last, visits, steps: int, seed):
    """Walk randomly: a hash of 32 bits chooses the directions."""
    middle = visits.shape[0] // 2
    for walker in mt.prange(last.shape[0]):
        state = np.uint32((seed + walker * 747796405) & 0xFFFFFFFF)
        x, y = middle, middle
        for _ in range(steps):
            state = state * np.uint32(1664525) + np.uint32(1013904223)
            direction = (state >> 24) & 3
            if direction == 0:
                x += 1
            elif direction == 1:
                x -= 1
            elif direction == 2:
                y += 1
            else:
                y -= 1
            x, y = min(max(x, 0), 2 * middle - 1), min(max(y, 0), 2 * middle - 1)
            visits[x, y] += 1
        last[walker, 0] = x
        last[walker, 1] = y


def walks_in_python(last, visits, steps, seed):
    middle = visits.shape[0] // 2
    for walker in range(len(last)):
        state, x, y = (seed + walker * 747796405) % (1 << 32), middle, middle
        for _ in range(steps):
            state = (state * 1664525 + 1013904223) % (1 << 32)
            dx, dy = ((1, 0), (-1, 0), (0, 1), (0, -1))[(state >> 24) & 3]
            x, y = min(max(x + dx, 0), 2 * middle - 1), min(max(y + dy, 0), 2 * middle - 1)
            visits[x, y] += 1
        last[walker] = x, y


def random_hits(count: int, seed):
    """Count random points in a circle: products of hashes leave 32 bits."""
    inside = 0
    for i in mt.prange(count):
        state = np.uint32(i) * np.uint32(2654435761) + np.uint32(seed)
        state = (state ^ (state >> 16)) * np.uint32(2246822519)
        x, y = float(state & 65535) / 65536, float(state >> 16) / 65536
        if x * x + y * y < 1:
            inside += 1
    return inside


def random_hits_in_python(count, seed):
    inside = 0
    for i in range(count):
        state = (i * 2654435761 + seed) % (1 << 32)
        state = (state ^ (state >> 16)) * 2246822519 % (1 << 32)
        inside += ((state & 65535) / 65536) ** 2 + ((state >> 16) / 65536) ** 2 < 1
    return inside


def settled(a, b):
    """Let each element become its right neighbour if that is less, until none is; indices are compared with numbers."""
    sweeps, changed = 0, 1
    while changed > 0:
        changed = 0
        for i in mt.serial(40):
            if i < 39:
                if a[i + 1] < a[i]:
                    a[i] = a[i + 1]
                    changed += 1
        sweeps += 1
    for i in mt.prange(40):
        if np.int64(b[i]) < -3 or np.int64(b[i]) >= 9:
            b[i] = 0
    return sweeps


def settled_in_python(a, b):
    sweeps = 40 - int(np.argmin(a[::-1]))
    a[:] = np.minimum.accumulate(a[::-1])[::-1]
    b[(b < -3) | (b >= 9)] = 0
    return sweeps


def links() -> Any:
    parent = np.arange(90) - 7
    parent[:8] = 0, 0, 1, 2, 4, 4, 5, 3
    return parent


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "roots": (roots, roots_in_python, lambda: (links(), np.zeros(90, np.int64))),
    # 40 rows leave some threads of a block without work, 50 columns are a loop that Vulkan drivers do not unroll.
    "histogram": (
        histogram,
        histogram_in_python,
        lambda: (np.arange(2000, dtype=np.uint8).reshape(40, 50) % 77, np.zeros(256, np.int32)),
    ),
    "walks": (walks, walks_in_python, lambda: (np.zeros((30, 2), np.int32), np.zeros((16, 16), np.int32), 40, 5)),
    "settled": (
        settled,
        settled_in_python,
        lambda: (np.arange(40)[::-1].copy(), np.arange(40, dtype=np.int32) - 20),
    ),
    "random hits": (random_hits, random_hits_in_python, lambda: (2000, 3)),
}
