"""TIR statements of loops over tiles: counted loops, vectors, positions along fused axes, buffers.

Takes and gives TIR. A loop is made from a function of its variable, so that a loop of one iteration is no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.lowering.tir.contraction import Axis, Values, size_of
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.toolchain.tvm_names import structural_map, tirx


def replaced(node: Any, values: Values) -> Any:
    """A statement or expression with expressions in place of variables."""
    return structural_map(node, (tirx.Var, lambda each: values.get(each, each)))


def counted(name: str, extent: Any, body: Callable[[Any], Any], kind: Any = None) -> Any:
    """A loop whose body is made from its variable; the body alone, for 0, where it runs once."""
    if isinstance(extent, int):
        if extent == 1 and kind is not tirx.ForKind.VECTORIZED:
            return body(index(0))
        extent = index(extent)
    variable = tirx.Var(name, "int64")
    return tirx.For(variable, index(0), extent, tirx.ForKind.SERIAL if kind is None else kind, body(variable))


def nested(axes: Sequence[Axis], body: Callable[[Values], Any], values: Values | None = None) -> Any:
    """One loop per axis around a body, which is made from what stands for the axes."""
    values = values or {}
    if not axes:
        return body(values)
    axis, *inner = axes
    return counted(axis.variable.name, axis.extent, lambda at: nested(inner, body, {**values, axis.variable: at}))


def in_vectors(extent: Any, lanes: int, body: Callable[[Any], Any]) -> Any:
    """`body` for 0 … extent as vectors, and one of what is left; element by element, where only the run shows it."""
    return groups_of(extent, lanes, lambda first, count: in_lanes(count, lambda lane: body(first + lane)))


def groups_of(extent: Any, lanes: int, body: Callable[[Any, int], Any]) -> Any:
    """`body` for the first of each `lanes` elements and their number; of what is left, one by one if that is open."""

    def vectors(count: Any) -> Any:
        return counted("vector", count, lambda at: body(at * index(lanes), lanes))

    if not isinstance(extent, int):
        whole, rest = quotient(extent, lanes), remainder(extent, lanes)
        return sequence(vectors(whole), counted("element", rest, lambda at: body(whole * index(lanes) + at, 1)))
    whole, rest = divmod(extent, lanes)
    parts = [vectors(whole)] if whole else []
    return sequence(*parts, *([body(index(whole * lanes), rest)] if rest else []))


def in_lanes(count: int, body: Callable[[Any], Any]) -> Any:
    if count == 1:
        return body(index(0))
    return counted("lane", count, body, tirx.ForKind.VECTORIZED)


def spread(axes: Sequence[Axis], position: Any) -> Values:
    """The axes' values at a position of all of them together, the last one fastest."""
    values: Values = {}
    for at, axis in enumerate(axes):
        inside = size_of(axes[at + 1 :])
        value = position if isinstance(inside, int) and inside == 1 else quotient(position, inside)
        values[axis.variable] = remainder(value, axis.extent) if at else value
    return values


def sized(extent: Any) -> Any:
    """An extent as an expression."""
    return index(extent) if isinstance(extent, int) else extent


def quotient(position: Any, size: Any) -> Any:
    """position // size, of what is not negative."""
    return tirx.floordiv(position, index(size)) if isinstance(size, int) else tirx.truncdiv(position, size)


def remainder(position: Any, size: Any) -> Any:
    """position % size, of what is not negative."""
    return tirx.floormod(position, index(size)) if isinstance(size, int) else tirx.truncmod(position, size)


def parts_of(total: Any, size: int) -> Any:
    """How many parts of this size there are, the last of which may be smaller."""
    return -(-total // size) if isinstance(total, int) else tirx.floordiv(total + index(size - 1), index(size))


def ramp(first: Any, lanes: int) -> Any:
    """Return the indices of `lanes` neighbouring elements."""
    return tirx.Ramp(first, index(1), lanes) if lanes > 1 else first


def temporary(name: str, dtype: str, shape: Sequence[Any]) -> Any:
    return tirx.decl_buffer([sized(size) for size in shape], dtype, name, layout=None)


def flat(axes: Sequence[Axis], values: Values) -> Any:
    """The position among all of the axes together."""
    position = index(0)
    for axis in axes:
        position = position * sized(axis.extent) + values[axis.variable]
    return position


def at_least(size: Any, least: int) -> Any:
    """A size, or `least` where it is smaller."""
    return max(size, least) if isinstance(size, int) else tirx.max(size, index(least))


def at_most(size: Any, most: Any) -> Any:
    """A size, or `most` where it is larger; either may be an expression."""
    are_known = isinstance(size, int) and isinstance(most, int)
    return min(size, most) if are_known else tirx.min(sized(size), sized(most))


def zero_of(dtype: str) -> Any:
    return tirx.FloatImm(dtype, 0.0) if "float" in dtype else tirx.IntImm(dtype, 0)
