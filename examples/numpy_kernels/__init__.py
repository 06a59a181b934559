"""Scientific kernels in plain NumPy, written from each algorithm's definition: what `mlirtri.jit` is for.

Every kernel is an ordinary function that runs without mlirtri; ``KERNELS`` has them by name, with arguments to call
them on. The tests compare compiled kernels with the plain functions, ``benchmarks/numpy_kernels.py`` times both.
"""

from __future__ import annotations

from . import (
    dense,
    dynamic_programming,
    fluids,
    learning,
    particles,
    physics,
    signals,
    solvers,
    sorting,
    sparse,
    stencils,
)
from .case import Case

FAMILIES = (
    dense, solvers, stencils, fluids, dynamic_programming, signals, particles, learning, sparse, physics, sorting,
)  # fmt: skip

KERNELS: dict[str, Case] = {case.name: case for family in FAMILIES for case in family.CASES}

__all__ = ["FAMILIES", "KERNELS", "Case"]
