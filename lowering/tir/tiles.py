"""TIR statements of loops over tiles: counted loops, vectors, positions along fused axes, buffers.

A loop is built from a function of its variable; one iteration needs no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.lowering.tir.contraction import Axis, Values, size_of
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Extent, Node, Stmt, tirx, with_values


def replaced(node: Node, values: Values) -> Node:
    """Return a statement or expression with expressions in place of variables."""
    return with_values(node, values)


def for_loop(name: str, extent: Extent, body: Callable[[Expr], Stmt], kind: tirx.ForKind | None = None) -> Stmt:
    """Return a loop whose body is built from its variable; the body alone, for 0, if it runs once."""
    if isinstance(extent, int):
        if extent == 1 and kind is not tirx.ForKind.VECTORIZED:
            return body(index(0))
        extent = index(extent)
    variable = tirx.Var(name, "int64")
    return tirx.For(variable, index(0), extent, tirx.ForKind.SERIAL if kind is None else kind, body(variable))


def loop_nest(axes: Sequence[Axis], body: Callable[[Values], Stmt], values: Values | None = None) -> Stmt:
    """Return one loop per axis around a body, which is built from the values of the axes."""
    values = values or {}
    if not axes:
        return body(values)
    axis, *inner = axes

    def inner_loops(value: Expr) -> Any:
        return loop_nest(inner, body, {**values, axis.variable: value})

    return for_loop(axis.variable.name, axis.extent, inner_loops)


def in_vectors(extent: Extent, lanes: int, body: Callable[[Expr], Stmt]) -> Stmt:
    """Return loops of `body` over 0 … extent in vectors; the rest is one vector, or scalar if the extent is dynamic."""
    return groups_of(extent, lanes, lambda first, count: in_lanes(count, lambda lane: body(first + lane)))


def groups_of(extent: Extent, lanes: int, body: Callable[[Expr, int], Stmt]) -> Stmt:
    """Return loops of `body` over groups of `lanes` elements; the rest is one group, or single elements if dynamic."""

    def vectors(count: Any) -> Any:
        return for_loop("vector", count, lambda group: body(group * index(lanes), lanes))

    if not isinstance(extent, int):
        groups, remaining = quotient(extent, lanes), remainder(extent, lanes)
        first = groups * index(lanes)
        return sequence(vectors(groups), for_loop("element", remaining, lambda element: body(first + element, 1)))
    groups, remaining = divmod(extent, lanes)
    parts = [vectors(groups)] if groups else []
    return sequence(*parts, *([body(index(groups * lanes), remaining)] if remaining else []))


def in_lanes(count: int, body: Callable[[Expr], Stmt]) -> Stmt:
    """Return ``body(lane)`` in a vectorised loop over `count` lanes, or for the only lane."""
    if count == 1:
        return body(index(0))
    return for_loop("lane", count, body, tirx.ForKind.VECTORIZED)


def axis_values(axes: Sequence[Axis], position: Expr) -> Values:
    """Return the axes' values at a row-major position among all of them."""
    values: Values = {}
    for number, axis in enumerate(axes):
        stride = size_of(axes[number + 1 :])
        value = position if isinstance(stride, int) and stride == 1 else quotient(position, stride)
        values[axis.variable] = remainder(value, axis.extent) if number else value
    return values


def sized(extent: Extent) -> Expr:
    """Return an extent as an expression."""
    return index(extent) if isinstance(extent, int) else extent


def quotient(position: Expr, size: Extent) -> Expr:
    """Return position // size of a non-negative position."""
    return tirx.floordiv(position, index(size)) if isinstance(size, int) else tirx.truncdiv(position, size)


def remainder(position: Expr, size: Extent) -> Expr:
    """Return position % size of a non-negative position."""
    return tirx.floormod(position, index(size)) if isinstance(size, int) else tirx.truncmod(position, size)


def ceil_div(count: Extent, size: int) -> Extent:
    """Return the number of parts of this size, the last of which may be smaller."""
    return -(-count // size) if isinstance(count, int) else tirx.floordiv(count + index(size - 1), index(size))


def ramp(first: Expr, lanes: int) -> Expr:
    """Return the indices of `lanes` neighbouring elements."""
    return tirx.Ramp(first, index(1), lanes) if lanes > 1 else first


def temporary(name: str, dtype: str, shape: Sequence[Extent]) -> Buffer:
    return tirx.decl_buffer([sized(size) for size in shape], dtype, name, layout=None)


def linearized(axes: Sequence[Axis], values: Values) -> Expr:
    """Return the row-major position among all of the axes."""
    position = index(0)
    for axis in axes:
        position = position * sized(axis.extent) + values[axis.variable]
    return position


def at_least(size: Extent, least: int) -> Extent:
    """Return the maximum of a size and `least`."""
    return max(size, least) if isinstance(size, int) else tirx.max(size, index(least))


def at_most(size: Extent, most: Extent) -> Extent:
    """Return the minimum of two sizes or expressions."""
    are_known = isinstance(size, int) and isinstance(most, int)
    return min(size, most) if are_known else tirx.min(sized(size), sized(most))


def zero_of(dtype: str) -> Expr:
    return tirx.FloatImm(dtype, 0.0) if "float" in dtype else tirx.IntImm(dtype, 0)
