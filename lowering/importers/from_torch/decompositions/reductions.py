"""Decompose sums, products, means, variances and extrema.

Eager accumulates float16 and bfloat16 in float32 and rounds once; torch-mlir rounds at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import (
    HALVES,
    Axes,
    Operator,
    Results,
    Scalar,
    decomposes,
    in_float32,
)
from mlirtri.lowering.importers.from_torch.decompositions.complex_numbers.tensors import sum_of_complex

aten = torch.ops.aten
Tensor = torch.Tensor


def cumulative(operator: Operator) -> Callable[..., Tensor]:
    """Return the rule of `cumsum` or `cumprod`, which converts to the result dtype first."""

    def compute(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
        if dtype is not None and dtype not in HALVES:
            return operator(x.to(dtype), dim).to(dtype)
        return in_float32(operator)(x, dim, dtype=dtype)

    return compute


def converted(operator: Operator, of_booleans: Any) -> Callable[..., Tensor]:
    """Return the rule of a sum or product that converts elements to the result dtype first, where integers wrap.

    Of booleans it is `of_booleans`: eager reduces them by "or" and by "and", and torch-mlir adds them modulo 2.
    """

    def compute(x: Tensor, *arguments: Any, dtype: torch.dtype | None = None, **options: Any) -> Results:
        if dtype == torch.bool:
            return of_booleans(x != 0, *arguments, **options)
        if dtype is None or dtype == x.dtype or dtype in HALVES:
            return in_float32(operator)(x, *arguments, dtype=dtype, **options)
        result = operator(x.to(dtype), *arguments, **options)
        return result if result.dtype == dtype else result.to(dtype)

    return compute


@decomposes(aten.sum.dim_IntList)
def sum_over_axes(x: Tensor, dim: Axes = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Return the sum of complex, float16 or bfloat16 elements, or in another dtype."""
    if x.dtype.is_complex and (dtype is None or dtype == x.dtype):
        return sum_of_complex(x, dim, keepdim)
    any_along = lambda truth, dim, keepdim: aten.any.dims(truth, dim or None, keepdim)  # noqa: E731
    return converted(aten.sum.dim_IntList, any_along)(x, dim, keepdim, dtype=dtype)


@decomposes(aten.mean.dim)
def mean_over_axes(x: Tensor, dim: Axes, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Return the mean of complex elements, or in another dtype, which torch-mlir does not lower."""
    if x.dtype.is_complex:
        return torch.complex(torch.mean(x.real, dim, keepdim), torch.mean(x.imag, dim, keepdim))
    if dtype is None or dtype == x.dtype:
        return in_float32(aten.mean.dim)(x, dim, keepdim)
    return torch.mean(x.to(dtype), dim, keepdim)


@decomposes(aten.var.correction)
def variance(x: Tensor, dim: Axes = None, *, correction: Scalar = None, keepdim: bool = False) -> Tensor:
    """Return the variance; torch-mlir divides by 1 where eager divides by 0."""
    if x.dtype in HALVES:
        return in_float32(aten.var.correction)(x, dim, correction=correction, keepdim=keepdim)
    axes = list(dim) if dim else list(range(x.dim()))
    count = 1
    for axis in axes:
        count = count * x.shape[axis]
    if not isinstance(count, int) or not x.is_floating_point() or count > (1 if correction is None else correction):
        return NotImplemented
    centred = x - torch.mean(x, axes, True) if axes else x - x
    squares = torch.sum(centred * centred, axes, keepdim) if axes else centred * centred
    return squares / torch.zeros_like(squares)


@decomposes(aten.var_mean.correction)
def variance_and_mean(x: Tensor, dim: Axes = None, *, correction: Scalar = None, keepdim: bool = False) -> Results:
    if x.dtype in HALVES:
        return in_float32(aten.var_mean.correction)(x, dim, correction=correction, keepdim=keepdim)
    result = variance(x, dim, correction=correction, keepdim=keepdim)
    axes = list(dim) if dim else list(range(x.dim()))
    return result if result is NotImplemented else (result, torch.mean(x, axes, keepdim))


@decomposes(aten.multilabel_margin_loss.default)
def multilabel_margin(x: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return multilabel_margin_forward(x, target, reduction)[0]


@decomposes(aten.multilabel_margin_loss_forward.default)
def multilabel_margin_forward(x: Tensor, target: Tensor, reduction: int) -> Results:
    """Return the loss and the targets; torch's decomposition counts labels after the first -1 as 0."""
    rows, labels = torch.atleast_2d(x), torch.atleast_2d(target)
    iota = torch.arange(rows.shape[1], device=x.device)
    end = torch.amin(torch.where(labels == -1, iota, rows.shape[1]), -1, True)
    is_label = iota < end
    chosen = rows.gather(-1, torch.where(is_label, labels, 0))
    is_target = torch.any((iota == labels.unsqueeze(-1)) & is_label.unsqueeze(-1), 1)
    margins = torch.clamp(1.0 - chosen.unsqueeze(-1) + rows.unsqueeze(1), min=0) / rows.shape[1]
    counts = is_label.unsqueeze(-1) & torch.logical_not(is_target).unsqueeze(1)
    result = torch.where(counts, margins, 0.0).sum((1, 2))
    result = result.sum() if reduction == 2 else result.mean() if reduction == 1 else result.view(x.shape[:-1])
    return result, is_target.to(x.dtype).view(x.shape)


def extremum(operator: Operator) -> Callable[..., Tensor]:
    """Return the rule of `amax` or `amin`: over all axes at once, and uint8 in int16."""

    def compute(x: Tensor, dim: Axes = (), keepdim: bool = False) -> Tensor:
        axes = {axis % x.dim() for axis in dim} if x.dim() else set()
        if x.dim() > 1 and len(axes) in (0, x.dim()) and all(isinstance(size, int) for size in x.shape):
            result = operator(x.reshape(-1), [0])
            return result.reshape([1] * x.dim()) if keepdim else result
        if x.dtype == torch.uint8:
            return operator(x.to(torch.int16), dim, keepdim).to(torch.uint8)
        return NotImplemented

    return compute


def extremum_of_all(along: Operator) -> Callable[[Tensor], Tensor]:
    """Return the rule of `max` or `min` of all elements of narrow integers, given `amax` or `amin`."""

    def compute(x: Tensor) -> Tensor:
        if x.dtype not in (torch.int8, torch.int16, torch.uint8) or not x.dim():
            return NotImplemented
        return along(x.reshape(-1).int(), 0).to(x.dtype)

    return compute


decomposes(aten.max.default)(extremum_of_all(torch.amax))
decomposes(aten.min.default)(extremum_of_all(torch.amin))
decomposes(aten.amax.default)(extremum(aten.amax.default))
decomposes(aten.amin.default)(extremum(aten.amin.default))
for _operator in (aten.cumsum.default, aten.cumprod.default):
    decomposes(_operator)(cumulative(_operator))
decomposes(aten.prod.default)(converted(aten.prod.default, torch.all))
decomposes(aten.prod.dim_int)(converted(aten.prod.dim_int, aten.all.dim))
for _operator in (aten.mean.default, aten._adaptive_avg_pool3d.default):
    decomposes(_operator)(in_float32(_operator))
