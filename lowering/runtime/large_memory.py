"""Allocate CPU memory of kernels: large arrays in large pages, whose first write is up to eight times as fast.

NumPy asks the system for large pages (its arrays of 4 MiB and more), torch does not; so large arrays are NumPy's. They
begin at a cache line, as torch's do and NumPy's do not.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

LARGE = 1 << 22
"""Bytes from which the pages of a new array cost more than what is written into it."""
LINE = 64
"""Bytes of a cache line."""


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
