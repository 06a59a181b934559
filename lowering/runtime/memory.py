"""Allocate CPU memory of kernels: new tensors, and one block for all intermediates of a call.

Large tensors get large pages, whose first write is up to eight times as fast: NumPy asks the system for them (its
arrays of 4 MiB and more), torch does not, so they are NumPy's. They begin at a cache line, as torch's do and NumPy's do
not. In the block of a call, values whose lifetimes do not overlap share their bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

LINE = 64
"""Bytes of a cache line, at which each value begins."""
LARGE = 1 << 22
"""Bytes from which the pages of a new array cost more than what is written into it."""


@dataclass(frozen=True)
class Lifetime:
    """The launches between which a value is needed, both included, and its size."""

    first: int
    last: int
    bytes: int

    def meets(self, other: Lifetime) -> bool:
        """Return whether both values are needed at the same launch."""
        return self.first <= other.last and other.first <= self.last


def lifetimes(uses: Sequence[Collection[int]], sizes: Mapping[int, int]) -> dict[int, Lifetime]:
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


def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str | None = None) -> torch.Tensor:
    """Return an uninitialised tensor, in large pages from `LARGE` bytes on; it owns its memory."""
    import torch  # calls with arrays need none

    from mlirtri.lowering.runtime.red_zones import current

    if (zones := current()) is not None:
        return zones.empty("an intermediate", shape, dtype, device)
    size = prod(shape) * dtype.itemsize
    if size < LARGE or (device is not None and torch.device(device).type != "cpu"):
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.from_numpy(_lines(size)).view(dtype).view(shape)


def empty_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an uninitialised array in large pages."""
    return _lines(prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


def _lines(size: int) -> np.ndarray:
    memory = np.empty(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + size]
