"""The rules and passes that the last compilation skipped because they failed, for `mlirtri doctor --last`.

A compilation in which nothing fails writes nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlirtri.errors import SkippedStep
from mlirtri.settings import cache_folder


@dataclass(frozen=True)
class Failures:
    """What failed in one compilation."""

    kernel: str
    time: str
    """Local time, ``year-month-day hour:minute:second``."""
    steps: tuple[dict[str, str], ...]
    """Per rule or pass its ``step``, ``kernel``, ``reason`` and ``line`` (``file:line:column``, or empty)."""


def failures_file() -> Path:
    """Return the file that holds the failures of the last compilation that had any."""
    return cache_folder() / "failures.json"


def keep_failures(kernel: str, steps: Sequence[SkippedStep]) -> None:
    """Replace the recorded failures by those of this compilation, if the folder can be written."""
    rows = [{"step": step.step, "kernel": step.kernel, "reason": step.reason, "line": str(step.span or "")}
            for step in steps]  # fmt: skip
    text = json.dumps({"kernel": kernel, "time": time.strftime("%Y-%m-%d %H:%M:%S"), "steps": rows})
    try:
        file = failures_file()
        unfinished = file.with_suffix(f".{os.getpid()}")
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)
    except OSError:  # the user has been warned of the failures themselves
        return


def last_failures() -> Failures | None:
    """Return the failures of the last compilation that had any; None where there is none or the file is damaged."""
    try:
        stored = json.loads(failures_file().read_text(encoding="utf-8"))
        return Failures(stored["kernel"], stored["time"], tuple(stored["steps"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
