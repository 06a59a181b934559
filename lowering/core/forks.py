"""What a forked process needs to know and to find free: its threads, which are one, and mlirtri's locks.

Takes nothing. Gives whether this process was forked from one that had several threads. A forked process has the thread
that forked and no other, yet the libraries in it count on the threads that they had started before, be it for torch or
for a kernel, and would wait for them forever. Where nobody had started any, a forked process may start its own.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

PATIENCE = 10.0
"""Seconds that a fork waits for another thread to end what a process in the middle of it could not go on with."""
_NOT_EXECUTED = 0x40
"""The flag by which Linux marks processes that were forked and have not become another program since."""
_FORKED: list[bool] = []
_AWAITED: list[Any] = []
_RENEWED: list[Any] = []
_held = threading.local()


def watch() -> None:
    """Note forks from now on, and the one that this process comes from."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_wait, after_in_parent=_go_on, after_in_child=_begin)
    # Where torch is not loaded yet there is nobody who would count on threads.
    if "torch" in sys.modules and _was_forked():
        _note()


def is_forked() -> bool:
    return bool(_FORKED)


def awaited(lock: Any) -> Any:
    """`lock`, which is free in forked processes: a fork waits for it, so that what it is for is not half done there."""
    _AWAITED.append(lock)
    return lock


def renewed(lock: Any) -> Any:
    """`lock`, which is free in forked processes, whoever had it before."""
    _RENEWED.append(lock)
    return lock


def _wait() -> None:
    _held.locks = [lock for lock in _AWAITED if lock.acquire(timeout=PATIENCE)]


def _go_on() -> None:
    for lock in _held.locks:
        lock.release()


def _begin() -> None:
    for lock in (*_AWAITED, *_RENEWED):
        lock._at_fork_reinit()
    _note()


def _note() -> None:
    """OpenBLAS ends its threads before a fork by itself; those that are left are the parent's while it goes on."""
    try:
        threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
    except OSError:
        threads = None
    if threads != 1:
        _FORKED.append(True)


def _was_forked() -> bool:
    try:
        with open("/proc/self/stat") as file:
            # The name, in brackets, may hold blanks.
            flags = file.read().rpartition(")")[2].split()[6]
    except OSError:
        return False
    return bool(int(flags) & _NOT_EXECUTED)
