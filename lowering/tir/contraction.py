"""A contraction: a sum of products of two operands, with its axes classified.

Matrix products in any layout, batched ones and convolutions, whose operands are read at sums of axes, are contractions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

from mlirtri.lowering.tir.statements import depends_on, index, with_accesses
from mlirtri.lowering.toolchain.tvm_names import Analyzer, Expr, Extent, Node, Range, TensorLoad, Var, tirx, with_values

Values = dict[Any, Any]
"""From the variable of an axis to the expression that replaces it."""


@dataclass(frozen=True)
class Axis:
    """An axis: the variable used in operands and stores, and its extent, counted from 0."""

    variable: Any
    extent: Any
    """An `int`, or an expression if it is known at run time only."""


def multiply_add(sums: Expr, left: Expr, right: Expr) -> Expr:
    return sums + left * right


class Way(Enum):
    """The kind of a contraction: which operand is profitable to copy, and what vector lanes are."""

    TILES = "tiles"
    """Lanes are columns; operands are packed as the contraction's flags say."""
    COLUMNS = "columns"
    """Lanes are columns of a right operand that is read once, in place, for a few rows."""
    DOTS = "dots"
    """Lanes are along the innermost axis of the sum; both operands, or a copy of the right, are contiguous there."""
    MATRICES = "matrices"
    """Sums are in matrix registers; operands are words of bf16 pairs."""


@dataclass(frozen=True)
class Factors:
    """``sum over reduced of left * right``, for all of `batch`, `rows` and `columns`."""

    batch: tuple[Axis, ...]
    """Axes that both operands and the result may have."""
    rows: tuple[Axis, ...]
    """Axes of the left operand only, outermost first."""
    columns: tuple[Axis, ...]
    """Axes of the right operand only; the last one should be the innermost of right operand and results."""
    reduced: tuple[Axis, ...]
    """Axes of the sum; the outermost is blocked where the sum is long."""
    left: Any
    """One element, an expression of variables of `batch`, `rows` and `reduced`."""
    right: Any
    """One element, an expression of variables of `batch`, `columns` and `reduced`."""


@dataclass(frozen=True)
class Contraction(Factors):
    """A sum of products with its epilogue, and how it is computed."""

    dtype: str
    """Dtype of the sum."""
    result: Any
    """A buffer whose loads in `stores` stand for the sum. It is not allocated."""
    stores: tuple[Any, ...]
    """The epilogue for one element: `BufferStore`s in terms of the variables, in order."""
    private: tuple[Any, ...] = ()
    """Buffers with one element's values between `stores`; they are not allocated either."""
    add: Callable[[Any, Any, Any], Any] = multiply_add
    """From vectors of sums, of left elements and of right elements to the new sums."""
    way: Way = Way.TILES
    column_terms: tuple[Any, tuple[Axis, ...]] | None = None
    """The initial value of a column's sums in place of 0: an expression, and the axes over which it is summed."""
    packs_left: bool = False
    """Whether the left operand is copied first, by rows: if its elements are computed, or rows are not contiguous."""
    simple_left: tuple[Any, Any] | None = None
    """A simpler expression of the left operand, and the elements along the innermost axis of the sum that it holds for.
    """
    packs_right: bool = True
    """Whether the right operand is copied first. Otherwise it has to be contiguous along the columns."""
    is_right_packed: bool = False
    """Whether the right operand is packed already, with vectors of columns padded with zeros."""
    transposes_right: bool = False
    """Whether the right operand is copied to be contiguous along the sum, for `Way.DOTS`."""
    column_range: tuple[Any, Any] | None = None
    """The first column and the end of those to compute, known at run time; tiles outside are skipped."""
    reduced_range: tuple[Any, Any] | None = None
    """The bounds of the outermost axis of the sum, known at run time; None for all of it."""
    location: str = ""
    """The source location of the product, ``file:line:column``; empty where it has none."""


def size_of(axes: Sequence[Axis]) -> Extent:
    """Return the number of elements: an `int`, or an expression if an extent is one."""
    return prod(axis.extent for axis in axes)


def depends(node: Node, axes: Sequence[Axis]) -> bool:
    """Return whether an expression uses one of the axes."""
    return depends_on(node, [axis.variable for axis in axes])


def lies_along(load: TensorLoad, axis: Axis) -> bool:
    """Return whether a load or store is contiguous along an axis."""
    buffer = load.source if isinstance(load, TensorLoad) else load.buffer
    shape = zip(load.indices, buffer.ty.shape, strict=True)
    positions = [position for position, size in shape if not (isinstance(size, tirx.IntImm) and size.value == 1)]
    return bool(positions) and _advances(positions[-1], axis.variable)


def _advances(position: Expr, variable: Var) -> bool:
    """Return whether an index is a variable, or a sum of it and what does not depend on it."""
    if position.same_as(variable):
        return True
    if not isinstance(position, tirx.Add):
        return False
    sides = (position.a, position.b), (position.b, position.a)
    return any(_advances(side, variable) and not depends_on(other, [variable]) for side, other in sides)


def without_units(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Return the axes of extent other than 1."""
    return tuple(axis for axis in axes if not is_unit(axis))


def is_unit(axis: Axis) -> bool:
    """Return whether an axis has extent 1, so that no operand has to be indexed by it."""
    return isinstance(axis.extent, int) and axis.extent == 1


def shortened(nodes: Sequence[Node], axes: Sequence[Axis]) -> list[Node]:
    """Return expressions and stores with 0 for unit axes and with indices simplified by the ranges of all axes."""
    units = {axis.variable: index(0) for axis in axes if is_unit(axis)}
    analyzer = Analyzer()
    for axis in without_units(axes):
        extent = index(axis.extent) if isinstance(axis.extent, int) else axis.extent
        analyzer.bind(axis.variable, Range(index(0), extent))

    def simplified(indices: Sequence[Any]) -> list[Any]:
        return [node if isinstance(node, tirx.Var) else analyzer.simplify(node) for node in indices]

    bare = [with_values(node, units) for node in nodes]
    return [with_accesses(node, lambda buffer, indices: (buffer, simplified(indices))) for node in bare]
