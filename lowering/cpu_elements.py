"""The CPU's loops for elementwise work: rows in parallel, neighbours in memory as vectors, up to the last one.

Takes a `Nest` without reduction axes. Gives statements, or None where its results are no neighbours along any axis.
What differs between the borders and the middle of an array (padding, concatenation) is one loop for each part, without
a condition inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mlirtri.lowering.cpu_nests import Nest, NestAxis, lanes_of
from mlirtri.lowering.cpu_parallel import Outer, outer_loops
from mlirtri.lowering.cpu_ranges import parts_of, within
from mlirtri.lowering.loop_strips import Shape, strip
from mlirtri.lowering.target import Target
from mlirtri.lowering.tir_statements import fresh, index, plus, sequence, substituted
from mlirtri.lowering.tvm_names import tirx

CHUNK = 64
"""Vectors that one thread does at a time where there are few rows to share."""
FEW_LANES = 4


def element_loops(nest: Nest, target: Target) -> Any:
    """The statements of an elementwise nest; None where no axis is fit for vectors."""
    axis, lanes = _vector_axis(nest), lanes_of(nest, nest.flat)
    if axis is None or lanes < FEW_LANES:
        return None
    rows = [each for each in nest.axes if each is not axis]
    parts = parts_of(nest.body, axis.variable, axis.extent)
    made = []
    for first, last in parts:
        body = within(nest.body, axis.variable, first, last)
        made += _part(nest, body, axis, rows, (first, last), lanes, target)
    return sequence(*made)


def _vector_axis(nest: Nest) -> NestAxis | None:
    for axis in reversed(nest.axes):
        steps = [each.step(axis.variable) for each in nest.accesses if each.is_store]
        if axis.extent >= FEW_LANES and all(step == 1 for step in steps):
            reads = [each.step(axis.variable) for each in nest.operands]
            return axis if not reads or any(step in (0, 1) for step in reads) else None
    return None


def _part(
    nest: Nest, body: Any, axis: NestAxis, rows: Sequence[NestAxis], bounds: tuple[int, int], lanes: int, target: Target
) -> list[Any]:
    """Rows of the iterations of an axis between two bounds."""
    first, last = bounds
    extent = last - first
    points = prod(each.extent for each in rows) * extent
    chunk = CHUNK * lanes
    if prod(each.extent for each in rows) >= 4 * target.threads or extent < 2 * chunk:
        whole = vectors(nest, body, axis, index(first), extent, lanes)
        return [outer_loops(Outer(rows, points), whole, target)]
    number = tirx.Var("chunk", "int64")
    chunks = NestAxis(number, extent // chunk, False)
    start = plus(index(first), number * index(chunk))
    body_of_chunk = vectors(nest, body, axis, start, chunk, lanes)
    made = [outer_loops(Outer([*rows, chunks], points), body_of_chunk, target)]
    if rest := extent % chunk:
        start = index(last - rest)
        made.append(outer_loops(Outer(rows, points), vectors(nest, body, axis, start, rest, lanes), target))
    return made


def vectors(nest: Nest, body: Any, axis: NestAxis, start: Any, extent: int, lanes: int) -> Any:
    """`extent` iterations of an axis from `start` on as vectors, the last ones as fewer lanes, or once more."""
    whole, rest = divmod(extent, lanes)
    made = []
    if whole:
        number = tirx.Var(axis.variable.name, axis.variable.ty)
        place = start if whole == 1 else plus(start, number * index(lanes))
        one = _vector(body, axis, place, lanes)
        made.append(one if whole == 1 else tirx.For(number, index(0), index(whole), tirx.ForKind.SERIAL, one))
    if not rest:
        return sequence(*made)
    if whole and _may_repeat(nest):
        return sequence(*made, _vector(body, axis, plus(start, index(extent - lanes)), lanes))
    while rest:
        lanes //= 2
        if rest >= lanes:
            made.append(_vector(body, axis, plus(start, index(extent - rest)), lanes))
            rest -= lanes
    return sequence(*made)


def _vector(body: Any, axis: NestAxis, start: Any, lanes: int) -> Any:
    if lanes == 1:
        return fresh(substituted(body, axis.variable, start))
    made = strip(body, axis.variable, start, Shape(1, lanes))
    if made is None:
        raise ValueError("the elements of a vector part")
    return made


def _may_repeat(nest: Nest) -> bool:
    """Whether an iteration may run twice: nothing that it reads is, or may be, where it writes."""
    written = nest.written
    if any(buffer in nest.inner for buffer in written):
        return False
    return all(each.is_store for each in nest.accesses if each.buffer in written)
