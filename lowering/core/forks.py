"""Fork safety: whether this process was forked from one with several threads, and locks that are free after a fork.

A forked process has only the thread that called fork, but the libraries in it (torch, OpenMP) count on the threads
that they had started before and would wait for them forever. If there were none, it may start its own.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, TypeVar

Lock = TypeVar("Lock")
PATIENCE = 10.0
"""Seconds that a fork waits for another thread to release an awaited lock."""
_NOT_EXECUTED = 0x40
"""The Linux process flag for "forked, and no exec since"."""
_FORKED: list[bool] = []
_AWAITED: list[Any] = []
_RENEWED: list[Any] = []
_acquired = threading.local()


def watch() -> None:
    """Register fork handlers, and note whether this process was forked itself."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_renew)
    # If torch is not loaded, no library counts on threads.
    if "torch" in sys.modules and _was_forked():
        _note()


def is_forked() -> bool:
    return bool(_FORKED)


def awaited(lock: Lock) -> Lock:
    """Return `lock`, freed in forked processes; a fork waits for it, so that no protected operation is cut short."""
    _AWAITED.append(lock)
    return lock


def renewed(lock: Lock) -> Lock:
    """Return `lock`, freed in forked processes, whoever held it."""
    _RENEWED.append(lock)
    return lock


def _acquire() -> None:
    _acquired.locks = [lock for lock in _AWAITED if lock.acquire(timeout=PATIENCE)]


def _release() -> None:
    for lock in _acquired.locks:
        lock.release()


def _renew() -> None:
    for lock in (*_AWAITED, *_RENEWED):
        lock._at_fork_reinit()
    _note()


def _note() -> None:
    """Note that the parent has other threads. OpenBLAS ends its own before a fork, so they do not count."""
    try:
        threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
    except OSError:
        threads = None
    if threads != 1:
        _FORKED.append(True)


def _was_forked() -> bool:
    try:
        with open("/proc/self/stat") as file:
            # The process name, in brackets, may contain blanks.
            flags = file.read().rpartition(")")[2].split()[6]
    except OSError:
        return False
    return bool(int(flags) & _NOT_EXECUTED)
