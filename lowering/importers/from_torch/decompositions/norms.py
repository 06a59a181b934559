"""Decompose layer, group and RMS norms of float32, float16 and bfloat16: in float32 with float64 sums, as in eager.

torch-mlir's decomposition computes a variance with float64 terms, which costs two conversions per element, and keeps
float16 and bfloat16 throughout. Layer and group norm return the result, and each row's mean and reciprocal deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
Tensor = torch.Tensor


FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@decomposes(aten.native_layer_norm.default)
def layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    """Normalise over the last axes, which have `shape`."""
    if not _is_supported(x, weight, bias):
        return NotImplemented
    centred, mean, scale = _centre_and_scale(x.float(), list(range(-len(shape), 0)), eps)
    of_row = _statistics_dtype(x, weight, bias)
    return _affine(centred * scale, weight, bias).to(x.dtype), mean.to(of_row), scale.to(of_row)


@decomposes(aten.native_group_norm.default)
def group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, batch: int, channels: int, size: int, groups: int, eps: float
) -> Any:
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
    return kinds <= {torch.float32, x.dtype} and x.dtype in FLOATS and x.numel() != 0


def _statistics_dtype(x: Tensor, *parameters: Tensor | None) -> torch.dtype:
    """Return the dtype of mean and deviation: that of the parameters, else of `x`."""
    return next((parameter.dtype for parameter in parameters if parameter is not None), x.dtype)


def _centre_and_scale(x: Tensor, axes: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return `x` minus its mean, the mean, and the reciprocal deviation."""
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
