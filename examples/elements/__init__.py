"""Element kernels with what NumPy computes: ``EXAMPLES`` has them by name, with arguments of any scale."""

from __future__ import annotations

from . import fractals, grids, images, particles, reductions
from .example import Example

EXAMPLES: dict[str, Example] = {
    example.name: example for module in (reductions, images, grids, particles, fractals) for example in module.EXAMPLES
}

__all__ = ["EXAMPLES", "Example"]
