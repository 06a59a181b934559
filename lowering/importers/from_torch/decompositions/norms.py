"""Layer and group norms of float32 and of halves as eager computes them: in float32, but for the sums.

torch-mlir takes them apart into a variance whose terms are float64, which costs two conversions for each element. Those
of halves it computes in halves, sums as well; eager's are rounded once, at their end.
Takes and gives what the ATen operators do: the result, and mean and reciprocal deviation of each row.
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
    """Rows are the last axes, of `shape`."""
    if not _is_plain(x, weight, bias):
        return NotImplemented
    centred, mean, scale = _standardised(x.float(), list(range(-len(shape), 0)), eps)
    of_row = _kind_of_rows(x, weight, bias)
    return _scaled(centred * scale, weight, bias).to(x.dtype), mean.to(of_row), scale.to(of_row)


@decomposes(aten.native_group_norm.default)
def group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, batch: int, channels: int, size: int, groups: int, eps: float
) -> Any:
    """Rows are `groups` groups of channels, each of which has `size` elements."""
    if type(batch) is int and batch == 0:
        rows = torch.empty(0, groups, dtype=_kind_of_rows(x, weight, bias), device=x.device)
        return x.clone(), rows, rows.clone()
    if not _is_plain(x, weight, bias):
        return NotImplemented
    inside = [channels // groups, *x.shape[2:]]
    # Not with the spatial axes as one: what a view merges, and another takes apart again, would part the kernel.
    centred, mean, scale = _standardised(
        x.float().reshape(batch, groups, *inside), list(range(2, 2 + len(inside))), eps
    )
    of_channel = [1, groups, channels // groups] + [1] * (x.dim() - 2)
    factors = (None if each is None else each.view(of_channel) for each in (weight, bias))
    found = _scaled(centred * scale, *factors).to(x.dtype).view(x.shape)
    of_row = _kind_of_rows(x, weight, bias)
    return found, mean.view(batch, groups).to(of_row), scale.view(batch, groups).to(of_row)


def _is_plain(x: Tensor, *parameters: Tensor | None) -> bool:
    kinds = {each.dtype for each in (x, *parameters) if each is not None}
    return kinds <= {torch.float32, x.dtype} and x.dtype in FLOATS and x.numel() != 0


def _kind_of_rows(x: Tensor, *parameters: Tensor | None) -> torch.dtype:
    """float32 where the factors are: of halves eager gives mean and deviation in halves otherwise."""
    return next((each.dtype for each in parameters if each is not None), x.dtype)


def _standardised(x: Tensor, axes: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """x minus its mean, the mean, and what scales that to a deviation of 1."""
    mean = torch.mean(x.double(), axes, True).float()
    centred = x - mean
    variance = torch.mean((centred * centred).double(), axes, True).float()
    return centred, mean, torch.rsqrt(variance + eps)


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight.float()
    return x if bias is None else x + bias.float()
