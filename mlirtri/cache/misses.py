"""Say why a kernel is not in the disk cache: which fact or captured value differs from the nearest entry's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from mlirtri import settings
from mlirtri.cache.captures import Differs
from mlirtri.cache.digests import canonical
from mlirtri.cache.entries import Origins
from mlirtri.cache.key import Key
from mlirtri.cache.store import DamagedError, Entry, Store, read
from mlirtri.errors import CacheMissError

_LONGEST = 60


def log(text: str) -> None:
    """Print a line to stderr with ``MLIRTRI_LOG=cache``."""
    if "cache" in settings.get("MLIRTRI_LOG"):
        print(f"disk cache: {text}", file=sys.stderr)


def log_miss(store: Store, key: Key, origins: Origins | None) -> None:
    """Print why a kernel is compiled, with ``MLIRTRI_LOG=cache``; raise under ``MLIRTRI_ASSERT_CACHE_HIT``."""
    if settings.get("MLIRTRI_ASSERT_CACHE_HIT"):
        raise CacheMissError(explain_miss(store, key, origins), help="MLIRTRI_ASSERT_CACHE_HIT is set")
    if "cache" in settings.get("MLIRTRI_LOG"):
        log(explain_miss(store, key, origins))


def explain_miss(store: Store, key: Key, origins: Origins | None) -> str:
    """Return, as a sentence, which fact or captured value differs from the nearest entry's."""
    start = f"{key.name} has to be compiled: "
    entries = [entry for entry in _all(store) if entry.manifest.get("kernel") == key.name]
    if not entries:
        return f"{start}the disk cache in {store.root} has no entry of that name"
    nearest = min(entries, key=lambda entry: len(differing(entry, key.facts)))
    facts = differing(nearest, key.facts)
    if facts:
        return start + "; ".join(shown(name, nearest.manifest["facts"], key.facts) for name in facts)
    try:
        if origins is not None:
            origins.now([(path, value) for path, value in nearest.manifest["captures"]])
    except Differs as difference:
        return f"{start}the captured value {difference} is another one in entry {nearest.name}"
    return f"{start}entry {nearest.name} cannot be read"


def _all(store: Store) -> list[Entry]:
    misses = []
    for folder in store.all_folders():
        try:
            misses.append(read(folder))
        except (DamagedError, OSError):
            continue
    return misses


def differing(entry: Entry, facts: Mapping[str, object]) -> list[str]:
    """Return the names of the facts that differ from an entry's, in order."""
    stored = entry.manifest["facts"]
    return [name for name in facts if canonical(stored.get(name)) != canonical(facts[name])]


def shown(name: str, stored: Mapping[str, object], now: Mapping[str, object]) -> str:
    """Return a sentence on a fact that differs."""
    old, new = stored.get(name), now[name]
    if isinstance(old, dict) and isinstance(new, dict):
        parts = [part for part in {**old, **new} if old.get(part) != new.get(part)]
        return f"{name} differs in " + ", ".join(f"{part}: {old.get(part)} -> {new.get(part)}" for part in parts)
    if name == "source":
        return "the text of the function differs" + _first_line(str(old), str(new))
    return f"{name} differs: {_short(old)} -> {_short(new)}"


def _first_line(old: str, new: str) -> str:
    for before, after in zip(old.splitlines(), new.splitlines(), strict=False):
        if before != after:
            return f": {_short(before.strip())} -> {_short(after.strip())}"
    return ""


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else canonical(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
