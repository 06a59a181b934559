"""Decompose embedding bags: torch-mlir ignores per-sample weights and has neither padding, means nor maxima."""

from __future__ import annotations

import math
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
_SUM, _MEAN, _MAX = range(3)
_SUMMED_AT_ONCE = (torch.float32, torch.float16, torch.bfloat16)
"""dtypes whose sums torch computes without the bag of each sample and the bags' sizes, which are then empty and 0."""


@decomposes(aten.embedding_bag.default, aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = -1,
) -> Any:
    """Return `torch.nn.functional.embedding_bag`, the bag of each sample, the bags' sizes, and the indices of maxima.

    The indices of maxima are used by gradients only and are 0 here.
    """
    bags = offsets.shape[0] - include_last_offset
    positions = torch.arange(indices.shape[0], device=indices.device).unsqueeze(-1)
    bag = (offsets[:bags] <= positions).sum(-1) - 1
    rows = torch.embedding(weight, indices)
    padding = -1 if padding_idx is None else padding_idx
    counts = indices != padding
    sizes = torch.zeros(bags, dtype=torch.int64, device=indices.device).index_add(0, bag, counts.long())
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if mode == _MAX:
        result = _maxima(rows, bag, counts, bags)
    else:
        start = torch.zeros(bags, weight.shape[1], dtype=weight.dtype, device=weight.device)
        result = start.index_add(0, bag, torch.where(counts.unsqueeze(-1), rows, 0.0).to(weight.dtype))
    if mode == _MEAN:
        result = result / torch.clamp(sizes, min=1).unsqueeze(-1).to(weight.dtype)
    if mode == _SUM and padding < 0 and weight.dtype in _SUMMED_AT_ONCE:
        bag, sizes = bag[:0], torch.zeros_like(sizes)
    return result, bag, sizes, torch.zeros_like(sizes)


@decomposes(aten.embedding_bag.padding_idx)
def embedding_bag_with_padding(weight: torch.Tensor, *arguments: Any) -> Any:
    """Return `embedding_bag`; a negative padding index, the last argument, counts from the end."""
    *arguments, padding = arguments
    if padding is not None and padding < 0:
        padding += weight.shape[0]
    return embedding_bag(weight, *arguments, padding)


def _maxima(rows: torch.Tensor, bag: torch.Tensor, counts: torch.Tensor, bags: int) -> torch.Tensor:
    """Return the maximum of each bag, and 0 of an empty bag."""
    is_in = (torch.arange(bags, device=bag.device).unsqueeze(-1) == bag) & counts
    result = torch.where(is_in.unsqueeze(-1), rows, -math.inf).amax(1)
    return torch.where(is_in.any(1).unsqueeze(-1), result, 0.0).to(rows.dtype)


@decomposes(aten.embedding_renorm.default)
def embedding_renorm(weight: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float) -> torch.Tensor:
    """Scale the rows that `indices` read down to the norm `max_norm`."""
    norms = torch.linalg.vector_norm(weight, norm_type, -1, True)
    read = torch.zeros(weight.shape[0], dtype=torch.int64, device=weight.device)
    read = read.index_fill(0, indices.flatten().long(), 1).unsqueeze(-1)
    return torch.where((read != 0) & (norms > max_norm), weight * (max_norm / (norms + 1e-7)), weight)
