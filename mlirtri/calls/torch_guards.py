"""Check torch's tensors in calls written for their types: torch's own guards, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mlirtri.dialect.base.tensor_type import TensorType

Guard = Callable[..., bool]


def guard_of(
    types: Sequence[TensorType], is_checked: bool, views: Sequence[bool], device: str = "cpu"
) -> tuple[Guard, Guard]:
    """Return torch's guard for contiguous tensors on a device, and a slower one for what it refuses without a need.

    Torch's is false for one tensor given twice and in `torch.inference_mode`. The slower one checks shapes, dtypes and
    strides with `is_checked` only. Run-time sizes are not checked, nor strides of `views`.
    """
    dtypes = [type_.dtype.torch for type_ in types]
    shapes = [tuple(type_.shape) if type_.is_static else None for type_ in types]

    def are_plain(*tensors: Any) -> bool:
        for tensor, dtype, shape, is_view in zip(tensors, dtypes, shapes, views, strict=True):
            if type(tensor) is not torch.Tensor or tensor.requires_grad or tensor.is_neg():
                return False
            if (is_checked or is_view) and not _has_type(tensor, dtype, shape, is_view, device):
                return False
        return True

    return _torch_guard(types, views, device), are_plain


def _has_type(
    tensor: torch.Tensor, dtype: torch.dtype, shape: tuple[int, ...] | None, is_view: bool, device: str
) -> bool:
    return (
        tensor.dtype is dtype
        and (shape is None or tensor.shape == shape)
        and tensor.device.type == device
        and tensor.layout is torch.strided
        and (is_view or tensor.is_contiguous())
        and not tensor.is_conj()
    )


def _torch_guard(types: Sequence[TensorType], views: Sequence[bool], device: str) -> Guard:
    """Return torch's own guard; always false where torch has none."""
    try:
        shapes = [tuple(type_.shape) if type_.is_static else (2,) * type_.rank for type_ in types]
        strides = [contiguous_strides(shape) for shape in shapes]
        samples = [
            torch.empty_strided(shape, stride, dtype=type_.dtype.torch, device=device)
            for shape, stride, type_ in zip(shapes, strides, types, strict=True)
        ]
        unknown = [[None] * type_.rank for type_ in types]
        sizes = [list(s) if t.is_static else u for s, t, u in zip(shapes, types, unknown, strict=True)]
        fixed = [type_.is_static and not is_view for type_, is_view in zip(types, views, strict=True)]
        steps = [list(s) if is_fixed else u for s, is_fixed, u in zip(strides, fixed, unknown, strict=True)]
        guards = torch._C._dynamo.guards.TensorGuards(*samples, dynamic_dims_sizes=sizes, dynamic_dims_strides=steps)
        if guards.check(*samples):
            return guards.check
    except (AttributeError, RuntimeError, TypeError, MemoryError):
        pass
    return lambda *_tensors: False


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor, in elements."""
    return tuple(torch.Size(shape[axis + 1 :]).numel() for axis in range(len(shape)))


def shortest_empty(device: str) -> Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], torch.Tensor]:
    """Return what allocates a tensor of a shape, strides and a dtype on a device: on CPUs and CUDA devices as torch's
    compiled code does, in a third of the time of `torch.empty`."""
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    made = getattr(guards, f"_empty_strided_{device}", None)
    return made or (lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device=device))
