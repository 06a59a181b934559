"""The option `schedule=`: ``"default"``, ``"none"``, or ``"meta"`` with a budget, ``"meta:trials=200,seconds=30"``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mlirtri.errors import UnknownOptionError

SCHEDULES = ("default", "none", "meta")
_HELP = (
    'use "default", "none", "meta", or "meta:trials=200,seconds=30"; '
    '"meta:trials=0" takes a schedule that nobody has measured'
)


@dataclass(frozen=True)
class Budget:
    trials: int = 64
    """Schedules measured per PrimFunc; 0 measures none and takes the first valid one of the search space."""
    seconds: float = 60.0
    """Wall-clock seconds for a whole kernel."""


def checked_schedule(schedule: Any) -> str:
    """Return `schedule`; raises `UnknownOptionError` if it is no schedule."""
    budget_of(schedule)
    return schedule


def budget_of(schedule: Any) -> Budget | None:
    """Return the budget of a ``"meta"`` schedule, None for others; raises `UnknownOptionError` for an invalid one."""
    name, colon, options = schedule.partition(":") if isinstance(schedule, str) else ("", "", "")
    if name not in SCHEDULES or (colon and name != "meta"):
        raise UnknownOptionError(f"unknown schedule {schedule!r}", help=_HELP)
    if name != "meta":
        return None
    return Budget(**dict(_part(part, schedule) for part in options.split(","))) if colon else Budget()


def _part(text: str, schedule: str) -> tuple[str, Any]:
    match = re.fullmatch(r"\s*(?:(trials)\s*=\s*(\d{1,9})|(seconds)\s*=\s*(\d{1,9}(?:\.\d*)?))\s*", text)
    if match is None:
        raise UnknownOptionError(f"{text!r} says no budget in the schedule {schedule!r}", help=_HELP)
    trials, count, seconds, time = match.groups()
    return (trials, int(count)) if trials else (seconds, float(time))
