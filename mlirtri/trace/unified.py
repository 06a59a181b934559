"""Differences of two texts as unified diffs, in which renamed SSA values are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from mlirtri.trace.normal_names import Correspondence, with_normal_names

Step = tuple[str, int, int]
"""``" "``, ``"-"`` or ``"+"``, with the numbers of the line before and after."""


def unified_diff(kind: str, before: str, after: str, names: tuple[str, str], context: int = 3) -> str:
    """Return a unified diff of two texts of one kind, which shows them as they are; empty where none differs."""
    old, new = before.splitlines(), after.splitlines()
    # Names help to find the lines that belong together, unless all have changed.
    found = [difference(kind, before, after, with_stems) for with_stems in (True, False)]
    steps = min(found, key=lambda each: sum(step[0] != " " for step in each))
    lines = [line for hunk in _hunks(steps, context) for line in _shown(hunk, old, new)]
    return "\n".join([f"--- {names[0]}", f"+++ {names[1]}", *lines]) if lines else ""


def difference(kind: str, before: str, after: str, with_stems: bool = True) -> list[Step]:
    """Return every line of both texts, in order: in both, only before, or only after.

    Lines are aligned by what is left without the numbers of names, or without the names.
    """
    old, new = before.splitlines(), after.splitlines()
    sides = [with_normal_names(kind, text, with_stems) for text in (before, after)]
    matcher = SequenceMatcher(None, *sides, autojunk=False)
    values = Correspondence(kind)
    steps: list[Step] = []
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            steps += [("-", number, new_start) for number in range(start, end)]
            steps += [("+", end, number) for number in range(new_start, new_end)]
            continue
        for number, other in zip(range(start, end), range(new_start, new_end), strict=True):
            same = values.agrees(old[number], new[other])
            steps += [(" ", number, other)] if same else [("-", number, other), ("+", number + 1, other)]
    return steps


def _hunks(steps: Sequence[Step], context: int) -> Iterator[list[Step]]:
    changed = [number for number, step in enumerate(steps) if step[0] != " "]
    kept = {near for number in changed for near in range(number - context, number + context + 1)}
    hunk: list[Step] = []
    for number, step in enumerate(steps):
        if number in kept:
            hunk.append(step)
        elif hunk:
            yield hunk
            hunk = []
    if hunk:
        yield hunk


def _shown(hunk: Sequence[Step], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    removed, added = (sum(step[0] in kinds for step in hunk) for kinds in (" -", " +"))
    yield f"@@ -{hunk[0][1] + 1},{removed} +{hunk[0][2] + 1},{added} @@"
    for kind, number, other in hunk:
        yield f"{kind}{old[number] if kind == '-' else new[other]}"
