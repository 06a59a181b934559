"""Rows of the op table without operands: `constant`, `arange`, `eye`.

`full` is a function of the language written with `constant`, and so is `empty` of a size known at compile time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.ops.op import Op
from mlirtri.errors import KernelValueError


def _constant(types, attributes):
    return TensorType(tuple(attributes["shape"]), as_dtype(attributes["dtype"]))


def _arange(types, attributes):
    if attributes["size"] < 0:
        raise KernelValueError(f"arange of {attributes['size']} elements")
    return TensorType((attributes["size"],), as_dtype(attributes["dtype"]))


def _eye(types, attributes):
    if attributes["rows"] < 0 or attributes["columns"] < 0:
        raise KernelValueError(f"eye of {attributes['rows']} rows and {attributes['columns']} columns")
    return TensorType((attributes["rows"], attributes["columns"]), as_dtype(attributes["dtype"]))


def rows() -> Iterator[Op]:
    constant = {"value": "number", "shape": "ints", "dtype": "string"}
    yield Op(
        "constant", "creation", (), constant, _constant,
        lambda value, shape, dtype: np.full(shape, value, as_dtype(dtype).numpy), structured=True,
    )  # fmt: skip
    arange = {"start": "number", "step": "number", "size": "int", "dtype": "string"}
    yield Op(
        "arange", "creation", (), arange, _arange,
        lambda start, step, size, dtype: (start + step * np.arange(size)).astype(as_dtype(dtype).numpy),
        structured=True,
    )  # fmt: skip
    eye = {"rows": "int", "columns": "int", "diagonal": "int", "dtype": "string"}
    yield Op(
        "eye", "creation", (), eye, _eye,
        lambda rows, columns, diagonal, dtype: np.eye(rows, columns, diagonal, as_dtype(dtype).numpy),
        structured=True,
    )  # fmt: skip
    yield Op("full", "creation", (), derived=True, numpy=np.full, summary="a constant, or a scalar broadcast")
