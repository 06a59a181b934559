"""Time calls in interleaved rounds, so that a slow moment of the machine affects all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

_SAMPLE_SECONDS = 0.002
"""One sample calls as often as this takes, so that the clock's own cost vanishes."""
_ROUNDS = (5, 30)
Wait = Callable[[], None]
"""Returns when what was launched is done."""


def samples(
    calls: Sequence[Callable[[], Any]], rounds: int | None = None, budget: float = 0.5, wait: Wait | None = None
) -> list[tuple[float, ...]]:
    """Return seconds of each call, once per round; without `rounds`, as many as fit the budget for the slowest call."""
    counts = [_calls_per_sample(call, wait) for call in calls]
    longest = max((seconds for _, seconds in counts), default=_SAMPLE_SECONDS)
    fewest, most = _ROUNDS
    rounds = rounds or min(most, max(fewest, int(budget / longest)))
    taken: list[tuple[float, ...]] = [() for _ in calls]
    for _ in range(rounds):
        for at, (call, (count, _)) in enumerate(zip(calls, counts, strict=True)):
            taken[at] += (_sample(call, count, wait) / count,)
    return taken


def wait_for(device: str) -> Wait | None:
    """Return a function that waits for torch's device; None if execution is synchronous."""
    if device != "cuda":
        return None
    return torch.cuda.synchronize


def _calls_per_sample(call: Callable[[], Any], wait: Wait | None) -> tuple[int, float]:
    """Return the number of calls per sample, and the approximate seconds of a sample."""
    _sample(call, 1, wait)
    single = _sample(call, 1, wait)
    count = max(1, math.ceil(_SAMPLE_SECONDS / max(single, 1e-7)))
    return count, count * single


def _sample(call: Callable[[], Any], count: int, wait: Wait | None) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    if wait is not None:
        wait()
    return time.perf_counter() - start
