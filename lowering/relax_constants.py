"""Relax's constants as MLIR's: `arith.constant` with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlirtri.dialect.mlir import arith, ir
from mlirtri.lowering.tir_to_scalar import mlir_type


def constant_of(array: np.ndarray, dtype: str) -> ir.Value:
    """A tensor constant of these elements, whose NumPy dtype is that of `dtype`."""
    element = mlir_type(dtype)
    kind = ir.RankedTensorType.get(list(array.shape), element)
    return arith.constant(kind, dense(array, element, kind))


def dense(array: np.ndarray, element: ir.Type, kind: ir.RankedTensorType) -> ir.Attribute:
    """The attribute; one number where all elements have the same bits."""
    array = np.ascontiguousarray(array)
    if array.size == 0:
        return ir.Attribute.parse(f"dense<> : {kind}")
    if array.dtype == np.bool_:
        return ir.DenseElementsAttr.get([ir.BoolAttr.get(bool(each)) for each in array.flat], kind)
    words = np.frombuffer(array.tobytes(), f"<u{array.dtype.itemsize}")
    if (words == words[0]).all():
        words = words[:1]
    return ir.Attribute.parse(f'dense<"0x{words.tobytes().hex()}"> : {kind}')


def array_of(constant: Any) -> np.ndarray:
    """The elements of a Relax constant; bf16 as `ml_dtypes` has it."""
    dtype = str(constant.ty.dtype)
    if dtype != "bfloat16":
        return constant.value.numpy()
    import torch

    from mlirtri.dialect.dtypes import as_dtype

    return torch.from_dlpack(constant.value).view(torch.int16).numpy().view(as_dtype(dtype).numpy)
