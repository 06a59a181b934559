"""Decompose attention that torch differentiates as one operator: what `scaled_dot_product_attention` becomes on a CPU.

Gradients by Dao et al., "FlashAttention", 2022, appendix B.2: the weights are computed again from queries, keys and the
logarithm of each row's sum, which the forward operator returns.
"""

from __future__ import annotations

import math

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Results, decomposes

aten = torch.ops.aten
Tensor = torch.Tensor


@decomposes(aten._scaled_dot_product_flash_attention_for_cpu.default)
def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> Results:  # fmt: skip
    """Return attention, and the logarithm of each row's sum of exponentials; 0 where all is masked."""
    if dropout_p:
        return NotImplemented
    scores = _scores(query, key, attn_mask, is_causal, scale)
    logarithms = torch.logsumexp(scores, -1)
    return torch.matmul(_weights(scores, logarithms), value.to(scores.dtype)).to(query.dtype), logarithms


@decomposes(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def flash_attention_gradients(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, result: Tensor, logarithms: Tensor,
    dropout_p: float, is_causal: bool, *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> Results:  # fmt: skip
    """Return the gradients of queries, keys and values."""
    if dropout_p:
        return NotImplemented
    scores = _scores(query, key, attn_mask, is_causal, scale)
    wide, outer = scores.dtype, gradient.to(scores.dtype)
    weights = _weights(scores, logarithms)
    of_values = torch.matmul(weights.transpose(-2, -1), outer)
    of_weights = torch.matmul(outer, value.to(wide).transpose(-2, -1))
    of_rows = (outer * result.to(wide)).sum(-1, keepdim=True)
    of_scores = weights * (of_weights - of_rows) * _factor(query, scale)
    of_queries = torch.matmul(of_scores, key.to(wide))
    of_keys = torch.matmul(of_scores.transpose(-2, -1), query.to(wide))
    return of_queries.to(query.dtype), of_keys.to(key.dtype), of_values.to(value.dtype)


def _factor(query: Tensor, scale: float | None) -> float:
    return 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale


def _scores(query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None) -> Tensor:
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = torch.matmul(query.to(wide), key.to(wide).transpose(-2, -1)) * _factor(query, scale)
    if is_causal:
        is_visible = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        scores = torch.where(is_visible, scores, -math.inf)
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf) if mask.dtype == torch.bool else scores + mask.to(wide)
    return scores


def _weights(scores: Tensor, logarithms: Tensor) -> Tensor:
    """Return each row's weights; those of a row without a visible key are 0."""
    is_hidden = (logarithms == -math.inf).unsqueeze(-1)
    return torch.where(is_hidden, 0.0, torch.exp(scores - logarithms.unsqueeze(-1)))
