"""Decompose norms of vectors and of matrices, and distances as norms of differences.

The matrix norms of orders "nuc", 2 and -2 are computed from singular values. Norms of float16 and bfloat16 vectors are
accumulated in float32 and rounded once, as eager does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Axes, Results, Scalar, decomposes, in_float32
from mlirtri.lowering.importers.from_torch.decompositions.matrices.spectra import is_supported, svd

aten = torch.ops.aten
Tensor = torch.Tensor

for _operator in (aten.linalg_vector_norm.default, aten.norm.Scalar, aten.norm.ScalarOpt_dim):
    decomposes(_operator)(in_float32(_operator))


@decomposes(aten.linalg_matrix_norm.default, aten.linalg_matrix_norm.str_ord)
def matrix_norm(
    a: Tensor, ord: Scalar = "fro", dim: Axes = (-2, -1), keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Results:  # noqa: A002 - torch's name
    """Return matrix norms by singular values; torch decomposes the other norms."""
    axes = sorted(axis % a.dim() for axis in dim)
    wide = a if dtype is None else a.to(dtype)
    if ord not in NORMS_OF_VALUES or not is_supported(wide):
        return torch._refs.linalg.matrix_norm(a, ord, dim, keepdim, dtype=dtype)
    _, values, _ = svd(wide.movedim(axes, (-2, -1)), compute_uv=False)
    result = NORMS_OF_VALUES[ord](values)
    return result.unsqueeze(axes[0]).unsqueeze(axes[1]) if keepdim else result


@decomposes(aten.linalg_norm.default, aten.linalg_norm.ord_str)
def norm(
    a: Tensor, ord: Scalar = None, dim: Axes = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Results:  # noqa: A002
    axes = list(range(a.dim())) if dim is None else list(dim)
    if ord in NORMS_OF_VALUES and len(axes) == 2:
        return matrix_norm(a, ord, axes, keepdim, dtype=dtype)
    return torch._refs.linalg.norm(a, ord, dim, keepdim, dtype=dtype)


NORMS_OF_VALUES: dict[Any, Callable[[Tensor], Tensor]] = {
    "nuc": lambda values: values.sum(-1),
    2: lambda values: values.amax(-1),
    -2: lambda values: values.amin(-1),
}


@decomposes(aten._cdist_forward.default)
def cdist(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> Tensor:
    differences = x.unsqueeze(-2) - y.unsqueeze(-3)
    if type(x.shape[-1]) is int and x.shape[-1] == 0:
        # A maximum of no elements has no value otherwise.
        return differences.sum(-1)
    return torch.linalg.vector_norm(differences, p, dim=-1)


@decomposes(aten._pdist_forward.default)
def pdist(x: Tensor, p: float = 2) -> Tensor:
    """Return the distances of all pairs of rows, ordered by the first row."""
    count = x.shape[0]
    iota = torch.arange(count * (count - 1) // 2, device=x.device)
    # Row r begins with pair r * (2 * count - r - 1) / 2; its computed root may be off by one.
    half = torch.full((), count, dtype=torch.float64, device=x.device) - 0.5
    row = torch.floor(half - torch.sqrt(half * half - 2.0 * iota)).long()
    row = torch.where(_first_pair(row, count) > iota, row - 1, row)
    row = torch.where(_first_pair(row + 1, count) <= iota, row + 1, row)
    other = iota - _first_pair(row, count) + row + 1
    return torch.linalg.vector_norm(x[row] - x[other], p, dim=-1)


def _first_pair(row: Tensor, count: Any) -> Tensor:
    return torch.div(row * (-row + (2 * count - 1)), 2, rounding_mode="trunc")


@decomposes(aten.dist.default)
def dist(x: Tensor, y: Tensor, p: float = 2) -> Tensor:
    return torch.linalg.vector_norm(x - y, p)
