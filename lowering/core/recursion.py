"""Python's recursion limit, raised where the compiler follows the nesting of a kernel: of its calls and its regions."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MAXIMUM = 100_000 if sys.version_info >= (3, 11) else 6_000
"""Frames of Python that a thread's stack has room for; from 3.11 on they take none of it."""


class _RaisedLimit:
    """The limit, which is the process's own plus the frames of every `with` statement that any thread is inside of.

    Each thread restoring what it found would set a limit below the depth at which another one still is.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._original = 0
        self._frames: list[int] = []

    def enter(self, count: int) -> None:
        with self._lock:
            if not self._frames:
                self._original = sys.getrecursionlimit()
            self._frames.append(count)
            self._set()

    def leave(self, count: int) -> None:
        with self._lock:
            self._frames.remove(count)
            self._set()

    def _set(self) -> None:
        sys.setrecursionlimit(max(self._original, min(self._original + sum(self._frames), _MAXIMUM)))


_RAISED = _RaisedLimit()


@contextmanager
def more_frames(count: int) -> Iterator[None]:
    """Raise the limit by `count` frames inside the `with` statement; threads may be inside at the same time."""
    _RAISED.enter(count)
    try:
        yield
    finally:
        _RAISED.leave(count)
