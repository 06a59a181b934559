"""Several calls of functions at the same time: in worker processes of our own, or by any executor.

Both classes are used alike: `submit` calls, each with a tag, and take tags with outcomes from `finished` as they come.
An outcome is the function's result, its `KernelError`, or a `ProcessDied` that says why there is neither. Neither class
is thread-safe.
"""

from __future__ import annotations

import math
import select
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import Any

from mlirtri.errors import KernelError
from mlirtri.lowering.toolchain.worker_process import CallProcess, Limits, ProcessDied, ProcessTimedOut

Outcomes = list[tuple[Any, Any]]
"""Tags, and what became of their calls."""
_UNLIMITED = Limits()


@dataclass(frozen=True)
class _Call:
    tag: Any
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class _Running:
    call: _Call | None
    """None while the worker gets ready."""
    deadline: float


class WorkerPool:
    """Worker processes, each of which runs one call at a time. One that takes too long is killed and replaced."""

    def __init__(self, count: int, seconds: float | None, prepare: Callable[..., Any], *arguments: Any) -> None:
        """Start `count` workers, which call `prepare` first; a later call may take `seconds` of wall-clock time."""
        self._count = count
        self._seconds = math.inf if seconds is None else seconds
        self._prepare = _Call(None, prepare, arguments)
        self._queue: deque[_Call] = deque()
        self._free: list[CallProcess] = []
        self._running: dict[CallProcess, _Running] = {}
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        process = CallProcess()
        self._running[process] = _Running(None, math.inf)
        process.begin(_UNLIMITED, self._prepare.function, *self._prepare.arguments)

    def submit(self, tag: object, function: Callable[..., object], *arguments: object) -> None:
        """Queue a call. The function has to be a module's own, and its arguments and result picklable."""
        self._queue.append(_Call(tag, function, arguments))

    def finished(self, patience: float = math.inf) -> Outcomes:
        """Return the calls that have ended; waits for the first one, if there is any, for `patience` seconds.

        Raises `ProcessDied` where a worker does not even start, and the `KernelError` of `prepare`.
        """
        until = time.monotonic() + patience
        while True:
            ended = self._begin_queued()
            ended += [outcome for process in self._ready(0.0 if ended else until) for outcome in self._end(process)]
            if ended or time.monotonic() >= until or not self._is_busy():
                return ended

    def _is_busy(self) -> bool:
        return bool(self._queue) or any(running.call is not None for running in self._running.values())

    def _begin_queued(self) -> Outcomes:
        failed: Outcomes = []
        while self._queue and self._free:
            process, call = self._free.pop(), self._queue.popleft()
            try:
                process.begin(_UNLIMITED, call.function, *call.arguments)
            except ProcessDied as reason:
                failed.append((call.tag, reason))
                continue
            self._running[process] = _Running(call, time.monotonic() + self._seconds)
        starting = sum(running.call is None for running in self._running.values())
        while len(self._queue) > starting and len(self._running) + len(self._free) < self._count:
            self._start()
            starting += 1
        return failed

    def _ready(self, until: float) -> list[CallProcess]:
        """Return the workers that have answered, died, or are late; waits for the first one."""
        until = min([until, *(running.deadline for running in self._running.values())])
        pipes = {process.output: process for process in self._running}
        seconds = None if math.isinf(until) else max(0.0, until - time.monotonic())
        answered = [pipes[pipe] for pipe in select.select(list(pipes), [], [], seconds)[0]]
        now = time.monotonic()
        late = [process for process, running in self._running.items() if running.deadline <= now]
        return [*answered, *(process for process in late if process not in answered)]

    def _end(self, process: CallProcess) -> Outcomes:
        running = self._running.pop(process)
        if running.call is None:
            process.finish(0.0)
            self._free.append(process)
            return []
        outcome: Any
        try:
            outcome = process.finish(0.0)
        except (KernelError, ProcessDied) as problem:
            outcome = problem
        if isinstance(outcome, ProcessTimedOut):
            outcome = ProcessTimedOut(f"ran for more than {self._seconds:g} seconds")
        if process.is_running:
            self._free.append(process)
        return [(running.call.tag, outcome)]

    def stop(self) -> None:
        """Kill all workers, whatever they do."""
        self._queue.clear()
        for process in (*self._free, *self._running):
            process.stop()
        self._free, self._running = [], {}


class ExecutorPool:
    """Calls by an executor of the caller's, which goes on to exist. What runs there cannot be killed."""

    def __init__(self, executor: Executor, seconds: float | None) -> None:
        """Give up all that is left once `seconds` have passed in which no call has ended."""
        self._executor = executor
        self._seconds = math.inf if seconds is None else seconds
        self._tags: dict[Future[Any], Any] = {}
        self._last = time.monotonic()

    def submit(self, tag: object, function: Callable[..., object], *arguments: object) -> None:
        """Start a call as soon as a worker is free; `finished` gives its result beside `tag`."""
        self._tags[self._executor.submit(function, *arguments)] = tag
        self._last = time.monotonic()

    def finished(self, patience: float = math.inf) -> Outcomes:
        """Return the calls that have ended; waits for the first one, if there is any, for `patience` seconds."""
        if not self._tags:
            return []
        left = self._last + self._seconds - time.monotonic()
        seconds = max(0.0, min(patience, left))
        done = wait(self._tags, None if math.isinf(seconds) else seconds, FIRST_COMPLETED).done
        if done:
            self._last = time.monotonic()
            ended = [future for future in self._tags if future in done]
            return [(self._tags.pop(future), _outcome(future)) for future in ended]
        if patience < left:
            return []
        reason = ProcessTimedOut(f"was not done when the executor had ended nothing for {self._seconds:g} seconds")
        tags = list(self._tags.values())
        self.stop()
        return [(tag, reason) for tag in tags]

    def stop(self) -> None:
        """Cancel what does not run yet."""
        for future in self._tags:
            future.cancel()
        self._tags = {}


def _outcome(future: Future[Any]) -> Any:
    try:
        return future.result()
    except KernelError as error:
        return error
    except Exception as problem:  # whatever the executor, or pickling, raises
        return ProcessDied(f"failed in the executor: {type(problem).__name__}: {problem}")
