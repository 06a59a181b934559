"""Convert between NumPy arrays, torch tensors and what executables take: views of the same memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch

from mlirtri.calls.callee import compiled_dtype
from mlirtri.dialect.base.dtypes import STORED, DType, find_stored
from mlirtri.errors import KernelTypeError
from mlirtri.language.arguments import is_dlpack

_WITHOUT_ARRAYS = {torch.bfloat16: torch.int16, **{dtype.torch: torch.int8 for dtype in STORED.values()}}
"""Dtypes of torch that NumPy lacks, and what has the same bits."""


def as_torch(array: np.ndarray, on_copy: Callable[[], None] | None = None) -> torch.Tensor:
    """Return a tensor over an array's memory; strided arrays that torch cannot view are copied."""
    if not array.flags.c_contiguous and (on_copy is not None or any(stride < 0 for stride in array.strides)):
        if on_copy is not None:
            on_copy()
        array = np.array(array, order="C")
    # The kind first: a dtype's name takes microseconds to make. It is 2 of what others added, 0 of pickled copies of
    # NumPy's own dtypes.
    if array.dtype.isbuiltin == 2 and (dtype := find_stored(array.dtype)) is not None:
        return as_torch(array.view(f"i{dtype.bytes}")).view(dtype.torch)
    if not array.flags.writeable and array.size:
        # torch warns about read-only memory, which kernels never write: see the same bytes as writable.
        memory = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
        memory.owner = array
        array = np.frombuffer(cast(Any, memory), dtype=array.dtype).reshape(array.shape)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def strided_as_torch(array: np.ndarray) -> torch.Tensor:
    """Return a tensor over the memory of an array of whatever strides that are multiples of its elements."""
    strides = [stride // array.itemsize for stride in array.strides]
    span = 1 + sum((size - 1) * stride for size, stride in zip(array.shape, strides, strict=True)) if array.size else 0
    memory = (ctypes.c_char * (span * array.itemsize)).from_address(array.ctypes.data)
    memory.owner = array
    elements = np.frombuffer(cast(Any, memory), dtype=array.dtype) if span else np.empty(0, array.dtype)
    return as_torch(elements).as_strided(array.shape, strides)


def as_array(tensor: torch.Tensor, keeps_rank_0: bool = False) -> np.ndarray | np.generic:
    """Return a result as a NumPy array; of rank 0 as a NumPy scalar, as most of NumPy's functions do, unless kept."""
    tensor = tensor.cpu()
    if tensor.dtype in _WITHOUT_ARRAYS:
        array = tensor.view(_WITHOUT_ARRAYS[tensor.dtype]).numpy().view(find_stored(tensor.dtype).numpy)
    else:
        array = tensor.numpy()
    return array if array.ndim or keeps_rank_0 else array[()]


def view_of(dtype: DType, signless: bool) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """Return the executable's view of a dtype: complex as parts, unsigned as signed if `signless`; None if none."""
    if dtype.is_complex:
        return torch.view_as_real
    compiled = compiled_dtype(dtype, signless)
    return None if compiled is None else lambda tensor: tensor.view(compiled.torch)


def unviewed(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Undo `view_of`: return an input as a tensor of its own dtype."""
    if tensor.dtype == dtype:
        return tensor
    return torch.view_as_complex(tensor) if dtype.is_complex else tensor.view(dtype)


def is_settled(tensor: torch.Tensor) -> bool:
    """Return whether memory holds the values in order: contiguous, with no lazy negation or conjugate."""
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def of_dlpack(value: object) -> Any:
    """Return a tensor over the memory of another library's tensor; any other value as it is.

    torch and that library order their CUDA streams as DLPack prescribes.
    """
    if not is_dlpack(value):
        return value
    try:
        return torch.from_dlpack(value)
    except (AssertionError, BufferError, RuntimeError, TypeError, ValueError) as problem:
        # An assertion of torch's says that it was built without CUDA.
        raise KernelTypeError(f"torch takes no such {type(value).__name__} by DLPack: {problem}") from None
