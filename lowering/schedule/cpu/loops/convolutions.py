"""Convolutions of a dynamic number of images among the loops of imperative functions.

Sums in a scalar buffer become sums in memory, and loads of an image's padded copy become conditional loads::

    p[n, c, h, w] = 0;  p[n, c, h + 1, w + 1] = x[n, c, h, w]
    s = y[n, f, h, w];  for l: s += p[n, c, h + k, w + l] * v[f, c, k, l];  y[n, f, h, w] = s
                  ──►   y[n, f, h, w] += (x[n, c, h + k - 1, w + l - 1] where that is inside, else 0) * v[f, c, k, l]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.convolution.channels_first import (
    convolution_loops,
    is_channels_first,
    is_padded_channels_first,
)
from mlirtri.lowering.schedule.imperative.perfect_nests import is_same
from mlirtri.lowering.tir.contraction import Contraction
from mlirtri.lowering.tir.product_recognition import Product
from mlirtri.lowering.tir.statements import index, plus
from mlirtri.lowering.toolchain.tvm_names import Expr, Extent, Stmt, TensorLoad, Var, tirx


def unpadded_load(fill: Stmt, copy: Stmt, extents: dict[Var, Extent], indices: Sequence[Expr]) -> Expr | None:
    """Return an element of a padded image, which `fill` sets to a constant and `copy` partly overwrites.

    `extents` are those of the copy's loops. None where the copy is not of a whole image.
    """
    source = copy.value
    if not isinstance(source, TensorLoad) or not isinstance(fill.value, tirx.FloatImm | tirx.IntImm):
        return None
    image_indices, conditions = [], []
    for axis, copy_index, size, position, copy_size in zip(
        source.indices, copy.indices, source.source.ty.shape, indices, copy.buffer.ty.shape, strict=True
    ):
        padding = _constant(copy_index, axis)
        if padding is None or not is_same(extents.get(axis), size):
            return None
        image_index = plus(position, index(-padding)) if padding else position
        image_indices.append(image_index)
        if padding or not is_same(size, copy_size):
            conditions += [tirx.GE(image_index, index(0)), tirx.LT(image_index, size)]
    element = tirx.BufferLoad(source.source, image_indices)
    if not conditions:
        return element
    condition = conditions[0]
    for conjunct in conditions[1:]:
        condition = tirx.And(condition, conjunct)
    return tirx.if_then_else(condition, element, fill.value)


def _constant(expression: Expr, axis: Any) -> int | None:
    if expression.same_as(axis):
        return 0
    if isinstance(expression, tirx.Add) and expression.a.same_as(axis) and isinstance(expression.b, tirx.IntImm):
        return expression.b.value if expression.b.value > 0 else None
    return None


def is_convolution(product: Product) -> bool:
    """Return whether a product is a convolution of which only the number of images is dynamic."""
    axes = (*product.rows, *product.columns, *product.reduced, *product.batch[1:])
    if not all(isinstance(axis.extent, int) for axis in axes) or product.dtype not in ("float32", "float64"):
        return False
    return is_padded_channels_first(product) or is_channels_first(product)


def tiles_of(contraction: Contraction, target: Target) -> Stmt | None:
    """Return the statements of a convolution; None where its layout has no rule."""
    return convolution_loops(replace(contraction, packs_left=False), target)
