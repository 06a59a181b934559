"""Random choices among the columns of a matrix, for which torch-mlir has loops that write its seed inside."""

from __future__ import annotations

from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten


@decomposes(aten.multinomial.default)
def multinomial(x: torch.Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None) -> torch.Tensor:
    """How many of the sums of the first weights a random part of all lies above."""
    if x.dim() != 2 or not replacement or generator is not None:
        return NotImplemented
    sums = torch.cumsum(x, 1)
    drawn = torch.rand(x.shape[0], num_samples, dtype=x.dtype, device=x.device) * sums[:, -1:]
    below = (sums.unsqueeze(1) <= drawn.unsqueeze(2)).sum(2)
    # A part may be rounded up to all of it; then the last weight that is one counts.
    last = torch.where(x > 0, torch.arange(x.shape[1], device=x.device), 0).amax(1, True)
    return torch.minimum(below, last)
