"""Decompose cross entropies of a linear layer, which torch computes in chunks of rows to keep few logits in memory.

The layer is one product here, and fused with the losses; gradients, which the operator may compute at once, are not.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from mlirtri.lowering.importers.from_torch.decomposition_rules import Operator, Results, Rule

Tensor = torch.Tensor
CHUNKED = "_linear_cross_entropy_batch_chunked"
"""torch's operators in its namespace `torch_nn`, which older versions lack."""


def chunked(
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignored: int,
    smoothing: float,
    *settings: object,
) -> Results:
    """Return the reduced loss, and no gradients."""
    if any(settings[-3:]):
        return NotImplemented
    loss = _loss(x, matrix, target, bias, weight, ignored, smoothing, reduction)
    none = x.new_empty((0, 0))
    return loss, none, none.clone(), x.new_empty((0,))


def unreduced(
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    ignored: int,
    *_settings: object,
) -> Tensor:
    """Return the loss of each row."""
    return _loss(x, matrix, target, bias, weight, ignored, 0.0, "none")


def _loss(
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    ignored: int,
    smoothing: float,
    reduction: str,
) -> Tensor:
    kind, dtype = (torch.float64 if x.dtype == torch.float64 else torch.float32), x.dtype
    x, matrix = x.to(kind), matrix.to(kind)
    bias, weight = (operand if operand is None else operand.to(kind) for operand in (bias, weight))
    result = F.cross_entropy(F.linear(x, matrix, bias), target, weight, None, ignored, None, reduction, smoothing)
    return result.to(dtype)


def losses_in_chunks() -> dict[Operator, Rule]:
    """Return the rules, if torch has imported the operators, as it does for their first call."""
    rules = {CHUNKED: chunked, f"{CHUNKED}_no_reduction": unreduced}
    operators = {name: getattr(torch.ops.torch_nn, name, None) for name in rules}
    return {operator.default: rules[name] for name, operator in operators.items() if operator is not None}
