"""The file of measurements: schedules that a search found, and configurations that `autotune` chose.

``MLIRTRI_TUNING_FILE`` has a line of JSON per finding, of which the last one of a key counts, so that several processes
may write at once and a line that was cut short spoils no other. A file that cannot be written costs a warning.
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
        if key in line and (finding := _parsed(line)).get("key") == key:
            return finding
    return None


def _parsed(line: str) -> dict[str, Any]:
    try:
        finding = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return finding if isinstance(finding, dict) else {}


def remember(key: str, finding: dict[str, Any]) -> None:
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
