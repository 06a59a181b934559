"""The MLIR context that compilations of one process share, one after the other, with the pass managers made for it.

A new context with our dialect takes 4 ms to make and to free, and a pass manager builds the patterns of its passes when
it first runs: together a tenth of the compilation of a small kernel. A context never frees the attributes, types and
locations that were made in it, so that it is left for a new one after some compilations, or before if they were large.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mlirtri.dialect.bindings.mlir import ir, passmanager
from mlirtri.dialect.definition import new_context

MOST_COMPILATIONS = 100
MOST_LETTERS = 4_000_000
"""Of complete texts of modules, which have the constants in them: how much a context may keep, roughly in bytes."""


class WorkingContext:
    """A context for the thread that holds the lock of compilations; other threads get others."""

    def __init__(self) -> None:
        self.context = new_context()
        self.compilations = 0
        self.letters = 0
        self.managers: dict[str, passmanager.PassManager] = {}
        """By the text of the pipeline; a manager is run again on other modules."""

    @property
    def is_used_up(self) -> bool:
        return self.compilations >= MOST_COMPILATIONS or self.letters >= MOST_LETTERS


class _PerThread(threading.local):
    working: WorkingContext | None = None


_PER_THREAD = _PerThread()


def working_context() -> ir.Context:
    """Return the context with `tri` for one compilation, which earlier ones of this thread may have used."""
    working = _PER_THREAD.working
    if working is None or working.is_used_up:
        working = _PER_THREAD.working = WorkingContext()
    working.compilations += 1
    return working.context


def note_letters(letters: int) -> None:
    """Count the text of a module towards what the context of this thread may keep."""
    if _PER_THREAD.working is not None:
        _PER_THREAD.working.letters += letters


def leave_context() -> None:
    """Let the next compilation of this thread have a new context, as after a pass that failed."""
    _PER_THREAD.working = None


def pass_manager(
    text: str, context: ir.Context, make: Callable[[str, ir.Context], passmanager.PassManager]
) -> passmanager.PassManager:
    """Return `make(text, context)`; in the thread's working context what it gave for the same text before."""
    working = _PER_THREAD.working
    if working is None or working.context is not context:
        return make(text, context)
    if text not in working.managers:
        working.managers[text] = make(text, context)
    return working.managers[text]
