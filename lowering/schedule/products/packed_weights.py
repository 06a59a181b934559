"""The layout of weights that were packed once, before all calls: what `packing.py` copies in each call otherwise.

    W[n, k], or W[k, n]  ──►  P[n // lanes, k, n % lanes]     the last vector padded with zeros

`weight_layout` and `filter_layout` say whether a product wants it; `is_packed` recognises the product that reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_for
from mlirtri.lowering.tir.contraction import Axis, size_of, without_units
from mlirtri.lowering.tir.product_recognition import Product
from mlirtri.lowering.tir.statements import index
from mlirtri.lowering.toolchain.tvm_names import Expr, Node, TensorLoad, Var, tirx

MIN_ROWS = 5
"""With fewer rows the time is that of reading the weight, which its own layout takes no longer."""
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class WeightLayout:
    """The packed layout of a product's right operand: one axis of columns, and the axes of the sum in order."""

    column: Axis
    reduced: tuple[Axis, ...]
    lanes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed weight."""
        return (-(-self.column.extent // self.lanes), *(axis.extent for axis in self.reduced), self.lanes)

    def indices(self, column: Expr, reduced: Sequence[Expr]) -> list[Expr]:
        """Return the indices of an element in the packed weight."""
        return [tirx.floordiv(column, index(self.lanes)), *reduced, tirx.floormod(column, index(self.lanes))]


def weight_layout(product: Product) -> WeightLayout | None:
    """Return the layout in which tiles read a product's right operand; None where they read it as it is."""
    return _layout(product.right, product.columns, product)


def filter_layout(product: Product) -> WeightLayout | None:
    """Return the layout of a convolution's left operand, its filters, for tiles whose lanes are output channels."""
    return _layout(product.left, product.rows, product)


def _layout(operand: Expr, columns: Sequence[Axis], product: Product) -> WeightLayout | None:
    columns, reduced = without_units(columns), without_units(product.reduced)
    others = size_of(product.rows) * size_of(product.columns) // size_of(columns)
    if not isinstance(operand, TensorLoad) or len(columns) != 1 or not reduced:
        return None
    if str(operand.ty.dtype) != product.dtype or product.dtype not in DTYPES:
        return None
    lanes = lanes_for(product.dtype)
    if others < MIN_ROWS or columns[0].extent <= lanes or size_of(reduced) < lanes:
        return None
    layout = WeightLayout(columns[0], reduced, lanes)
    return layout if _is_whole(operand, (columns[0], *reduced)) else None


def _is_whole(load: TensorLoad, axes: Sequence[Axis]) -> bool:
    """Return whether a load is indexed by these axes alone, each once, and reads all of its buffer."""
    indices = [position for position in load.indices if not isinstance(position, tirx.IntImm)]
    named = [axis for axis in axes if any(axis.variable.same_as(position) for position in indices)]
    if len(indices) < len(axes) or len(named) != len(axes):
        return False
    return prod(int(size) for size in load.source.ty.shape) == prod(axis.extent for axis in axes)


def is_packed(operand: Expr, columns: Sequence[Axis], reduced: Sequence[Axis], dtype: str) -> bool:
    """Return whether a product's operand is a weight in this layout; `columns` are the axes that it alone has."""
    if not isinstance(operand, TensorLoad) or len(columns) != 1 or len(operand.indices) != len(reduced) + 2:
        return False
    lanes, column = lanes_for(dtype), columns[0].variable
    first, *inner, last = operand.indices
    is_split = _is(first, tirx.FloorDiv, column, lanes) and _is(last, tirx.FloorMod, column, lanes)
    return is_split and all(axis.variable.same_as(position) for axis, position in zip(reduced, inner, strict=True))


def _is(node: Node, kind: Any, variable: Var, divisor: int) -> bool:
    is_kind = isinstance(node, kind) and node.a.same_as(variable)
    return is_kind and isinstance(node.b, tirx.IntImm) and int(node.b.value) == divisor
