"""Compare two texts as unified diffs, in which renamed SSA values are no differences.

Lines are aligned by what is left of them without the names of values. Two aligned lines are the same if each value of
the one always stands where the same value of the other stands.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

Step = tuple[str, int, int]
"""``" "``, ``"-"`` or ``"+"``, with the numbers of the line before and after."""


def unified_diff(kind: str, before: str, after: str, names: tuple[str, str], context: int = 3) -> str:
    """Return a unified diff of two texts of one kind, which shows them as they are; empty where none differs."""
    old, new = before.splitlines(), after.splitlines()
    # Names help to find the lines that belong together, unless all have changed.
    differences = [difference(kind, before, after, with_stems) for with_stems in (True, False)]
    steps = min(differences, key=lambda edits: sum(step[0] != " " for step in edits))
    lines = [line for hunk in _hunks(steps, context) for line in _shown(hunk, old, new)]
    return "\n".join([f"--- {names[0]}", f"+++ {names[1]}", *lines]) if lines else ""


def difference(kind: str, before: str, after: str, with_stems: bool = True) -> list[Step]:
    """Return every line of both texts, in order: in both, only before, or only after.

    Lines are aligned by what is left without the numbers of names, or without the names.
    """
    old, new = before.splitlines(), after.splitlines()
    sides = [with_normal_names(kind, text, with_stems) for text in (before, after)]
    values = Correspondence(kind)
    steps: list[Step] = []
    for is_equal, start, end, new_start, new_end in _aligned(*sides):
        if not is_equal:
            steps += [("-", number, new_start) for number in range(start, end)]
            steps += [("+", end, number) for number in range(new_start, new_end)]
            continue
        for number, other in zip(range(start, end), range(new_start, new_end), strict=True):
            same = values.agrees(old[number], new[other])
            steps += [(" ", number, other)] if same else [("-", number, other), ("+", number + 1, other)]
    return steps


_QUADRATIC = 4_000_000
"""Pairs of lines up to which every pair may be looked at."""


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[bool, int, int, int, int]]:
    """Yield ranges of both sequences, in order, and whether they are equal.

    Long ones are first cut at lines that both have once, in the order of the longest increasing sequence (as "patience
    diff" does): lines that most of a text consists of would take the square of its length.
    """
    if len(old) * len(new) <= _QUADRATIC:
        anchors: list[tuple[int, int]] = []
    else:
        places = {line: number for number, line in enumerate(new)}
        once = {line for line, times in Counter(old).items() if times == 1}
        once &= {line for line, times in Counter(new).items() if times == 1}
        anchors = _increasing([(number, places[line]) for number, line in enumerate(old) if line in once])
    start = new_start = 0
    for end, new_end in [*anchors, (len(old), len(new))]:
        part, other = old[start:end], new[new_start:new_end]
        is_long = len(part) * len(other) > _QUADRATIC
        for tag, *borders in SequenceMatcher(None, part, other, autojunk=is_long).get_opcodes():
            first, last, new_first, new_last = borders
            at, new_at = start + first, new_start + new_first
            if tag == "replace" and is_long and (last - first) * (new_last - new_first) <= _QUADRATIC:
                # What the matcher took for junk.
                for is_equal, *shifted in _aligned(part[first:last], other[new_first:new_last]):
                    yield is_equal, at + shifted[0], at + shifted[1], new_at + shifted[2], new_at + shifted[3]
            else:
                yield tag == "equal", at, start + last, new_at, new_start + new_last
        if end < len(old) and new_end < len(new):
            yield True, end, end + 1, new_end, new_end + 1
        start, new_start = end + 1, new_end + 1


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of pairs, sorted by the first numbers, in which the second ones increase, too."""
    ends: list[int] = []
    """For each length, the last second number of the part that ends lowest."""
    last: list[int] = []
    before: list[int | None] = []
    for number, (_, second) in enumerate(pairs):
        place = bisect_left(ends, second)
        before.append(last[place - 1] if place else None)
        # One longer than all, or one of its length that ends lower.
        ends[place : place + 1] = [second]
        last[place : place + 1] = [number]
    found: list[tuple[int, int]] = []
    at = last[-1] if last else None
    while at is not None:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


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


_COUNTED = {
    "mlir": re.compile(r"(%[A-Za-z_$.\-][\w$.\-]*?|%|\^bb|#map|#set|#loc|#attr|@__constant_\w*?)(_?\d+)?(?![\w$.])"),
    "llvm": re.compile(r"(%[A-Za-z_$.\-][\w$.\-]*?|%|!|#)(\.?\d+)?(?![\w$])"),
    "asm": re.compile(
        r"(\.L[A-Za-z_]*|^[^\S\n]*(?=[0-9a-f]+:)|\b(?=[0-9a-f]+ <)|\+0x)([0-9a-f]*(?:_\d+)?)", re.MULTILINE
    ),
    "ptx": re.compile(r"(%[a-z]+|\$L[A-Za-z_]*)(\d[\d_]*)"),
}
"""By kind: a name, and the number after it that counts equal names."""
_VALUES = {"mlir": re.compile(r"%[\w$.\-]+"), "llvm": re.compile(r"%[\w$.\-]+")}
_DEFINED = re.compile(r"^\s*((?:%[\w$.\-]+(?::\d+)?(?:, )?)+) = ")
_OPENS = re.compile(r"^\s*\^bb|\b(?:func\.func|llvm\.func|define)\b")


def with_normal_names(kind: str, text: str, with_stems: bool = True) -> list[str]:
    """Return the lines of a text of this kind without the numbers of names, or without the names of values.

    Kinds without such are as they are.
    """
    return normal_lines(kind, text.splitlines(), with_stems)


def normal_lines(kind: str, lines: Sequence[str], with_stems: bool = True) -> list[str]:
    """Do what `with_normal_names` does, for lines."""
    pattern = _COUNTED.get(kind)
    if pattern is None or not lines:
        return list(lines)
    text = "\n".join(lines)  # one call for all lines: a page has a million
    if not with_stems and kind in _VALUES:
        text = _VALUES[kind].sub("%", text)
    # What stands before a name, the name and its number, again and again.
    parts = pattern.split(text)
    del parts[2::3]
    return "".join(parts).split("\n")


class Correspondence:
    """Which value of one text is which of another, as far as aligned lines have been read."""

    def __init__(self, kind: str) -> None:
        self._values = _VALUES.get(kind)
        self._after: dict[str, str] = {}
        self._before: dict[str, str] = {}

    def agrees(self, before: str, after: str) -> bool:
        """Return whether two aligned lines have corresponding values; what they define corresponds from then on."""
        if self._values is None:
            return True
        pairs = list(zip(self._values.findall(before), self._values.findall(after), strict=False))
        defined = len(pairs) if _OPENS.search(before) else self._count_defined(before)
        for old, new in pairs[:defined]:
            self._after[old], self._before[new] = new, old
        return all([self._agree(old, new) for old, new in pairs[defined:]])

    def _count_defined(self, line: str) -> int:
        assert self._values is not None
        match = _DEFINED.match(line)
        return len(self._values.findall(match[1])) if match else 0

    def _agree(self, old: str, new: str) -> bool:
        return self._after.setdefault(old, new) == new and self._before.setdefault(new, old) == old
