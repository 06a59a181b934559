"""The option `schedule=`, and the file that keeps what searches for schedules and `autotune` measured.

The option is ``"default"``, ``"none"``, or ``"meta"`` with a budget, ``"meta:trials=200,seconds=30"``.
``MLIRTRI_TUNING_FILE`` has a line of JSON per finding, of which the last one of a key counts, so that several processes
may write at once and a line that was cut short spoils no other. A file that cannot be written costs a warning.
"""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mlirtri import settings
from mlirtri.errors import UnknownOptionError

Finding: TypeAlias = "dict[str, Any]"
"""What was measured, as JSON."""

SCHEDULES = ("default", "none", "meta")
_HELP = (
    'use "default", "none", "meta", or "meta:trials=200,seconds=30"; '
    '"meta:trials=0" takes a schedule that nobody has measured'
)


@dataclass(frozen=True)
class Budget:
    """How long a search for schedules may take."""

    trials: int = 64
    """Schedules measured per PrimFunc; 0 measures none and takes the first valid one of the search space."""
    seconds: float = 60.0
    """Wall-clock seconds for a whole kernel."""


def checked_schedule(schedule: object) -> str:
    """Return `schedule`; raises `UnknownOptionError` if it is no schedule."""
    budget_of(schedule)
    return str(schedule)


def _unknown(schedule: object) -> UnknownOptionError:
    return UnknownOptionError(f"unknown schedule {schedule!r}", help=_HELP)


def budget_of(schedule: object) -> Budget | None:
    """Return the budget of a ``"meta"`` schedule, None for others; raises `UnknownOptionError` for an invalid one."""
    if not isinstance(schedule, str):
        raise _unknown(schedule)
    name, colon, options = schedule.partition(":")
    if name not in SCHEDULES or (colon and name != "meta"):
        raise _unknown(schedule)
    if name != "meta":
        return None
    return Budget(**dict(_part(part, schedule) for part in options.split(","))) if colon else Budget()


def _part(text: str, schedule: str) -> tuple[str, Any]:
    match = re.fullmatch(r"\s*(?:(trials)\s*=\s*(\d{1,9})|(seconds)\s*=\s*(\d{1,9}(?:\.\d*)?))\s*", text)
    if match is None:
        raise UnknownOptionError(f"{text!r} says no budget in the schedule {schedule!r}", help=_HELP)
    trials, count, seconds, time = match.groups()
    return (trials, int(count)) if trials else (seconds, float(time))


def tuning_file() -> Path:
    """Return the path of the tuning file."""
    if (named := settings.get("MLIRTRI_TUNING_FILE")) is not None:
        return named
    return settings.cache_folder() / "tuning.jsonl"


def recall(key: str) -> Finding | None:
    """Return the last finding under `key`; None if there is none."""
    try:
        text = tuning_file().read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in reversed(text.splitlines()):
        if key in line and (finding := _parsed(line)).get("key") == key:
            return finding
    return None


def _parsed(line: str) -> dict[str, Any]:
    try:
        finding = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return finding if isinstance(finding, dict) else {}


def remember(key: str, finding: Finding) -> None:
    """Append a finding, in one write."""
    line = json.dumps({"key": key, **finding})
    try:
        path = tuning_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as file:
            # A newline before as well: whatever was cut short there stays a line of its own.
            file.write(f"\n{line}\n".encode())
    except OSError as problem:
        text = f"what was measured is not kept: {problem}; MLIRTRI_TUNING_FILE names another file"
        warnings.warn(text, stacklevel=settings.users_stacklevel())
