"""The reductions of halves, which eager adds up in float32 and rounds once; torch-mlir rounds at every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions import complex_basic as torch_complex
from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)


def in_float32(operator: Any) -> Callable[..., Any]:
    """The operator on float32, and its results rounded."""

    def compute(x: torch.Tensor, *arguments: Any, dtype: torch.dtype | None = None, **options: Any) -> Any:
        kind = dtype or x.dtype
        if kind not in HALVES:
            return NotImplemented
        found = operator(x.to(kind).float(), *arguments, **options)
        return found.to(kind) if isinstance(found, torch.Tensor) else tuple(each.to(kind) for each in found)

    return compute


def so_far(operator: Any) -> Callable[..., torch.Tensor]:
    """`cumsum` or `cumprod`, of which torch-mlir takes no other dtype."""

    def compute(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
        if dtype is not None and dtype not in HALVES:
            return operator(x.to(dtype), dim).to(dtype)
        return in_float32(operator)(x, dim, dtype=dtype)

    return compute


@decomposes(aten.sum.dim_IntList)
def total(x: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
    """Of complex numbers or of halves."""
    operator = torch_complex.total if x.dtype.is_complex else in_float32(aten.sum.dim_IntList)
    return operator(x, *arguments, **options)


@decomposes(aten.mean.dim)
def mean(x: torch.Tensor, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """torch-mlir has no means of integers in another dtype, nor of complex numbers."""
    if x.dtype.is_complex:
        return torch.complex(torch.mean(x.real, dim, keepdim), torch.mean(x.imag, dim, keepdim))
    if dtype is None or dtype == x.dtype:
        return in_float32(aten.mean.dim)(x, dim, keepdim)
    return torch.mean(x.to(dtype), dim, keepdim)


@decomposes(aten.var.correction)
def variance(x: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> torch.Tensor:
    """torch-mlir divides by one where eager divides by zero."""
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
def variance_and_mean(x: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Of the two."""
    if x.dtype in HALVES:
        return in_float32(aten.var_mean.correction)(x, dim, correction=correction, keepdim=keepdim)
    found = variance(x, dim, correction=correction, keepdim=keepdim)
    axes = list(dim) if dim else list(range(x.dim()))
    return found if found is NotImplemented else (found, torch.mean(x, axes, keepdim))


def averaged(operator: Any, rank: int) -> Callable[..., torch.Tensor]:
    """Means of windows along the last `rank` axes, also of a tensor without a batch.

    Of a list of one number, which is for all axes, torch-mlir reads a second.
    """

    def pool(x: torch.Tensor, *window: Any, **options: Any) -> torch.Tensor:
        full = tuple([*each] * rank if isinstance(each, list) and len(each) == 1 else each for each in window)
        if full != window:
            return operator(x, *full, **options)
        if x.dim() == rank + 1:
            return operator(x.unsqueeze(0), *window, **options).squeeze(0)
        return in_float32(operator)(x, *window, **options)

    return pool


@decomposes(aten.rms_norm.default)
def rms_norm(x: torch.Tensor, shape: Any, weight: torch.Tensor | None = None, eps: float | None = None) -> torch.Tensor:
    """Written out: torch takes it apart itself where no function of ours does."""
    wide = x.float() if x.dtype in HALVES else x
    axes = list(range(-len(shape), 0))
    eps = torch.finfo(wide.dtype).eps if eps is None else eps
    found = wide * torch.rsqrt(torch.mean(wide * wide, axes, True) + eps)
    return (found if weight is None else found * weight).to(x.dtype)


@decomposes(aten.multilabel_margin_loss.default)
def multilabel_margin(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """The loss alone."""
    return multilabel_margin_forward(x, target, reduction)[0]


@decomposes(aten.multilabel_margin_loss_forward.default)
def multilabel_margin_forward(x: torch.Tensor, target: torch.Tensor, reduction: int) -> Any:
    """torch's own decomposition counts the labels behind the first -1 as label 0."""
    rows, labels = torch.atleast_2d(x), torch.atleast_2d(target)
    number = torch.arange(rows.shape[1], device=x.device)
    end = torch.amin(torch.where(labels == -1, number, rows.shape[1]), -1, True)
    is_label = number < end
    chosen = rows.gather(-1, torch.where(is_label, labels, 0))
    is_target = torch.any((number == labels.unsqueeze(-1)) & is_label.unsqueeze(-1), 1)
    margins = torch.clamp(1.0 - chosen.unsqueeze(-1) + rows.unsqueeze(1), min=0) / rows.shape[1]
    counts = is_label.unsqueeze(-1) & torch.logical_not(is_target).unsqueeze(1)
    found = torch.where(counts, margins, 0.0).sum((1, 2))
    found = found.sum() if reduction == 2 else found.mean() if reduction == 1 else found.view(x.shape[:-1])
    return found, is_target.to(x.dtype).view(x.shape)


def extremum(operator: Any) -> Callable[..., torch.Tensor]:
    """torch-mlir reduces one axis after the other, and bytes in int64."""

    def compute(x: torch.Tensor, dim: Any = (), keepdim: bool = False) -> torch.Tensor:
        axes = {axis % x.dim() for axis in dim} if x.dim() else set()
        if x.dim() > 1 and len(axes) in (0, x.dim()) and all(isinstance(size, int) for size in x.shape):
            found = operator(x.reshape(-1), [0])
            return found.reshape([1] * x.dim()) if keepdim else found
        if x.dtype == torch.uint8:
            return operator(x.to(torch.int16), dim, keepdim).to(torch.uint8)
        return NotImplemented

    return compute


for _operator in (
    aten.mean.default,
    aten.prod.default,
    aten.prod.dim_int,
    aten.linalg_vector_norm.default,
    aten.norm.Scalar,
    aten.norm.ScalarOpt_dim,
    aten._adaptive_avg_pool3d.default,
):
    decomposes(_operator)(in_float32(_operator))
decomposes(aten.avg_pool2d.default)(averaged(aten.avg_pool2d.default, 2))
decomposes(aten.avg_pool3d.default)(averaged(aten.avg_pool3d.default, 3))
decomposes(aten.amax.default)(extremum(aten.amax.default))
decomposes(aten.amin.default)(extremum(aten.amin.default))
for _operator in (aten.cumsum.default, aten.cumprod.default):
    decomposes(_operator)(so_far(_operator))
