"""Decompose `unique` and `unique_consecutive` of elements and of slices along an axis.

Duplicates are neighbours after sorting. The lengths of the results are the number of elements that differ from the one
before, which is known at run time.
"""

from __future__ import annotations

from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Axes, Results, decomposes
from mlirtri.lowering.importers.from_torch.decompositions.views import has_no_elements

aten = torch.ops.aten
Tensor = torch.Tensor

MAX_PAIR_ELEMENTS = 1 << 26
"""The largest number of elements compared to sort slices, which are compared in pairs."""


@decomposes(aten._unique2.default)
def unique(x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Results:  # noqa: A002
    """Return the sorted elements without duplicates, and optionally inverse indices and counts."""
    if has_no_elements(x.shape):
        return _nothing(x.flatten(), x.shape if return_inverse else (0,))
    values, order = torch.sort(x.flatten())
    result, inverse, counts = _without_repetitions(values, return_inverse, return_counts)
    if return_inverse:
        inverse = torch.zeros_like(order).scatter(0, order, inverse).view(x.shape)
    return result, inverse, counts


@decomposes(aten.unique_consecutive.default)
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Axes = None
) -> Results:
    """Return the elements without consecutive duplicates, and optionally inverse indices and counts."""
    if dim is not None:
        # Along an axis torch gives all three whatever was asked for.
        return aten.unique_dim_consecutive.default(x, dim, return_inverse, return_counts)
    if has_no_elements(x.shape):
        return _nothing(x.flatten(), x.shape if return_inverse else (0,))
    result, inverse, counts = _without_repetitions(x.flatten(), return_inverse, return_counts)
    return result, inverse.view(x.shape) if return_inverse else inverse, counts


@decomposes(aten.unique_dim_consecutive.default)
def unique_dim_consecutive(x: Tensor, dim: int, return_inverse: bool = False, return_counts: bool = False) -> Results:
    """Return the slices along `dim` without consecutive duplicates, inverse indices and counts."""
    if has_no_elements(x.shape):
        return _nothing(x, (0,))
    result, inverse, counts = _without_repetitions(x.movedim(dim, 0), True, True)
    return result.movedim(0, dim), inverse, counts


@decomposes(aten.unique_dim.default)
def unique_dim(
    x: Tensor,
    dim: int,
    sorted: bool = True,  # noqa: A002 - torch's name
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Results:
    """Return the slices along `dim` in lexicographic order without duplicates, inverse indices and counts."""
    if has_no_elements(x.shape):
        return _nothing(x, (0,))
    slices = x.movedim(dim, 0)
    count, size = slices.shape[0], slices[0].numel()
    if not isinstance(count, int) or not isinstance(size, int) or count * count * size > MAX_PAIR_ELEMENTS:
        return NotImplemented
    ranks = _lexicographic_ranks(slices.reshape(count, size))
    order = torch.zeros_like(ranks).scatter(0, ranks, torch.arange(count, device=x.device))
    result, inverse, counts = _without_repetitions(slices[order], True, True)
    return result.movedim(0, dim), inverse[ranks], counts


def _lexicographic_ranks(rows: Tensor) -> Tensor:
    """Return the position of each row of [rows, columns] in lexicographic order, of equal rows in their own order."""
    left, right = rows.unsqueeze(1), rows.unsqueeze(0)
    differs = left != right
    first = differs.int().argmax(-1, True)
    is_less = (right < left).gather(-1, first).squeeze(-1)
    iota = torch.arange(rows.shape[0], device=rows.device)
    is_before = is_less | (differs.logical_not().all(-1) & (iota < iota.unsqueeze(1)))
    return is_before.long().sum(1)


def _without_repetitions(x: Tensor, return_inverse: bool, return_counts: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the slices along axis 0 that differ from the one before, the position of each slice's, and the counts."""
    differs = x[1:] != x[:-1]
    if x.dim() > 1:
        differs = differs.flatten(1).any(1)
    is_new = torch.cat([torch.ones(1, dtype=torch.bool, device=x.device), differs])
    indices = torch.nonzero(is_new)[:, 0]
    none = torch.empty(0, dtype=torch.int64, device=x.device)
    run = is_new.long().cumsum(0) - 1
    inverse = run if return_inverse else none
    if not return_counts:
        return x[indices], inverse, none
    # Give the result the dynamic size of `indices` itself, not an expression of it.
    counts = torch.zeros_like(run).scatter_add(0, run, torch.ones_like(run))
    return x[indices], inverse, counts[run[indices]]


def _nothing(x: Tensor, shape: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return the results for a tensor without elements; inverse indices have `shape`."""
    inverse, counts = (torch.zeros(size, dtype=torch.int64, device=x.device) for size in (shape, (0,)))
    return x.clone(), inverse, counts
