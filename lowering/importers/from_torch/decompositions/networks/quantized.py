"""Decompose torch's quantisation with scales and zero points as tensors, with eager's dtypes and roundings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Operator, Rule, Scalar

Tensor = torch.Tensor


def quantise_by_scalars(
    x: Tensor, scale: Tensor, zero_point: Tensor, low: Scalar, high: Scalar, dtype: torch.dtype
) -> Tensor:
    """Quantise with one scale and zero point, rank-0 tensors; the limits may also be tensors."""
    # Eager reads the scale as a Python float, divides by it there, and multiplies in float32.
    inverse = (1.0 / scale.double()).float().reshape(())
    shifted = torch.round(x.float() * inverse) + zero_point.float().reshape(())
    return _limited(shifted, low, high).to(dtype)


def dequantise_by_scalars(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    low: Scalar,
    high: Scalar,
    dtype: torch.dtype,
    *,
    out_dtype: Any = None,
) -> Tensor:
    """Dequantise with one scale and zero point, rank-0 tensors."""
    kind = out_dtype or torch.float32
    return (x.to(kind) - zero_point.to(kind).reshape(())) * scale.to(kind).reshape(())


def quantise_by_channel(
    x: Tensor, scales: Tensor, zero_points: Tensor, axis: int, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    """Quantise with a scale and a zero point per index along `axis`."""
    shape = _along(axis, x.dim())
    shifted = torch.round(x.float() * (1.0 / scales).view(shape)) + zero_points.view(shape)
    return torch.clamp(shifted, low, high).to(dtype)


def dequantise_by_channel(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Dequantise with a scale, and optionally a zero point, per index along `axis`."""
    shape = _along(axis, x.dim())
    centred = x if zero_points is None else x - zero_points.view(shape)
    return (centred * scales.view(shape)).to(out_dtype or torch.float32)


def quantise_by_token(
    x: Tensor, scales: Tensor, zero_points: Tensor, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    """Quantise with a scale and a zero point per row."""
    return torch.clamp(torch.round(x * (1.0 / scales) + zero_points), low, high).to(dtype)


def dequantise_by_token(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Dequantise with a scale and a zero point per row."""
    return ((x - zero_points) * scales).to(output_dtype)


def quantise_by_group(
    x: Tensor, scales: Tensor, zero_points: Tensor, low: int, high: int, dtype: torch.dtype, group_size: int = 128
) -> Tensor:
    """Quantise with a scale and a zero point per `group_size` elements of a row."""
    rows = x.reshape(-1, _group(x, scales, group_size))
    return quantise_by_token(rows, scales.reshape(-1, 1), zero_points.reshape(-1, 1), low, high, dtype).reshape(x.shape)


def dequantise_by_group(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    low: int,
    high: int,
    dtype: torch.dtype,
    group_size: int = 128,
    output_dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Dequantise with a scale, and optionally a zero point, per `group_size` elements of a row."""
    rows = x.reshape(-1, _group(x, scales, group_size))
    centred = rows if zero_points is None else rows - zero_points.reshape(-1, 1)
    return (centred * scales.reshape(-1, 1)).reshape(x.shape).to(output_dtype)


def scale_of_all(x: Tensor, low: int, high: int, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the scale that maps the range of all elements to the integers `low` to `high`, and its zero point."""
    least, most = torch.clamp(torch.amin(x), max=0), torch.clamp(torch.amax(x), min=0)
    scale = _at_least((most - least) / float(high - low), eps)
    zero_point = torch.clamp(low - torch.round(least / scale).to(torch.int32), low, high)
    return scale.double().reshape(1), zero_point.long().reshape(1)


def symmetric_scale_of_all(x: Tensor, low: int, high: int, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the scale that maps 0 to the middle of the integers, and that zero point."""
    most = torch.clamp(torch.maximum(-torch.amin(x), torch.amax(x)), min=0)
    scale = _at_least(most / (float(high - low) / 2), eps)
    middle = 128 if dtype == torch.uint8 else 0
    return scale.double().reshape(1), torch.full((1,), middle, dtype=torch.int64, device=x.device)


def scale_of_rows(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return for each row the scale and zero point that map its range to int8."""
    low, high = -128, 127
    least = torch.clamp(torch.amin(x, -1, True), max=0)
    most = torch.clamp(torch.amax(x, -1, True), min=0)
    scale = torch.clamp((most - least) / float(high - low), min=torch.finfo(torch.float32).eps)
    below, above = least / scale, most / scale
    zero_point = torch.where((low + below) + (high + above) > 0, low - below, high - above)
    return scale.double(), torch.round(torch.clamp(zero_point, low, high)).long()


def symmetric_scale_of_rows(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return for each row the scale that maps 0 to 0."""
    most = torch.amax(torch.abs(x), -1, True)
    most = most.float() if most.dtype == torch.float16 else most
    scale = torch.clamp(most, min=1e-5) / 127
    return scale, torch.zeros_like(scale)


def _limited(x: Tensor, low: Scalar, high: Scalar) -> Tensor:
    if isinstance(low, torch.Tensor):
        return torch.minimum(torch.maximum(x, low.to(x.dtype).reshape(())), high.to(x.dtype).reshape(()))
    return torch.clamp(x, low, high)


def _at_least(scale: Tensor, eps: float) -> Tensor:
    """Return the scale, at least `eps`, which eager compares as a float32 tensor."""
    return torch.maximum(scale.float(), torch.full((), eps, dtype=torch.float32, device=scale.device))


def _along(axis: int, rank: int) -> list[int]:
    shape = [1] * rank
    shape[axis] = -1
    return shape


def _group(x: Tensor, scales: Tensor, group_size: int) -> int:
    """Return the group size: the row length where a row is shorter than a group and has one scale."""
    return x.shape[-1] if group_size > x.shape[-1] and scales.shape[-1] == 1 else group_size


_RULES: dict[str, Callable[..., Any]] = {
    "quantize_per_tensor.tensor": quantise_by_scalars,
    "quantize_per_tensor.tensor2": quantise_by_scalars,
    "dequantize_per_tensor.tensor": dequantise_by_scalars,
    "dequantize_per_tensor.tensor2": dequantise_by_scalars,
    "quantize_per_channel.default": quantise_by_channel,
    "dequantize_per_channel.default": dequantise_by_channel,
    "quantize_per_token.default": quantise_by_token,
    "dequantize_per_token.default": dequantise_by_token,
    "quantize_per_channel_group.default": quantise_by_group,
    "dequantize_per_channel_group.default": dequantise_by_group,
    "choose_qparams.tensor": scale_of_all,
    "choose_qparams_symmetric.tensor": symmetric_scale_of_all,
    "choose_qparams_per_token_asymmetric.default": scale_of_rows,
    "choose_qparams_per_token.default": symmetric_scale_of_rows,
}


def quantised() -> dict[Operator, Rule]:
    """Return the rules by operator, of those registered by now: torch registers them on a program's import."""
    result = {}
    for name, function in _RULES.items():
        packet, _, overload = name.partition(".")
        operator = getattr(torch.ops.quantized_decomposed, packet, None)
        if operator is not None:
            result[getattr(operator, overload)] = function
    return result
