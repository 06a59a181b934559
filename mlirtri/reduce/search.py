"""Delta debugging: take the first smaller candidate that fails, until none does (Zeller and Hildebrandt, Simplifying
and isolating failure-inducing input)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Program = TypeVar("Program")
Item = TypeVar("Item")


def smallest(
    program: Program,
    candidates: Callable[[Program], Iterator[Program]],
    fails: Callable[[Program], bool],
    seconds: float,
    on_smaller: Callable[[Program], None] = lambda program: None,
    on_time_out: Callable[[], None] = lambda: None,
) -> Program:
    """Return the smallest program that is met within the time and for which `fails` holds, as it does for the first.

    `candidates` gives the much smaller ones first. `on_smaller` sees each program that is taken. `on_time_out` is
    called where candidates were left untried.
    """
    end = time.monotonic() + seconds
    try:
        while (smaller := _first(candidates(program), fails, end)) is not None:
            program = smaller
            on_smaller(program)
    except TimeoutError:
        on_time_out()
    return program


def _first(candidates: Iterator[Program], fails: Callable[[Program], bool], end: float) -> Program | None:
    for candidate in candidates:
        if time.monotonic() > end:
            raise TimeoutError
        if fails(candidate):
            return candidate
    return None


def chunks(count: int, least: int = 1) -> Iterator[range]:
    """Yield the positions to drop of `count`: all, each half, each quarter… down to `least` of them, from the end."""
    size = count
    while size >= least and size > 0:
        starts = range(0, count, size)
        yield from (range(start, min(start + size, count)) for start in reversed(starts))
        size //= 2


def without(items: Sequence[Item], dropped: range) -> list[Item]:
    """Return the items whose positions are not dropped."""
    return [item for position, item in enumerate(items) if position not in dropped]
