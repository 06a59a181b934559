"""Writes at places, and the gradients of pools: operators that torch-mlir has under another name, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
Tensor = torch.Tensor
REDUCTIONS = {"add": "sum", "multiply": "prod"}
"""The names of `scatter`, and those of `scatter_reduce`."""


@decomposes(aten.scatter.reduce, aten.scatter.value_reduce)
def scattered(x: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str) -> Tensor:
    """`Tensor.scatter` that adds or multiplies."""
    source = src if isinstance(src, Tensor) else torch.full(index.shape, src, dtype=x.dtype, device=x.device)
    return torch.scatter_reduce(x, dim, index, source, REDUCTIONS[reduce])


@decomposes(aten.index_reduce.default)
def index_reduced(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Whole slices along an axis."""
    along = [-1 if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    return torch.scatter_reduce(
        x, dim, index.view(along).expand(source.shape), source, reduce, include_self=include_self
    )


@decomposes(aten.scatter_reduce.two)
def reduced(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """torch-mlir counts for means of integers in floats; eager rounds down."""
    if reduce != "mean" or x.is_floating_point() or x.is_complex():
        return NotImplemented
    total = torch.scatter_reduce(x, dim, index, src, "sum", include_self=include_self)
    count = (torch.ones_like if include_self else torch.zeros_like)(x, dtype=torch.int64)
    count = count.scatter_add(dim, index, torch.ones_like(index))
    mean = torch.div(total, torch.clamp(count, min=1).to(x.dtype), rounding_mode="floor")
    return torch.where(count == 0, x, mean)


@decomposes(aten.diagonal_scatter.default)
def on_diagonal(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """`x` with another diagonal."""
    order = [axis for axis in range(x.dim()) if axis not in (dim1 % x.dim(), dim2 % x.dim())]
    order += [dim1 % x.dim(), dim2 % x.dim()]
    rows = torch.arange(src.shape[-1], device=x.device)
    places = [None] * (x.dim() - 2) + [rows + max(-offset, 0), rows + max(offset, 0)]
    found = aten.index_put.default(x.permute(order), places, src)
    return found.permute([order.index(axis) for axis in range(x.dim())])


@decomposes(aten.avg_pool2d_backward.default)
def mean_pool_backward(
    gradient: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    """Each window's share goes back to all of the window: a transposed convolution with ones."""
    if x.dim() == 3:
        window = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        found = mean_pool_backward(gradient.unsqueeze(0), x.unsqueeze(0), *window)
        return found if found is NotImplemented else found.squeeze(0)
    sizes, counts = x.shape[-2:], gradient.shape[-2:]
    if not all(isinstance(size, int) for size in (*x.shape, *counts)):
        return NotImplemented
    kernel, padding = _pair(kernel_size), _pair(padding)
    steps = _pair(stride) if stride else kernel
    lengths = [
        _lengths(counts[at], sizes[at], kernel[at], steps[at], padding[at], count_include_pad, x.device)
        for at in range(2)
    ]
    divisor = divisor_override or (lengths[0].unsqueeze(1) * lengths[1]).to(gradient.dtype)
    share = (gradient / divisor).reshape(-1, 1, *counts)
    spread = torch.conv_transpose2d(share, torch.ones(1, 1, *kernel, dtype=x.dtype, device=x.device), stride=steps)
    for axis, size, before in zip((2, 3), sizes, padding, strict=True):
        missing = max(size + before - spread.shape[axis], 0)
        spread = aten.constant_pad_nd(spread, [0, missing] if axis == 3 else [0, 0, 0, missing])
        spread = spread.narrow(axis, before, size)
    return spread.reshape(x.shape)


def _lengths(
    count: int, size: int, kernel: int, step: int, padding: int, with_padding: bool, device: torch.device
) -> Tensor:
    """How many elements each window along an axis has."""
    start = torch.arange(count, device=device) * step - padding
    end = torch.clamp(start + kernel, max=size + padding)
    if with_padding:
        return end - start
    return torch.clamp(end, max=size) - torch.clamp(start, min=0)


def _pair(sizes: Sequence[int]) -> list[int]:
    return list(sizes) * 2 if len(sizes) == 1 else list(sizes)
