"""Whether this process was forked from one that had several threads, since that imported mlirtri.

Takes nothing. Gives yes or no. A forked process has the thread that forked and no other, yet the libraries in it count
on the threads that they had started before, be it for torch or for a kernel, and would wait for them forever. Where
nobody had started any, a forked process may start its own.
"""

from __future__ import annotations

import os

_FORKED: list[bool] = []


def watch() -> None:
    """Note forks from now on."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_note)


def is_forked() -> bool:
    return bool(_FORKED)


def _note() -> None:
    """OpenBLAS ends its threads before a fork by itself; those that are left are the parent's while it goes on."""
    try:
        threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
    except OSError:
        threads = None
    if threads != 1:
        _FORKED.append(True)
