"""Distances between rows, which torch-mlir does not lower, or lowers with other rounding."""

from __future__ import annotations

from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten


@decomposes(aten._cdist_forward.default)
def between(x: torch.Tensor, y: torch.Tensor, p: float, compute_mode: int | None) -> torch.Tensor:
    """Of all rows of `x` from all rows of `y`."""
    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, dim=-1)


@decomposes(aten._pdist_forward.default)
def among(x: torch.Tensor, p: float = 2) -> torch.Tensor:
    """Of all pairs of rows of one matrix, the first row's pairs first."""
    count = x.shape[0]
    number = torch.arange(count * (count - 1) // 2, device=x.device)
    # Row r begins with pair r * (2 * count - r - 1) / 2; the root of that may be off by one.
    half = torch.full((), count, dtype=torch.float64, device=x.device) - 0.5
    row = torch.floor(half - torch.sqrt(half * half - 2.0 * number)).long()
    row = torch.where(_first(row, count) > number, row - 1, row)
    row = torch.where(_first(row + 1, count) <= number, row + 1, row)
    other = number - _first(row, count) + row + 1
    return torch.linalg.vector_norm(x[row] - x[other], p, dim=-1)


def _first(row: torch.Tensor, count: Any) -> torch.Tensor:
    """The number of the first pair of a row."""
    return torch.div(row * (-row + (2 * count - 1)), 2, rounding_mode="trunc")


@decomposes(aten.dist.default)
def of_two(x: torch.Tensor, y: torch.Tensor, p: float = 2) -> torch.Tensor:
    """The norm of the difference."""
    return torch.linalg.vector_norm(x - y, p)
