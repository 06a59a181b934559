"""Run MetaSchedule's search in another process, so that hangs and crashes there do not end this one.

A process that dies is started again for the rest of its budget, with another seed. Its results so far are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.core.tuning import Budget
from mlirtri.lowering.toolchain.tvm_names import PrimFunc, ir
from mlirtri.lowering.toolchain.worker_process import WorkerProcess

SERVE = "from mlirtri.lowering.schedule.meta.search import serve; serve()"
STARTS = 3
"""Crashes allowed per function."""
START = 120.0
"""Seconds allowed until the process is ready."""
SILENCE = 60.0
"""Seconds without a message after which it counts as hanging."""
GRACE = 10.0
"""Seconds beyond its budget in which it may report its result."""


@dataclass(frozen=True)
class Task:
    """A PrimFunc to search schedules of, and its target."""

    name: str
    function: PrimFunc
    target: Target
    default: PrimFunc | None
    """The function with the schedule that the search has to beat; None where nothing is measured."""

    def request(self, budget: Budget, seed: int) -> dict[str, Any]:
        """Return the message that asks the process for a search."""
        return {
            "function": ir.save_json(self.function),
            "default": None if self.default is None else ir.save_json(self.default),
            "target": [self.target.kind, self.target.architecture, self.target.threads],
            "trials": budget.trials, "seconds": budget.seconds, "seed": seed,
        }  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """The progress of a search; times in seconds."""

    name: str
    """Of the PrimFunc."""
    done: int
    wanted: int
    best: float | None
    default: float | None


@dataclass
class SearchResult:
    """The result of a search. `trace` is None where the default schedule is the fastest, `seconds` where nothing was
    measured.
    """

    trace: str | None = None
    seconds: float | None = None
    default: float | None = None
    trials: int = 0
    failure: str | None = None
    """Why the function has no result."""


class Tuner:
    """The searching process, started when it is first asked and ended with the ``with`` block."""

    def __init__(self) -> None:
        self._worker = WorkerProcess(SERVE)

    def __enter__(self) -> Tuner:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._worker.stop()

    def search(self, task: Task, budget: Budget, on_trial: Callable[[Trial], None] | None) -> SearchResult:
        """Return what the search for schedules of a function finds within the budget."""
        result = SearchResult()

        def tell() -> None:
            if on_trial is not None:
                on_trial(Trial(task.name, result.trials, budget.trials, result.seconds, result.default))

        if not self._worker.is_running and not self._start():
            result.failure = f"the search's process did not start within {START:.0f} seconds"
            return result
        deadline = time.monotonic() + budget.seconds
        for seed in range(1, STARTS + 1):
            remaining = Budget(budget.trials - result.trials, deadline - time.monotonic())
            if seed > 1 and (remaining.trials <= 0 or remaining.seconds <= 0):
                break
            last = deadline + GRACE + SILENCE / 2 * (budget.trials == 0)
            if self._ask(task.request(remaining, seed), result, tell, last):
                return result
        if result.trace is None and result.default is None and result.failure is None:
            result.failure = "the search ended its process, or found nothing in its time"
        return result

    def _ask(self, request: dict[str, Any], result: SearchResult, tell: Callable[[], None], deadline: float) -> bool:
        """Return whether the search was answered to the end; `result` has the results so far."""
        if not self._worker.is_running and not self._start():
            return False
        try:
            self._worker.send(request)
            while (message := self._next(min(SILENCE, deadline - time.monotonic()))) is not None:
                if _note(result, message):
                    return True
                tell()
        except BrokenPipeError:
            pass
        self._worker.stop()
        return False

    def _next(self, seconds: float) -> dict[str, Any] | None:
        try:
            return self._worker.receive(max(0.1, seconds))
        except (TimeoutError, EOFError):
            return None

    def _start(self) -> bool:
        """Return whether the process runs and has loaded TVM, which takes long on a busy machine."""
        self._worker.start()
        if self._next(START) is not None:
            return True
        self._worker.stop()
        return False


def _note(result: SearchResult, message: dict[str, Any]) -> bool:
    """Store a message in `result`; return whether it was the last."""
    if "default" in message and "done" not in message:
        result.default = message["default"]
    elif "found" in message:
        result.trace, result.seconds = message["found"], message["seconds"]
    elif "trial" in message:
        result.trials += 1
    elif "failed" in message:
        result.failure = message["failed"]
    elif "best" in message:
        result.default, result.seconds = message["default"], message["best"]
        if message["best"] >= message["default"]:
            result.trace = None
    return "done" in message or "failed" in message
