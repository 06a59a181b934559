"""Convert arrays to MLIR constants with the same bits, and Relax constants to arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.bindings.mlir import arith, ir


def constant_of(array: np.ndarray, kind: ir.RankedTensorType) -> ir.Value:
    """Return a constant of type `kind` with these elements; the NumPy dtype is the type's or its unsigned form."""
    if array.dtype.kind != "c":
        return arith.constant(kind, dense_attribute(array, kind))
    operation = ir.Operation.parse(f"%0 = arith.constant {_dense_text(array, kind)}")
    operation.location = ir.Location.current
    ir.InsertionPoint.current.insert(operation)
    return operation.results[0]


def dense_attribute(array: np.ndarray, kind: ir.RankedTensorType) -> ir.Attribute:
    """Return the dense attribute of that type; a splat where all elements have the same bits."""
    if array.dtype == np.bool_ and array.size:
        return ir.DenseElementsAttr.get([ir.BoolAttr.get(bool(element)) for element in array.flat], kind)
    return ir.Attribute.parse(_dense_text(array, kind))


def _dense_text(array: np.ndarray, kind: ir.RankedTensorType) -> str:
    if array.size == 0:
        return f"dense<> : {kind}"
    elements = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8).reshape(array.size, -1)
    if (elements == elements[0]).all():
        elements = elements[:1]
    return f'dense<"0x{elements.tobytes().hex()}"> : {kind}'


def array_of(constant: Any) -> np.ndarray:
    """Return the elements of a Relax constant; bf16 in the dtype of `ml_dtypes`."""
    dtype = str(constant.ty.dtype)
    if dtype != "bfloat16":
        return constant.value.numpy()
    import torch

    return torch.from_dlpack(constant.value).view(torch.int16).numpy().view(as_dtype(dtype).numpy)
