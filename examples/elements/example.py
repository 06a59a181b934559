"""An example: an element kernel, its arguments, and the same in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

import mlirtri as mt

Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Example:
    """A kernel that writes some of its arguments, and may return numbers."""

    name: str
    kernel: Callable[..., Any]
    """A Python function; `mlirtri.jit` compiles it."""
    make: Callable[[int], Arguments]
    """From a scale, 1 for tests, to the arguments."""
    reference: Callable[..., Any]
    """Writes and returns the same by NumPy."""
    tolerance: float = 1e-5
    nested: Callable[..., Any] | None = None
    """The kernel without `ndrange` and atomic updates, for compilers that have none."""

    def results(self, function: Callable[..., Any], arguments: Arguments) -> list[np.ndarray]:
        """Return the arguments after a call, and what the call returned."""
        copies = deepcopy(arguments)
        returned = function(*copies)
        values = returned if isinstance(returned, tuple) else () if returned is None else (returned,)
        return [np.asarray(value) for value in (*copies, *values)]

    def check(self, pipeline: str, scale: int = 1, target: str = "cpu") -> None:
        """Compare the kernel with NumPy; raises `AssertionError`."""
        arguments = self.make(scale)
        got = self.results(mt.jit(self.kernel, pipeline=pipeline, target=target), arguments)
        want = self.results(self.reference, arguments)
        for here, there in zip(got, want, strict=True):
            np.testing.assert_allclose(here, there, rtol=self.tolerance, atol=self.tolerance)
