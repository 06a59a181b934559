"""Decompose layers of neural networks: attention, norms and embedding bags.

Attention scales the scores and not, as torch's decomposition, queries and keys: this saves two copies, and one kernel
computes a few rows at a time. Norms are computed in float32 with float64 sums, as in eager; torch-mlir's decomposition
keeps float16 and converts each element to float64 and back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch._decomp import decompositions as torch_rules

from mlirtri.lowering.importers.from_torch.decomposition_rules import Results, decomposes

aten = torch.ops.aten
Tensor = torch.Tensor

ATTENTION_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


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
) -> Results:
    """Return attention, of halves computed in float32 and rounded once; a row whose mask is false everywhere is 0."""
    kind, mask = query.dtype, attn_mask
    if dropout_p or kind not in ATTENTION_DTYPES or (key.dtype, value.dtype) != (kind, kind):
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
) -> Results:
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
    settings = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask)
    normalized = partial(F.layer_norm, normalized_shape=(embed_dim,), eps=eps)
    first = partial(normalized, weight=norm_weight_1, bias=norm_bias_1)
    second = partial(normalized, weight=norm_weight_2, bias=norm_bias_2)

    def attend(x: Tensor) -> Tensor:
        return multi_head_attention(x, x, x, *settings, need_weights=False, mask_type=mask_type)[0]

    def feed_forward(x: Tensor) -> Tensor:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

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


@decomposes(aten.convolution.default)
def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Results:
    """Return a transposed convolution of several groups, one group after the other, and depthwise ones of volumes."""
    if not transposed and len(stride) == 3 and groups > 1 and weight.shape[1] == 1:
        return _depthwise_of_volumes(x, weight, bias, stride, padding, dilation)
    if not transposed or groups == 1:
        return NotImplemented
    biases = [None] * groups if bias is None else bias.chunk(groups)
    operands = zip(x.chunk(groups, x.dim() - len(stride) - 1), weight.chunk(groups), biases, strict=True)
    shape = (stride, padding, dilation, True, output_padding, 1)
    return torch.cat([aten.convolution.default(*operand, *shape) for operand in operands], x.dim() - len(stride) - 1)


def _depthwise_of_volumes(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """Return the sum of depthwise convolutions of planes, one for each plane of the filter: torch-mlir has these."""
    if x.dim() == 4:
        return _depthwise_of_volumes(x.unsqueeze(0), weight, bias, stride, padding, dilation).squeeze(0)
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    padded, filters = F.pad(x, (0, 0, 0, 0, padding[0], padding[0])).to(wide), weight.to(wide)
    batch, channels, depth = padded.shape[:3]
    count = (depth - dilation[0] * (weight.shape[2] - 1) - 1) // stride[0] + 1
    total: Tensor | None = None
    for position in range(weight.shape[2]):
        first = position * dilation[0]
        planes = padded[:, :, first : first + (count - 1) * stride[0] + 1 : stride[0]].transpose(1, 2)
        images = planes.reshape(batch * count, channels, *x.shape[3:])
        part = F.conv2d(images, filters[:, :, position], None, stride[1:], padding[1:], dilation[1:], channels)
        total = part if total is None else total + part
    assert total is not None
    if bias is not None:
        total = total + bias.to(wide).view(-1, 1, 1)
    return total.reshape(batch, count, *total.shape[1:]).transpose(1, 2).to(x.dtype)


@decomposes(aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(*arguments: Any) -> Results:
    """Return torch's own decomposition, which torch-mlir's list of them leaves out."""
    return torch_rules._batch_norm_with_update_functional(*arguments)


NORM_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@decomposes(aten.native_layer_norm.default)
def layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Results:
    """Normalise over the last axes, which have `shape`."""
    if not _is_supported(x, weight, bias):
        return NotImplemented
    centred, mean, scale = _centre_and_scale(x.float(), list(range(-len(shape), 0)), eps)
    of_row = _statistics_dtype(x, weight, bias)
    return _affine(centred * scale, weight, bias).to(x.dtype), mean.to(of_row), scale.to(of_row)


@decomposes(aten.native_group_norm.default)
def group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, batch: int, channels: int, size: int, groups: int, eps: float
) -> Results:
    """Normalise each of `groups` groups of channels, which have `size` elements per channel."""
    if type(batch) is int and batch == 0:
        rows = torch.empty(0, groups, dtype=_statistics_dtype(x, weight, bias), device=x.device)
        return x.clone(), rows, rows.clone()
    if not _is_supported(x, weight, bias):
        return NotImplemented
    group_shape = [channels // groups, *x.shape[2:]]
    # Keep the spatial axes: collapsing and expanding them would split the kernel.
    centred, mean, scale = _centre_and_scale(
        x.float().reshape(batch, groups, *group_shape), list(range(2, 2 + len(group_shape))), eps
    )
    of_channel = [1, groups, channels // groups] + [1] * (x.dim() - 2)
    factors = (None if operand is None else operand.view(of_channel) for operand in (weight, bias))
    result = _affine(centred * scale, *factors).to(x.dtype).view(x.shape)
    of_row = _statistics_dtype(x, weight, bias)
    return result, mean.view(batch, groups).to(of_row), scale.view(batch, groups).to(of_row)


def _is_supported(x: Tensor, *parameters: Tensor | None) -> bool:
    kinds = {operand.dtype for operand in (x, *parameters) if operand is not None}
    return kinds <= {torch.float32, x.dtype} and x.dtype in NORM_DTYPES and x.numel() != 0


def _statistics_dtype(x: Tensor, *parameters: Tensor | None) -> torch.dtype:
    return next((parameter.dtype for parameter in parameters if parameter is not None), x.dtype)


def _centre_and_scale(x: Tensor, axes: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    mean = torch.mean(x.double(), axes, True).float()
    centred = x - mean
    variance = torch.mean((centred * centred).double(), axes, True).float()
    return centred, mean, torch.rsqrt(variance + eps)


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight.float()
    return x if bias is None else x + bias.float()


@decomposes(aten.rms_norm.default)
def rms_norm(x: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Return the RMS norm; without this rule torch would decompose it by itself."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    axes = list(range(-len(shape), 0))
    eps = torch.finfo(wide.dtype).eps if eps is None else eps
    result = wide * torch.rsqrt(torch.mean(wide * wide, axes, True) + eps)
    return (result if weight is None else result * weight).to(x.dtype)


_SUM, _MEAN, _MAX = range(3)
_SUMMED_AT_ONCE = (torch.float32, torch.float16, torch.bfloat16)
"""dtypes whose sums torch computes without the bag of each sample and the bags' sizes, which are then empty and 0."""


