"""Python's recursion limit, raised where the compiler follows the nesting of a kernel: of its calls and its regions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_MOST = 100_000 if sys.version_info >= (3, 11) else 6_000
"""Frames of Python that a thread's stack has room for; from 3.11 on they take none of it."""


@contextmanager
def more_frames(count: int) -> Iterator[None]:
    """Raise the limit by `count` frames inside the `with` statement."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, min(limit + count, _MOST)))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
