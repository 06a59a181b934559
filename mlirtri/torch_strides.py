"""Tensors by their strides in memory, which MLIR's tensors do not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def strided(x: torch.Tensor, size: Any, stride: Any, storage_offset: Any = None) -> torch.Tensor:
    """Elements of a contiguous tensor with open sizes; where all are known, they are found in the whole graph."""
    offset = x.storage_offset() if storage_offset is None else storage_offset
    numbers = [*x.shape, *size, *stride, offset, x.storage_offset()]
    if all(type(each) is int for each in numbers) or not x.is_contiguous() or x.storage_offset() != 0:
        return NotImplemented
    place = torch.full((), offset, dtype=torch.int64, device=x.device)
    for length, step in zip(size, stride, strict=True):
        place = place.unsqueeze(-1) + torch.arange(length, device=x.device) * step
    return x.view(-1)[place]


def unfilled(size: Any, stride: Any, **options: Any) -> torch.Tensor:
    """Strides are of no meaning in MLIR."""
    return aten.empty.memory_format(size, **options)


STRIDES: dict[Any, Callable[..., Any]] = {
    aten.as_strided.default: strided,
    aten.empty_strided.default: unfilled,
}
