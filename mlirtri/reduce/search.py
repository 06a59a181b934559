"""Delta debugging: take the first smaller candidate that fails, until none does (Zeller and Hildebrandt, Simplifying
and isolating failure-inducing input)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, TypeVar

Program = TypeVar("Program")
Item = TypeVar("Item")


def smallest(
    program: Program,
    candidates: Callable[[Program], Iterator[Program]],
    fails: Callable[[Program], bool],
    seconds: float,
    on_smaller: Callable[[Program], None] = lambda program: None,
    on_time_out: Callable[[], None] = lambda: None,
    jobs: int = 1,
) -> Program:
    """Return the smallest program that is met within the time and for which `fails` holds, as it does for the first.

    `candidates` gives the much smaller ones first. `on_smaller` sees each program that is taken. `on_time_out` is
    called where candidates were left untried. So many `jobs` call `fails` at a time, from threads; which program is
    found does not depend on their number.
    """
    end, start = time.monotonic() + seconds, 0
    try:
        with ThreadPoolExecutor(jobs) as pool:
            together = pool.map if jobs > 1 else map
            while (found := _first(_from(start, partial(candidates, program)), fails, end, jobs, together)) is not None:
                start, program = found
                on_smaller(program)
    except TimeoutError:
        on_time_out()
    return program


def _from(start: int, candidates: Callable[[], Iterator[Program]]) -> Iterator[tuple[int, Program]]:
    """Yield the candidates with their positions from `start` on, then those before it.

    What stands before the last one that was taken did not fail a moment ago.
    """
    yield from islice(enumerate(candidates()), start, None)
    yield from islice(enumerate(candidates()), start)


def _first(
    candidates: Iterator[tuple[int, Program]], fails: Callable[[Program], bool], end: float, jobs: int, together: Any
) -> tuple[int, Program] | None:
    """Return the first candidate for which `fails` holds, with its position; so many are tried at a time."""
    while batch := list(islice(candidates, jobs)):
        if time.monotonic() > end:
            raise TimeoutError
        for candidate, is_failing in zip(batch, together(fails, [program for _, program in batch]), strict=True):
            if is_failing:
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
