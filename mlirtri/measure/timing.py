"""Time calls in interleaved rounds, so that a slow moment of the machine affects all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_SAMPLE_SECONDS = 0.002
"""One sample calls as often as this takes, so that the clock's own cost vanishes."""
_ROUNDS = (5, 30)
Wait = Callable[[], None]
"""Returns when what was launched is done."""


@dataclass(frozen=True)
class Timed:
    """A call to time, and what restores its arguments before."""

    call: Callable[[], Any]
    prepare: Callable[[], Any] | None = None
    """Runs before each call and is not timed: restores what the call writes."""

    def prepared(self) -> Any:
        """Restore what the call writes, and call; return the results."""
        if self.prepare is not None:
            self.prepare()
        return self.call()


def samples(
    calls: Sequence[Timed], rounds: int | None = None, budget: float = 0.5, wait: Wait | None = None
) -> list[tuple[float, ...]]:
    """Return seconds of each call, once per round; without `rounds`, as many as fit the budget for the slowest call."""
    counts = [_calls_per_sample(timed, wait) for timed in calls]
    longest = max((seconds for _, seconds in counts), default=_SAMPLE_SECONDS)
    fewest, most = _ROUNDS
    rounds = rounds or min(most, max(fewest, int(budget / longest)))
    per_call: list[tuple[float, ...]] = [() for _ in calls]
    for _ in range(rounds):
        for position, (timed, (count, _)) in enumerate(zip(calls, counts, strict=True)):
            per_call[position] += (_sample(timed, count, wait) / count,)
    return per_call


def wait_for(device: str) -> Wait | None:
    """Return a function that waits for torch's device; None if execution is synchronous."""
    if device != "cuda":
        return None
    return torch.cuda.synchronize


def _calls_per_sample(timed: Timed, wait: Wait | None) -> tuple[int, float]:
    _sample(timed, 1, wait)
    start = time.perf_counter()
    _sample(timed, 1, wait)
    single = time.perf_counter() - start
    count = max(1, math.ceil(_SAMPLE_SECONDS / max(single, 1e-7)))
    return count, count * single


def _sample(timed: Timed, count: int, wait: Wait | None) -> float:
    if timed.prepare is None:
        return _seconds(timed.call, count, wait)
    total = 0.0
    for _ in range(count):
        timed.prepare()
        if wait is not None:
            wait()
        total += _seconds(timed.call, 1, wait)
    return total


def _seconds(call: Callable[[], Any], count: int, wait: Wait | None) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    if wait is not None:
        wait()
    return time.perf_counter() - start
