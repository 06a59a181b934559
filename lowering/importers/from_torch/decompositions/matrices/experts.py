"""Decompose the grouped matrix product of mixtures of experts into a loop over rows.

Which matrix a row is multiplied with is known at run time only: the first one whose end, in `ends`, is past the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Operator, Results, Rule, counted_loop, decomposes

aten = torch.ops.aten
Tensor = torch.Tensor
TRANSFORMERS_OPERATOR = "grouped_mm_fallback"
"""The grouped product of the library `transformers` on CPUs, in that library's namespace of operators."""


def grouped_product(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Return ``rows[r] @ matrices[group of r]`` for each row, and zeros for rows past the last end."""
    count = matrices.shape[0]
    groups = (torch.arange(rows.shape[0], device=rows.device).unsqueeze(1) >= ends.to(torch.int64)).sum(1)
    chosen = groups.clamp(max=count - 1)

    def condition(number: Tensor, _results: Tensor, rows: Tensor, *_fixed: Tensor) -> Tensor:
        return number < rows.shape[0]

    def row_product(
        number: Tensor, results: Tensor, rows: Tensor, matrices: Tensor, chosen: Tensor
    ) -> Sequence[Tensor]:
        row: Any = number.item()
        torch._check(row >= 0)
        torch._check(row < rows.shape[0])
        group: Any = torch.select(chosen, 0, row).item()
        torch._check(group >= 0)
        torch._check(group < matrices.shape[0])
        product = torch.matmul(torch.select(rows, 0, row).unsqueeze(0), torch.select(matrices, 0, group)).squeeze(0)
        return (torch.select_scatter(results, product, 0, row),)

    results = rows.new_zeros((rows.shape[0], matrices.shape[-1]))
    [results] = counted_loop(condition, row_product, (results,), (rows, matrices, chosen))
    return torch.where((groups < count).unsqueeze(1), results, 0.0)


@decomposes(aten._grouped_mm.default)
def grouped_mm(
    rows: Tensor,
    matrices: Tensor,
    ends: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Results:
    """Return the products of groups of rows; other operands than rows and one matrix per group are left alone."""
    if rows.dim() != 2 or matrices.dim() != 3 or ends is None or bias is not None:
        return NotImplemented
    result = grouped_product(rows.float(), matrices.float(), ends)
    return result.to(rows.dtype if out_dtype is None else out_dtype)


def third_party_rules() -> dict[Operator, Rule]:
    """Return the rules for operators of other libraries, if those libraries are imported."""
    operator = getattr(torch.ops.transformers, TRANSFORMERS_OPERATOR, None)
    return {} if operator is None else {operator.default: grouped_product}
