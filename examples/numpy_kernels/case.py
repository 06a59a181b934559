"""What a kernel of the suite is, beside its function: made-up arguments, sizes, dtypes, and how far a sum may drift."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

FLOATS = ("float64", "float32")


@dataclass(frozen=True)
class Case:
    """One kernel, which is an ordinary Python function over NumPy arrays, and how to call it."""

    function: Callable[..., Any]
    make: Callable[..., tuple[Any, ...]]
    """``make(size, dtype, rng)`` gives the positional arguments."""
    small: tuple[int, ...]
    """The size for tests: milliseconds of plain NumPy."""
    large: tuple[int, ...]
    """The size for benchmarks: about a tenth of a second of NumPy, where loops allow."""
    dtypes: tuple[str, ...] = FLOATS
    """The dtypes it is written for; integers and bytes are not written twice."""
    terms: int = 1000
    """About how many roundings meet in one result of the small size: its square root widens the tolerance."""

    @property
    def name(self) -> str:
        return self.function.__name__

    def arguments(self, size: str, dtype: str, seed: int = 20) -> tuple[Any, ...]:
        """Positional arguments of size ``"S"`` or ``"L"``; the same for the same seed."""
        sizes = {"S": self.small, "L": self.large}[size]
        return self.make(sizes, np.dtype(dtype).type, np.random.default_rng(seed))


def uniform(rng: np.random.Generator, dtype: Any, *shape: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Numbers of a dtype between two bounds."""
    return rng.uniform(low, high, shape).astype(dtype)


def complex_of(dtype: Any) -> np.dtype:
    """The complex dtype whose parts are of a float dtype."""
    return np.result_type(dtype, np.complex64)


def copied(arguments: tuple[Any, ...]) -> list[Any]:
    """Arguments for a call that may write into them."""
    return [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
