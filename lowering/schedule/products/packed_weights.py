"""The layout of weights that were packed once, before all calls: what `packing.py` copies in each call otherwise.

    W[n, k], or W[k, n]  ──►  P[n // lanes, k, n % lanes]                 the last vector padded with zeros
                              P[n // lanes, k // 2, n % lanes, k % 2]     bf16, for matrix registers

`weight_layout` and `filter_layout` say whether a product wants it; `is_packed` recognises the product that reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_for
from mlirtri.lowering.core.cpu import has_matrix_registers
from mlirtri.lowering.tir.arithmetic import widened_bfloat16
from mlirtri.lowering.tir.contraction import Axis, size_of, without_units
from mlirtri.lowering.tir.product_recognition import Product
from mlirtri.lowering.tir.statements import index, loads_in
from mlirtri.lowering.toolchain.tvm_names import Expr, Node, TensorLoad, Var, structural_equal, tirx

MIN_ROWS = 5
"""With fewer rows the time is that of reading the weight, which its own layout takes no longer."""
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class WeightLayout:
    """The packed layout of a product's right operand: one axis of columns, and the axes of the sum in order."""

    column: Axis
    reduced: tuple[Axis, ...]
    lanes: int
    group: int = 1
    """Neighbours along the sum that are side by side."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the packed weight."""
        *outer, inner = (axis.extent for axis in self.reduced)
        vectors = -(-self.column.extent // self.lanes)
        return (vectors, *outer, inner, self.lanes) if self.group == 1 else (
            vectors, *outer, inner // self.group, self.lanes, self.group,
        )  # fmt: skip

    def indices(self, column: Expr, reduced: Sequence[Expr]) -> list[Expr]:
        """Return the indices of an element in the packed weight."""
        vector, lane = tirx.floordiv(column, index(self.lanes)), tirx.floormod(column, index(self.lanes))
        if self.group == 1:
            return [vector, *reduced, lane]
        *outer, inner = reduced
        word, part = tirx.floordiv(inner, index(self.group)), tirx.floormod(inner, index(self.group))
        return [vector, *outer, word, lane, part]

    def axes(self, indices: Sequence[Expr]) -> tuple[Expr, list[Expr]]:
        """Return the column, and the positions on the axes of the sum, of an element of the packed weight."""
        if self.group == 1:
            vector, *reduced, lane = indices
        else:
            vector, *outer, word, lane, part = indices
            reduced = [*outer, word * index(self.group) + part]
        return vector * index(self.lanes) + lane, reduced


def weight_layout(product: Product) -> WeightLayout | None:
    """Return the layout in which tiles read a product's right operand; None where they read it as it is."""
    load = narrow_load(product.right, product.dtype)
    if load is None or not _has_words(load, product.dtype):
        return _layout(product.right, product.columns, product)
    layout = _layout(load, product.columns, product, "bfloat16")
    return None if layout is None or layout.reduced[-1].extent % 2 else replace(layout, group=2)


def filter_layout(product: Product) -> WeightLayout | None:
    """Return the layout of a convolution's left operand, its filters, for tiles whose lanes are output channels."""
    return _layout(product.left, product.rows, product)


def _has_words(load: TensorLoad, dtype: str) -> bool:
    return str(load.ty.dtype) == "bfloat16" and dtype == "float32" and lanes_for(dtype) == 16 and has_matrix_registers()


def narrow_load(operand: Expr, dtype: str) -> TensorLoad | None:
    """Return the load of bf16 or int8 that an operand widens to `dtype`; None for any other operand."""
    loads = loads_in(operand)
    if len(loads) != 1:
        return None
    [load] = loads
    if str(load.ty.dtype) == "bfloat16":
        forms = [widened_bfloat16(tirx.reinterpret("uint16", load)), tirx.Cast(dtype, load)]
    else:
        forms = [load, tirx.Cast(dtype, load)]
    return load if any(structural_equal(operand, form) for form in forms) else None


def _layout(operand: Expr, columns: Sequence[Axis], product: Product, dtype: str = "") -> WeightLayout | None:
    columns, reduced = without_units(columns), without_units(product.reduced)
    others = size_of(product.rows) * size_of(product.columns) // size_of(columns)
    if not isinstance(operand, TensorLoad) or len(columns) != 1 or not reduced:
        return None
    if str(operand.ty.dtype) != (dtype or product.dtype) or product.dtype not in DTYPES:
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
    load = narrow_load(operand, dtype)
    if load is not None and len(load.indices) == len(reduced) + 3 and _has_words(load, dtype):
        *indices, part = load.indices
        variable, word = reduced[-1].variable, indices[-2]
        if not _is(word, tirx.FloorDiv, variable, 2) or not _is(part, tirx.FloorMod, variable, 2):
            return False
        indices[-2] = variable
    elif isinstance(operand, TensorLoad):
        indices = list(operand.indices)
    else:
        return False
    if len(columns) != 1 or len(indices) != len(reduced) + 2:
        return False
    lanes, column = lanes_for(dtype), columns[0].variable
    first, *inner, last = indices
    is_split = _is(first, tirx.FloorDiv, column, lanes) and _is(last, tirx.FloorMod, column, lanes)
    return is_split and all(axis.variable.same_as(position) for axis, position in zip(reduced, inner, strict=True))


def _is(node: Node, kind: Any, variable: Var, divisor: int) -> bool:
    is_kind = isinstance(node, kind) and node.a.same_as(variable)
    return is_kind and isinstance(node.b, tirx.IntImm) and int(node.b.value) == divisor
