"""Rows of the op table that multiply matrices: `matmul` with NumPy's batching; `dot` is written with it.

fp16 and bf16 products are accumulated in fp32 and rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlirtri.dialect.base.sizes import fits
from mlirtri.dialect.base.tensor_type import broadcast_shapes
from mlirtri.dialect.ops.op import Op, reference_dtype
from mlirtri.errors import KernelTypeError


def _infer(types, attributes):
    x, y = types
    if x.rank < 2 or y.rank < 2:
        raise KernelTypeError(f"matmul needs matrices, got {x} and {y}")
    if x.dtype != y.dtype:
        raise KernelTypeError(f"matmul operands have different dtypes: {x} and {y}")
    if not fits(x.shape[-1], y.shape[-2]):
        raise KernelTypeError(
            f"matmul of {x} and {y}: the last size of the first, {x.shape[-1]}, "
            f"is not the size {y.shape[-2]} of the second's last axis but one"
        )
    batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return x.with_shape((*batch, x.shape[-2], y.shape[-1]))


def _reference(x, y):
    wide = reference_dtype(x)
    return np.matmul(x.astype(wide), y.astype(wide)).astype(x.dtype)


def _relax(relax_ops, arguments, attributes, result):
    x, y = arguments
    if result.dtype.is_half:
        product = relax_ops.matmul(x, y, out_dtype="float32")
        return relax_ops.astype(product, result.dtype.name)
    return relax_ops.matmul(x, y)


def rows() -> Iterator[Op]:
    yield Op(
        "matmul", "contraction", ("x", "y"), {}, _infer, _reference, structured=True, relax=_relax,
        relax_dtypes="iufhv",
    )  # fmt: skip
    yield Op("dot", "contraction", ("x", "y"), derived=True, numpy=np.dot, summary="matmul, or multiply for scalars")
