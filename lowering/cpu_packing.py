"""Copies of a contraction's operands, in the order in which its tiles read them.

Takes a `Contraction` and our target. Gives the contraction that reads the copy, and the statements that make it.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from mlirtri.lowering.contraction import Contraction, Values, depends, size_of
from mlirtri.lowering.cpu_tiles import lanes_for, loop_kind
from mlirtri.lowering.target import Target
from mlirtri.lowering.tile_statements import (
    counted,
    flat,
    in_lanes,
    in_vectors,
    nested,
    ramp,
    replaced,
    spread,
    temporary,
    zero_of,
)
from mlirtri.lowering.tir_statements import index, sequence
from mlirtri.lowering.tvm_names import tirx


def packed_left(contraction: Contraction, target: Target) -> tuple[Contraction, list[Any]]:
    """The contraction that reads its left operand from a copy, row by row, and what makes the copy."""
    batch = [axis for axis in contraction.batch if depends(contraction.left, [axis])]
    dtype = str(contraction.left.ty.dtype)
    axes = [*batch, *contraction.rows]
    shape = [size_of(axes), *(axis.extent for axis in contraction.reduced)]
    buffer = temporary("left", dtype, shape)
    *outer, inner = contraction.reduced

    def row(position: Any) -> Any:
        return nested(outer, lambda values: along({**spread(axes, position), **values}))

    def along(values: Values) -> Any:
        return in_vectors(inner.extent, lanes_for("int32"), lambda at: store({**values, inner.variable: at}, at))

    def store(values: Values, _at: Any) -> Any:
        place = [flat(axes, values), *(values[axis.variable] for axis in contraction.reduced)]
        return tirx.BufferStore(buffer, replaced(contraction.left, values), place)

    work = prod(shape) // lanes_for("int32")
    copy = counted("row", shape[0], row, loop_kind(work * 4, target))
    place = [
        flat(axes, {axis.variable: axis.variable for axis in axes}),
        *(axis.variable for axis in contraction.reduced),
    ]
    left = tirx.BufferLoad(buffer, place)
    return replace(contraction, left=left, packs_left=False), [tirx.AllocBuffer(buffer), copy]


def packed_right(contraction: Contraction, lanes: int, target: Target) -> tuple[Contraction, list[Any]]:
    """The contraction that reads its right operand from a copy in vectors, and what makes the copy.

    The copy has whole vectors, zeros where there are no columns.
    """
    batch = [axis for axis in contraction.batch if depends(contraction.right, [axis])]
    columns = size_of(contraction.columns)
    vectors = -(-columns // lanes)
    buffer = temporary(
        "right", str(contraction.right.ty.dtype),
        [size_of(batch), vectors, *(axis.extent for axis in contraction.reduced), lanes],
    )  # fmt: skip

    def vector(position: Any) -> Any:
        at_batch, at = tirx.floordiv(position, index(vectors)), tirx.floormod(position, index(vectors))
        values = spread(batch, at_batch)
        rest = columns % lanes
        whole = filled(values, at_batch, at, lanes)
        if not rest:
            return whole
        partial = sequence(zeroed(at_batch, at), filled(values, at_batch, at, rest))
        return partial if vectors == 1 else tirx.IfThenElse(tirx.LT(at, index(vectors - 1)), whole, partial)

    def filled(values: Values, at_batch: Any, at: Any, count: int) -> Any:
        def element(reduced: Values) -> Any:
            return in_lanes(count, lambda lane: store({**values, **reduced}, at_batch, at, lane))

        return nested(contraction.reduced, element)

    def store(values: Values, at_batch: Any, at: Any, lane: Any) -> Any:
        place = [at_batch, at, *(values[axis.variable] for axis in contraction.reduced), lane]
        values = {**values, **spread(contraction.columns, at * index(lanes) + lane)}
        return tirx.BufferStore(buffer, replaced(contraction.right, values), place)

    def zeroed(at_batch: Any, at: Any) -> Any:
        def element(values: Values) -> Any:
            place = [at_batch, at, *(values[axis.variable] for axis in contraction.reduced)]
            zero = tirx.Broadcast(zero_of(str(buffer.dtype)), lanes)
            return tirx.BufferStore(buffer, zero, [*place, ramp(index(0), lanes)])

        return nested(contraction.reduced, element)

    work = size_of(batch) * vectors * size_of(contraction.reduced)
    copy = counted("panel", size_of(batch) * vectors, vector, loop_kind(work * 4, target))
    here = {axis.variable: axis.variable for axis in batch}
    position = flat(contraction.columns, {axis.variable: axis.variable for axis in contraction.columns})
    place = [
        flat(batch, here), tirx.floordiv(position, index(lanes)),
        *(axis.variable for axis in contraction.reduced), tirx.floormod(position, index(lanes)),
    ]  # fmt: skip
    return replace(contraction, right=tirx.BufferLoad(buffer, place)), [tirx.AllocBuffer(buffer), copy]


def packed_terms(contraction: Contraction, lanes: int, target: Target) -> tuple[Contraction, list[Any]]:
    """The contraction that starts its columns' sums from a copy in vectors, and what adds that up."""
    terms, axes = contraction.column_terms
    batch = [axis for axis in contraction.batch if depends(terms, [axis])]
    columns = size_of(contraction.columns)
    vectors = -(-columns // lanes)
    buffer = temporary("terms", contraction.dtype, [size_of(batch), vectors, lanes])

    def vector(position: Any) -> Any:
        at_batch, at = tirx.floordiv(position, index(vectors)), tirx.floormod(position, index(vectors))
        place, rest = [at_batch, at], columns % lanes
        zero = tirx.Broadcast(zero_of(contraction.dtype), lanes)
        start = tirx.BufferStore(buffer, zero, [*place, ramp(index(0), lanes)])

        def added(count: int) -> Any:
            def element(values: Values) -> Any:
                return in_lanes(count, lambda lane: add(values, lane))

            return nested(axes, element, spread(batch, at_batch))

        def add(values: Values, lane: Any) -> Any:
            values = {**values, **spread(contraction.columns, at * index(lanes) + lane)}
            sums = tirx.BufferLoad(buffer, [*place, lane])
            return tirx.BufferStore(buffer, sums + replaced(terms, values), [*place, lane])

        if not rest or vectors == 1:
            return sequence(start, added(rest or lanes))
        return sequence(start, tirx.IfThenElse(tirx.LT(at, index(vectors - 1)), added(lanes), added(rest)))

    work = size_of(batch) * vectors * size_of(axes)
    made = counted("panel", size_of(batch) * vectors, vector, loop_kind(work * 4, target))
    position = flat(contraction.columns, {axis.variable: axis.variable for axis in contraction.columns})
    place = [
        flat(batch, {axis.variable: axis.variable for axis in batch}),
        tirx.floordiv(position, index(lanes)), tirx.floormod(position, index(lanes)),
    ]  # fmt: skip
    copy = replace(contraction, column_terms=(tirx.BufferLoad(buffer, place), ()))
    return copy, [tirx.AllocBuffer(buffer), made]
