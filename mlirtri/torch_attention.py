"""Attention of torch programs: products whose scale is applied to the scores, which one kernel computes a few rows of.

torch takes it apart with roots of the scale on queries and keys, each of which is a copy then; that of the keys is as
large as they are, once for each head that shares them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
Tensor = torch.Tensor

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Of halves all is computed in float32 but for the result, as eager's; rows that see nothing give zero."""
    kind = query.dtype
    if dropout or kind not in FLOATS or (key.dtype, value.dtype) != (kind, kind):
        options = {"scale": scale, "enable_gqa": enable_gqa}
        return aten._scaled_dot_product_attention_math(query, key, value, mask, dropout, is_causal, **options)[0]
    wide = torch.float64 if kind == torch.float64 else torch.float32
    queries, keys, values = (each.to(wide) for each in (query, key, value))
    if enable_gqa:
        keys, values = (_shared(each, query.shape[-3]) for each in (keys, values))
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = torch.matmul(queries, keys.transpose(-2, -1)) * factor
    if is_causal:
        seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        scores = torch.where(seen, scores, -math.inf)
    elif mask is not None:
        scores = torch.where(mask, scores, -math.inf) if mask.dtype == torch.bool else scores + mask.to(wide)
    return torch.matmul(aten._safe_softmax.default(scores, -1), values).to(kind)


def _shared(x: Tensor, heads: int) -> Tensor:
    """Each head of keys or values for as many of the queries' as share it."""
    groups, (length, depth) = x.shape[-3], x.shape[-2:]
    times = heads // groups
    return x.unsqueeze(-3).expand(*x.shape[:-2], times, length, depth).reshape(*x.shape[:-3], heads, length, depth)


ATTENTION: dict[Any, Callable[..., Any]] = {aten.scaled_dot_product_attention.default: attention}
