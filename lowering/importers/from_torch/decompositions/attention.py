"""Decompose attention, with the scale applied to the scores, so that one kernel computes a few rows at a time.

torch's decomposition applies square roots of the scale to queries and keys: each is then a copy, and the keys' copy is
as large as all heads that share a key. Also decomposes the fused transformer layers that `torch.nn` calls when no
gradient is needed.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
Tensor = torch.Tensor

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@decomposes(aten.scaled_dot_product_attention.default)
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Return scaled dot-product attention; float16 and bfloat16 are computed in float32 and rounded once, as in eager.

    A row whose mask is false everywhere is 0.
    """
    kind, mask = query.dtype, attn_mask
    if dropout_p or kind not in FLOATS or (key.dtype, value.dtype) != (kind, kind):
        options = {"scale": scale, "enable_gqa": enable_gqa}
        return aten._scaled_dot_product_attention_math(query, key, value, mask, dropout_p, is_causal, **options)[0]
    wide = torch.float64 if kind == torch.float64 else torch.float32
    queries, keys, values = (operand.to(wide) for operand in (query, key, value))
    if enable_gqa:
        keys, values = (_repeat_heads(operand, query.shape[-3]) for operand in (keys, values))
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = torch.matmul(queries, keys.transpose(-2, -1)) * factor
    if is_causal:
        is_visible = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        scores = torch.where(is_visible, scores, -math.inf)
    elif mask is not None:
        scores = torch.where(mask, scores, -math.inf) if mask.dtype == torch.bool else scores + mask.to(wide)
    return torch.matmul(aten._safe_softmax.default(scores, -1), values).to(kind)


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Repeat each head of keys or values for all query heads that share it."""
    groups, (length, depth) = x.shape[-3], x.shape[-2:]
    times = heads // groups
    return x.unsqueeze(-3).expand(*x.shape[:-2], times, length, depth).reshape(*x.shape[:-3], heads, length, depth)


@decomposes(aten._native_multi_head_attention.default)
def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """Return the result and weights of a batched `torch.nn.MultiheadAttention`; a non-zero `mask` hides a key."""
    inputs = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    projected = (F.linear(x, weight, bias) for x, weight, bias in inputs)
    queries, keys, values = (x.unflatten(-1, (num_head, -1)).transpose(1, 2) for x in projected)
    hidden = None if mask is None else _hidden_mask(mask, mask_type)
    if need_weights:
        scores = torch.matmul(queries / math.sqrt(queries.shape[-1]), keys.transpose(-2, -1))
        weights = torch.softmax(scores if hidden is None else torch.where(hidden, -math.inf, scores), -1)
        result = torch.matmul(weights, values)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        result = attention(queries, keys, values, None if hidden is None else torch.logical_not(hidden))
        weights = query.new_empty(0)
    return F.linear(result.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights


def _hidden_mask(mask: Tensor, mask_type: int | None) -> Tensor:
    """Broadcast the mask to all heads: type 0 (queries, keys), 1 (samples, keys), 2 (samples, heads, queries, keys)."""
    mask = mask.to(torch.bool)
    return mask[:, None, None, :] if mask_type == 1 else mask


@decomposes(aten._transformer_encoder_layer_fwd.default)
def encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """Return the result of `torch.nn.TransformerEncoderLayer` in eval mode."""

    def attend(x: Tensor) -> Tensor:
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return multi_head_attention(
            x, x, x, embed_dim, num_heads, *weights, mask, need_weights=False, mask_type=mask_type
        )[0]

    def feed_forward(x: Tensor) -> Tensor:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    def first(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attend(first(src))
        return x + feed_forward(second(x))
    x = first(src + attend(src))
    return second(x + feed_forward(x))


def attention_unless_autocast(query: Tensor, *arguments: Any, **options: Any) -> Tensor:
    """Return `attention`; under autocast torch's own operator, which autocast recognises by name."""
    is_cast = torch.is_autocast_enabled(query.device.type)
    operator = F.scaled_dot_product_attention if is_cast else attention
    return operator(query, *arguments, **options)
