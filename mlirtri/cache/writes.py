"""Locks between processes, and writing in the background: the first result of a kernel does not wait for the disk.

A key is locked from before its compilation until its entry is written, so that other processes wait for the entry. The
writes of this process run one after the other under the lock of compilations, since they print IR and make object code.
A process that is about to wait for another finishes its own writes first: no two wait for each other.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from mlirtri.compiler.records import COMPILING

PATIENCE = 120.0
"""Seconds that a process waits for another that compiles the same kernel; then it compiles it, too."""
_LONGEST_SLEEP = 0.1


class FileLock:
    """A lock that one process at a time holds; the end of the process, however it ends, frees it."""

    def __init__(self, path: Path):
        self.path = path
        self._file: int | None = None

    def acquire(self, patience: float = PATIENCE) -> bool:
        """Take the lock; return False after `patience` seconds, or where the file system has no locks."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:  # writing the entry will say so
            return False
        if _locked(file, 0.0) or (finish_writes() and _locked(file, patience)):
            self._file = file
            return True
        os.close(file)
        return False

    def release(self) -> None:
        """Free the lock, also where a process that was forked meanwhile has the file open."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = None


def _locked(file: int, patience: float) -> bool:
    deadline, sleep = time.monotonic() + patience, 0.005
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        except OSError:  # the file system has no locks
            return False
        time.sleep(sleep)
        sleep = min(_LONGEST_SLEEP, sleep * 1.5)


_PENDING: deque[Callable[[], None]] = deque()


def write_later(write: Callable[[], None]) -> None:
    """Run `write` in a background thread once no kernel is compiled; Python's exit waits for it."""
    _PENDING.append(write)
    try:
        threading.Thread(target=_write_next, name="mlirtri-cache").start()
    except RuntimeError:  # Python is ending, and starts no threads any more
        finish_writes()


def _write_next() -> None:
    # Taken under the lock: whoever compiles may write what is left instead.
    with COMPILING:
        if _PENDING:
            _PENDING.popleft()()


def finish_writes() -> bool:
    """Run all pending writes in this thread; return True."""
    with COMPILING:
        while _PENDING:
            _PENDING.popleft()()
    return True


if hasattr(os, "register_at_fork"):
    # A forked process leaves the writes to the one that it was forked from.
    os.register_at_fork(after_in_child=_PENDING.clear)