@decomposes(aten.embedding_bag.default, aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = -1,
) -> Results:
    """Return the result, each sample's bag, the bags' sizes, and 0 for indices of maxima, which only gradients use."""
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
def embedding_bag_with_padding(weight: Tensor, *arguments: Any) -> Results:
    """Return `embedding_bag`; a negative padding index, the last argument, counts from the end."""
    *others, padding = arguments
    if padding is not None and padding < 0:
        padding += weight.shape[0]
    return embedding_bag(weight, *others, padding)


def _maxima(rows: Tensor, bag: Tensor, counts: Tensor, bags: int) -> Tensor:
    is_in = (torch.arange(bags, device=bag.device).unsqueeze(-1) == bag) & counts
    result = torch.where(is_in.unsqueeze(-1), rows, -math.inf).amax(1)
    return torch.where(is_in.any(1).unsqueeze(-1), result, 0.0).to(rows.dtype)


@decomposes(aten.embedding_renorm.default)
def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows that `indices` read down to the norm `max_norm`."""
    norms = torch.linalg.vector_norm(weight, norm_type, -1, True)
    read = torch.zeros(weight.shape[0], dtype=torch.int64, device=weight.device)
    read = read.index_fill(0, indices.flatten().long(), 1).unsqueeze(-1)
    return torch.where((read != 0) & (norms > max_norm), weight * (max_norm / (norms + 1e-7)), weight)
