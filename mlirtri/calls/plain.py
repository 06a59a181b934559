"""Classify arguments that a compiled function can take as they are, for every fast path.

Shapes, dtypes, strides and devices are not checked: compiled functions of TVM check them, and for other code
`type_guards` and `have_types` do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mlirtri.calls.arrays import is_settled


@dataclass(frozen=True)
class Type:
    """The compiled type of an argument or result: a contiguous tensor on the CPU."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    compiled: torch.dtype | None = None
    """The dtype that compiled functions take the same memory for, where it differs: signed for unsigned integers."""

    @property
    def bytes(self) -> int:
        return torch.Size(self.shape).numel() * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(torch.Size(self.shape[axis + 1 :]).numel() for axis in range(len(self.shape)))

    @property
    def array_dtype(self) -> np.dtype | None:
        """Return NumPy's dtype; None where NumPy has none, as for bfloat16."""
        return array_dtype(self.dtype)


def array_dtype(dtype: torch.dtype) -> np.dtype | None:
    """Return NumPy's dtype for torch's, or None."""
    try:
        return torch.empty(0, dtype=dtype).numpy().dtype
    except TypeError:
        return None


def plain_kind(*arguments: Any) -> type | None:
    """Return `torch.Tensor` or `numpy.ndarray` where all arguments are plain and of that class, else None."""
    kind = type(arguments[0]) if arguments else None
    if kind is torch.Tensor:
        for argument in arguments:
            if type(argument) is not kind or argument.requires_grad or argument.is_neg():
                return None
        return kind
    return kind if kind is np.ndarray and all([type(argument) is kind for argument in arguments]) else None


def have_types(tensors: Sequence[Any], types: Sequence[Type]) -> bool:
    """Return whether the arguments are plain tensors of exactly these types."""
    return plain_kind(*tensors) is torch.Tensor and all(
        tensor.dtype is type_.dtype
        and tensor.shape == type_.shape
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and is_settled(tensor)
        for tensor, type_ in zip(tensors, types, strict=True)
    )


def type_guards(types: Sequence[Type]) -> Callable[..., bool]:
    """Return torch's own guard, twice as fast as `have_types` but also false for one tensor given twice and in
    `torch.inference_mode`; always false where torch has none.
    """
    try:
        samples = [torch.empty_strided(type_.shape, type_.strides, dtype=type_.dtype) for type_ in types]
        sizes, strides = [list(type_.shape) for type_ in types], [list(type_.strides) for type_ in types]
        guards = torch._C._dynamo.guards.TensorGuards(*samples, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        if guards.check(*samples):
            return guards.check
    except (AttributeError, RuntimeError, TypeError, MemoryError):
        pass
    return lambda *_tensors: False


def _empty(shape: tuple[int, ...], _strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


_torch_guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
shortest_empty: Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], torch.Tensor] = getattr(
    _torch_guards, "_empty_strided_cpu", _empty
)
"""Allocates a CPU tensor of a shape, strides and a dtype as torch's compiled code does, in a third of `torch.empty`."""
