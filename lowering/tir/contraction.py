"""What a contraction is: a sum of products of two operands, over axes that have their parts in it.

Any product of sums is one: a matrix product in any layout, batched, and a convolution, whose operands are read at sums
of axes. Operands and stores are expressions of the axes' variables. Knows no target, no PrimFunc and no schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

from mlirtri.lowering.toolchain.tvm_names import Analyzer, Range, TensorLoad, structural_map, structural_walk, tirx

Values = dict[Any, Any]
"""What stands for an axis's variable."""


@dataclass(frozen=True)
class Axis:
    """A variable, in which operands and stores are written, and how far it counts from 0."""

    variable: Any
    extent: Any
    """An `int`, or an expression where only the run shows it."""


def multiply_add(sums: Any, left: Any, right: Any) -> Any:
    return sums + left * right


class Way(Enum):
    """What a contraction is like: which of its operands a copy is profitable for, and what lanes are."""

    TILES = "tiles"
    """Lanes are columns; operands are packed as told."""
    COLUMNS = "columns"
    """Lanes are columns of a right operand that is read once, in place, for a few rows."""
    DOTS = "dots"
    """Lanes are along the innermost axis of the sum, along which both operands lie, or the right one's copy does."""


@dataclass(frozen=True)
class Contraction:
    """``sum over reduced of left * right``, for all of `batch`, `rows` and `columns`."""

    batch: tuple[Axis, ...]
    """Axes that both operands and the result may have."""
    rows: tuple[Axis, ...]
    """Axes of the left operand only, outermost first."""
    columns: tuple[Axis, ...]
    """Axes of the right operand only; the last one should be the innermost of right operand and results."""
    reduced: tuple[Axis, ...]
    """Axes of the sum; the outermost is cut into blocks where the sum is long."""
    left: Any
    """One element, an expression of variables of `batch`, `rows` and `reduced`."""
    right: Any
    """One element, an expression of variables of `batch`, `columns` and `reduced`."""
    dtype: str
    """Of the sum."""
    result: Any
    """A buffer of which loads in `stores` mean the sum. It is not allocated."""
    stores: tuple[Any, ...]
    """What is done with the sum, for one element: `BufferStore`s in terms of the variables, in order."""
    private: tuple[Any, ...] = ()
    """Buffers that hold one element's values between `stores`; they are not allocated either."""
    add: Callable[[Any, Any, Any], Any] = multiply_add
    """A vector of sums, of left elements and of right ones to new sums."""
    way: Way = Way.TILES
    """How it is computed."""
    column_terms: tuple[Any, tuple[Axis, ...]] | None = None
    """What a column's sums start from in place of 0: an expression, and the axes over which it is added up."""
    packs_left: bool = False
    """Whether the left operand is copied first, row by row: when an element takes work, or rows are not contiguous."""
    packs_right: bool = True
    """Whether the right operand is copied first. In place it has to be contiguous along the columns."""
    turns_right: bool = False
    """Whether the right operand is copied to lie along the sum, for `Way.DOTS`."""
    column_range: tuple[Any, Any] | None = None
    """From which column up to which there is something to do, as run time tells; tiles without any are passed over."""
    reduced_range: tuple[Any, Any] | None = None
    """From where up to where the outermost axis of the sum goes, as run time tells; None for all of it."""


def size_of(axes: Sequence[Axis]) -> Any:
    """How many elements: an `int`, or an expression where an axis' extent is one."""
    return prod(axis.extent for axis in axes)


def depends(node: Any, axes: Sequence[Axis]) -> bool:
    """Whether an expression names one of the axes."""
    found: list[Any] = []
    structural_walk(node, (tirx.Var, found.append))
    return any(each.same_as(axis.variable) for each in found for axis in axes)


def lies_along(load: Any, axis: Axis) -> bool:
    """Whether neighbours along an axis are neighbours in memory, for a load or a store."""
    buffer = load.source if isinstance(load, TensorLoad) else load.buffer
    shape = zip(load.indices, buffer.ty.shape, strict=True)
    places = [each for each, size in shape if not (isinstance(size, tirx.IntImm) and size.value == 1)]
    return bool(places) and places[-1].same_as(axis.variable)


def without_units(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axes that count further than 0."""
    return tuple(axis for axis in axes if not _is_unit(axis))


def _is_unit(axis: Axis) -> bool:
    return isinstance(axis.extent, int) and axis.extent == 1


def shortened(nodes: Sequence[Any], axes: Sequence[Axis]) -> list[Any]:
    """Expressions and stores with 0 for axes of one, and with indices as simple as all ranges together make them."""
    units = {axis.variable: tirx.IntImm("int64", 0) for axis in axes if _is_unit(axis)}
    analyzer = Analyzer()
    for axis in without_units(axes):
        extent = tirx.IntImm("int64", axis.extent) if isinstance(axis.extent, int) else axis.extent
        analyzer.bind(axis.variable, Range(tirx.IntImm("int64", 0), extent))

    def places(indices: Sequence[Any]) -> list[Any]:
        return [each if isinstance(each, tirx.Var) else analyzer.simplify(each) for each in indices]

    def load(node: Any) -> Any:
        return tirx.BufferLoad(node.source, places(node.indices))

    def store(node: Any) -> Any:
        return tirx.BufferStore(node.buffer, node.value, places(node.indices))

    rules = [(TensorLoad, load), (tirx.BufferStore, store)]
    bare = [structural_map(node, (tirx.Var, lambda each: units.get(each, each))) for node in nodes]
    return [structural_map(node, rules, order="post") for node in bare]
