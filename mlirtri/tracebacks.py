"""What a user sees of a traceback: their own frames and the call, not ours.

`Kernel`, `jit` and `resume` raise through `shown_to_user`, so that a traceback ends at the call that was made.
"""

from __future__ import annotations

from mlirtri import settings
from mlirtri.errors import KernelError


def shown_to_user(error: KernelError) -> KernelError:
    """`error` without the frames it came through so far and what caused it; as it is under ``MLIRTRI_DEBUG=1``."""
    if settings.get("MLIRTRI_DEBUG"):
        return error
    error.__cause__ = None
    error.__suppress_context__ = True
    return error.with_traceback(None)
