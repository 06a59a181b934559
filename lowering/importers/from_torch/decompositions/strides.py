"""Tensors by their strides in memory, which MLIR's tensors do not have."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten


@decomposes(aten.as_strided.default)
def strided(x: torch.Tensor, size: Any, stride: Any, storage_offset: Any = None) -> torch.Tensor:
    """Elements of a contiguous tensor with open sizes; where all are known, they are found in the whole graph.

    All of them in their order are another shape, as torch's group norm has it for a factor of each channel.
    """
    if storage_offset in (None, 0) and x.storage_offset() == 0 and _has_all_in_order(x, size, stride):
        return x.view(size)
    offset = x.storage_offset() if storage_offset is None else storage_offset
    numbers = [*x.shape, *size, *stride, offset, x.storage_offset()]
    if all(type(each) is int for each in numbers) or not x.is_contiguous() or x.storage_offset() != 0:
        return NotImplemented
    place = torch.full((), offset, dtype=torch.int64, device=x.device)
    for length, step in zip(size, stride, strict=True):
        place = place.unsqueeze(-1) + torch.arange(length, device=x.device) * step
    return x.view(-1)[place]


def _has_all_in_order(x: torch.Tensor, size: Any, stride: Any) -> bool:
    """Whether these strides go through all of a contiguous tensor from its first element to its last."""
    if not all(type(each) is int for each in (*x.shape, *size, *stride)) or not x.is_contiguous():
        return False
    below = [prod(size[at + 1 :]) for at in range(len(size))]
    return prod(size) == x.numel() and all(
        length == 1 or step == inner for length, step, inner in zip(size, stride, below, strict=True)
    )


@decomposes(aten.as_strided_scatter.default)
def written(x: torch.Tensor, src: torch.Tensor, size: Any, stride: Any, storage_offset: Any = None) -> torch.Tensor:
    """A contiguous tensor of known sizes with other elements at such places.

    Places count from where the memory begins, which is not where a part of another tensor does: that is refused.
    """
    offset = storage_offset or 0
    numbers = (*x.shape, *size, *stride, offset, x.storage_offset())
    if not all(type(each) is int for each in numbers) or not x.is_contiguous() or x.storage_offset() != 0:
        return NotImplemented
    place = torch.full((), offset, dtype=torch.int64, device=x.device)
    for length, step in zip(size, stride, strict=True):
        place = place.unsqueeze(-1) + torch.arange(length, device=x.device) * step
    return aten.put(x, place, src)


@decomposes(aten.empty_strided.default)
def unfilled(size: Any, stride: Any, **options: Any) -> torch.Tensor:
    """Strides are of no meaning in MLIR."""
    return aten.empty.memory_format(size, **options)


def copied(view: Any) -> Callable[..., torch.Tensor]:
    """A view as a tensor of its own."""

    def apply(*arguments: Any, **options: Any) -> torch.Tensor:
        return view(*arguments, **options).clone()

    return apply


decomposes(aten.as_strided_copy.default)(copied(aten.as_strided.default))
decomposes(aten.narrow_copy.default)(copied(aten.narrow.default))
decomposes(aten.permute_copy.default)(copied(aten.permute.default))
decomposes(aten.unbind_copy.int)(lambda x, dim=0: [each.clone() for each in x.unbind(dim)])
decomposes(aten.view_copy.default)(copied(aten.view.default))
decomposes(aten.view_copy.dtype)(copied(aten.view.dtype))
