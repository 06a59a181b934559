"""Whether this process was forked since it imported mlirtri.

Takes nothing. Gives yes or no. A forked process has the thread that forked and no other, yet the libraries in it count
on the threads that they had started before, be it for torch or for a kernel, and would wait for them forever.
"""

from __future__ import annotations

import os

_FORKED: list[bool] = []


def watch() -> None:
    """Note forks from now on."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _FORKED.append(True))


def is_forked() -> bool:
    return bool(_FORKED)
