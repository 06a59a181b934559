"""The file of what was measured: schedules that a search found, and configurations that `autotune` chose.

Takes a key, which says all that a finding depends on, and a finding that JSON can hold. Gives it back to every later
process. The file is ``MLIRTRI_TUNING_FILE``: a line of JSON per finding, of which the last one of a key counts, so that
several processes may write at once and a line that was cut short spoils no other. It holds data, never code.
A file that cannot be written costs a warning, not the kernel.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from mlirtri import settings


def tuning_file() -> Path:
    """Return the path of the tuning file."""
    if (named := settings.get("MLIRTRI_TUNING_FILE")) is not None:
        return named
    return settings.cache_folder() / "tuning.jsonl"


def recall(key: str) -> dict[str, Any] | None:
    """Return the last finding under `key`; None if there is none."""
    try:
        text = tuning_file().read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in reversed(text.splitlines()):
        if key in line and (found := _parsed(line)).get("key") == key:
            return found
    return None


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def remember(key: str, finding: dict[str, Any]) -> None:
    """Append a finding, in one write."""
    line = json.dumps({"key": key, **finding})
    path = tuning_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as file:
            # A newline before as well: whatever was cut short there stays a line of its own.
            file.write(f"\n{line}\n".encode())
    except OSError as problem:
        warnings.warn(f"what was measured is not kept: {problem}; MLIRTRI_TUNING_FILE names another file", stacklevel=2)
