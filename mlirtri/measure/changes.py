"""What changed since an earlier comparison, beyond what the scatter of the rounds explains.

Times are compared by the Mann-Whitney rank test of their rounds, which assumes no distribution. As many tests are made
at once, the least likely must be the less likely (Holm's correction).
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mlirtri.errors import KernelTypeError, SourceNotAvailableError
from mlirtri.measure.rows import Comparison, Comparisons, Row, strict
from mlirtri.measure.tables import shown_seconds

SIGNIFICANCE = 0.01
"""The probability that any change of time is reported where there is none."""
_Key = tuple[str, str, tuple[str, ...]]
_Names = Mapping[_Key, Sequence[str]]
"""The names of the rows of each comparison, by kernel, target and arguments."""
_EXACT = 12
"""Up to so many rounds on each side probabilities are counted, not approximated."""


@dataclass(frozen=True)
class Change:
    """One difference between a row and the row of that name before."""

    kernel: str
    row: str
    text: str
    is_worse: bool

    def __str__(self) -> str:
        return f"{self.kernel}, {self.row}: {self.text}"


@dataclass(frozen=True)
class Changes:
    """All differences from an earlier comparison."""

    changes: tuple[Change, ...]
    is_same_machine: bool
    not_compared: tuple[str, ...] = ()
    """Rows that one of the two comparisons lacks, by kernel, in sentences."""
    count: int = 0
    """The rows that both have."""

    @property
    def is_worse(self) -> bool:
        """Return whether anything got slower, less exact or refused."""
        return any(change.is_worse for change in self.changes)

    def __str__(self) -> str:
        lines = [f"{'worse' if change.is_worse else 'better'}: {change}" for change in self.changes]
        lines += [f"not compared: {sentence}" for sentence in self.not_compared]
        if not self.count:
            return "\n".join([*lines, "nothing was compared: the baseline has none of these rows"])
        if not self.is_same_machine:
            lines.append("the baseline is of another machine or number of threads: times were not compared")
        return "\n".join(lines or ["nothing changed beyond noise"])


def changes_since(baseline: Sequence[Mapping[str, Any]], new: Comparison | Comparisons) -> Changes:
    """Return what differs from an earlier comparison, as `read_baseline` gives it."""
    earlier = {_key(comparison): comparison for comparison in baseline}
    comparisons = {_key(strict(vars(comparison))): comparison for comparison in _each(new)}
    pairs = [(comparison, earlier[key]) for key, comparison in comparisons.items() if key in earlier]
    is_same = all(comparison.machine == before.get("machine") for comparison, before in pairs)
    changes: list[Change] = []
    timed: list[tuple[Comparison, Row, Mapping[str, Any]]] = []
    for comparison, before in pairs:
        rows = {row["name"]: row for row in before["rows"]}
        for row in comparison.rows:
            if row.name in rows:
                changes += _of_row(comparison, row, rows[row.name])
                timed.append((comparison, row, rows[row.name]))
    if is_same:
        changes += _slower_or_faster(timed)
    now = {key: [row.name for row in comparison.rows] for key, comparison in comparisons.items()}
    then = {key: [row["name"] for row in comparison["rows"]] for key, comparison in earlier.items()}
    lacking = [*_lacking(then, now, "this comparison"), *_lacking(now, then, "the baseline")]
    return Changes(tuple(changes), is_same, tuple(lacking), len(timed))


def _each(comparison: Comparison | Comparisons) -> list[Comparison]:
    return list(comparison) if isinstance(comparison, Comparisons) else [comparison]


def _lacking(some: _Names, other: _Names, where: str) -> list[str]:
    """Return a sentence for each comparison of `some` with rows that `other` lacks."""
    sentences = []
    for key, names in some.items():
        missing = [name for name in names if name not in other.get(key, ())]
        kernel, target, arguments = key
        is_known = any(kernel == another for another, _, _ in other)
        which = f"{kernel}({', '.join(arguments)}) on {target}" if key not in other and is_known else kernel
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            sentences.append(f"{which}: {', '.join(missing)} {verb} not in {where}")
    return sentences


def read_baseline(path: str | Path) -> list[dict[str, Any]]:
    """Return the comparisons of a JSON file; raises a `KernelError` if it has none."""
    try:
        data = json.loads(Path(path).read_text())
    except OSError as problem:
        raise SourceNotAvailableError(f"the baseline {path} cannot be read: {problem.strerror}") from None
    except ValueError:
        data = None
    data = [data] if isinstance(data, dict) else data
    if not isinstance(data, list) or not all(isinstance(row, dict) and "rows" in row for row in data):
        raise KernelTypeError(f"{path} is no comparison", help="write one with `mlirtri compare … --json`")
    return data


def _key(comparison: Mapping[str, Any]) -> _Key:
    return comparison["kernel"], comparison["target"], tuple(comparison["arguments"])


def _of_row(comparison: Comparison, row: Row, before: Mapping[str, Any]) -> list[Change]:
    def change(text: str, is_worse: bool) -> Change:
        return Change(comparison.kernel, row.name, text, is_worse)

    if row.refusal and not before["refusal"]:
        return [change(f"is refused: {row.refusal.splitlines()[0]}", True)]
    if before["refusal"]:
        return [] if row.refusal else [change("is no longer refused", False)]
    lines = []
    for name in ("kernels", "bytes"):
        old, new = before[name], getattr(row, name)
        if None not in (old, new) and old != new:
            lines.append(change(f"{name} {old} → {new}", new > old))
    old_error, new_error = before.get("max_relative"), strict(row.max_relative)
    if old_error is not None and new_error is not None and old_error != new_error:
        lines.append(
            change(f"max rel {_digits(old_error)} → {_digits(new_error)}", float(new_error) > float(old_error))
        )
    return lines


def _digits(value: Any) -> str:
    return f"{float(value):.2g}"


def _slower_or_faster(timed: Sequence[tuple[Comparison, Row, Mapping[str, Any]]]) -> list[Change]:
    tests = [
        (probability(before["rounds"], row.rounds), comparison, row, before)
        for comparison, row, before in timed
        if row.rounds and before.get("rounds")
    ]
    lines = []
    for rank, (chance, comparison, row, before) in enumerate(sorted(tests, key=lambda test: test[0])):
        if chance > SIGNIFICANCE / (len(tests) - rank):
            break
        old, new = statistics.median(before["rounds"]), statistics.median(row.rounds)
        text = f"{shown_seconds(old)} → {shown_seconds(new)} ({new / old:.2f}×, p = {chance:.1g})"
        lines.append(Change(comparison.kernel, row.name, text, new > old))
    return lines


def probability(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the probability of ranks at least as far apart if both were drawn from one distribution (two-sided)."""
    count, other = len(before), len(after)
    # The U statistic: how many pairs have the later round slower; ties count half.
    slower = sum((b < a) + 0.5 * (b == a) for b in before for a in after)
    distance = abs(slower - count * other / 2)
    if max(count, other) <= _EXACT:
        ways = _ways(count, other)
        far = sum(number for u, number in enumerate(ways) if abs(u - count * other / 2) >= distance)
        return far / sum(ways)
    deviation = math.sqrt(count * other * (count + other + 1) / 12)
    return math.erfc(max(0.0, distance - 0.5) / deviation / math.sqrt(2))


@cache
def _ways(count: int, other: int) -> tuple[int, ...]:
    """Return how many orders of the two samples have each U, from 0 to their product (Mann's recurrence)."""
    if count == 0 or other == 0:
        return (1,)
    with_last, without = _ways(count - 1, other), _ways(count, other - 1)
    size = count * other + 1
    shifted = (0,) * other + with_last
    padded = [sequence + (0,) * (size - len(sequence)) for sequence in (shifted, without)]
    return tuple(a + b for a, b in zip(*padded, strict=True))
