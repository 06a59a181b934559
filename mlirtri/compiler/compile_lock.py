"""The lock of compilations, which also holds back Python's full garbage collections.

A compilation, and an export of torch's, make and free many objects of Python, which starts full collections; each looks
at all objects of torch, TVM and MLIR, a million, and frees next to nothing. They took a third of the time of both.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

from mlirtri.lowering.core.forks import renewed

_YOUNG = 10_000
"""New objects before a collection of the youngest: at Python's 700 these took a tenth of a first compilation."""
_NEVER = 1_000_000
"""Collections of the middle generation before a full one: more than a compilation has. The younger ones go on."""


class HeldCollections:
    """Within its `with` statement, in any thread, Python makes no full collection, and fewer young-generation ones."""

    def __init__(self) -> None:
        self._counting = threading.Lock()
        self._depth = 0
        self._original = gc.get_threshold()

    def __enter__(self) -> HeldCollections:
        with self._counting:
            self._depth += 1
            if self._depth == 1:
                self._original = gc.get_threshold()
                gc.set_threshold(*self._raised())
        return self

    def __exit__(self, *_error: Any) -> None:
        with self._counting:
            self._depth -= 1
            if not self._depth:
                self._restore()

    def _at_fork_reinit(self) -> None:
        """Hold nothing back in a forked process, which has none of the threads that did."""
        self._counting._at_fork_reinit()  # type: ignore[attr-defined]
        if self._depth:
            self._restore()
        self._depth = 0

    def _restore(self) -> None:
        # A program that has set thresholds of its own meanwhile keeps them.
        if gc.get_threshold() == self._raised():
            gc.set_threshold(*self._original)

    def _raised(self) -> tuple[int, int, int]:
        young, middle, full = self._original
        # 0 stands for no collections at all.
        return young and max(young, _YOUNG), middle, max(full, _NEVER)


COLLECTIONS = renewed(HeldCollections())


class CompileLock:
    """A reentrant lock. Inside of its `with` statement Python makes no full collection."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> CompileLock:
        self._lock.acquire()
        COLLECTIONS.__enter__()
        return self

    def __exit__(self, *_error: Any) -> None:
        COLLECTIONS.__exit__()
        self._lock.release()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock without pausing collections; return whether it is held now."""
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Free what `acquire` took."""
        self._lock.release()

    def _at_fork_reinit(self) -> None:
        """Free the lock in a forked process, as `lowering.core.forks` asks of locks."""
        self._lock._at_fork_reinit()  # type: ignore[attr-defined]
