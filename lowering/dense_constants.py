"""Arrays as MLIR's constants, with the same bits, and the arrays of Relax's constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlirtri.dialect.dtypes import as_dtype
from mlirtri.dialect.mlir import arith, ir


def constant_of(array: np.ndarray, element: ir.Type) -> ir.Value:
    """A tensor constant of these elements, whose NumPy dtype is that of `element` or unsigned."""
    kind = ir.RankedTensorType.get(list(array.shape), element)
    return arith.constant(kind, dense_attribute(array, kind))


def dense_attribute(array: np.ndarray, kind: ir.RankedTensorType) -> ir.Attribute:
    """The dense attribute of that type; one number where all elements have the same bits."""
    array = np.ascontiguousarray(array)
    if array.size == 0:
        return ir.Attribute.parse(f"dense<> : {kind}")
    if array.dtype == np.bool_:
        return ir.DenseElementsAttr.get([ir.BoolAttr.get(bool(each)) for each in array.flat], kind)
    elements = np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, -1)
    if (elements == elements[0]).all():
        elements = elements[:1]
    return ir.Attribute.parse(f'dense<"0x{elements.tobytes().hex()}"> : {kind}')


def array_of(constant: Any) -> np.ndarray:
    """The elements of a Relax constant; bf16 as `ml_dtypes` has it."""
    dtype = str(constant.ty.dtype)
    if dtype != "bfloat16":
        return constant.value.numpy()
    import torch

    return torch.from_dlpack(constant.value).view(torch.int16).numpy().view(as_dtype(dtype).numpy)
