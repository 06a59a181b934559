"""One block of memory for all intermediates of a call: values whose lifetimes do not overlap share their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LINE = 64
"""Bytes of a cache line, at which each value begins."""


@dataclass(frozen=True)
class Lifetime:
    """The launches between which a value is needed, both included, and its size."""

    first: int
    last: int
    bytes: int

    def meets(self, other: Lifetime) -> bool:
        """Return whether both values are needed at the same launch."""
        return self.first <= other.last and other.first <= self.last


def lifetimes(uses: Sequence[Sequence[int]], sizes: Mapping[int, int]) -> dict[int, Lifetime]:
    """Return the lifetime of each value of `sizes`; `uses` has the values that each launch reads or writes."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for position, values in enumerate(uses):
        for value in values:
            first.setdefault(value, position)
            last[value] = position
    return {value: Lifetime(first[value], last[value], size) for value, size in sizes.items()}


def offsets(values: Mapping[int, Lifetime]) -> dict[int, int]:
    """Return the offset of each value in the block: the largest value first, each as low as those before it allow."""
    placed: dict[int, int] = {}
    for value, own in sorted(values.items(), key=lambda item: (-item[1].bytes, item[1].first, item[0])):
        taken = sorted(
            (placed[other], placed[other] + values[other].bytes) for other in placed if own.meets(values[other])
        )
        offset = 0
        for start, end in taken:
            if offset + own.bytes <= start:
                break
            offset = max(offset, -(-end // LINE) * LINE)
        placed[value] = offset
    return placed
