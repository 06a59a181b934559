"""CPU loops of elementwise blocks: outer axes in parallel, the innermost one vectorised, with a shorter last vector.

Axes are split where conditions change (padding, concatenation): one loop for each part, without a condition inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_in_register
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.nest import COMPARISONS, MIN_LANES, FlatNest, NestAxis, lanes_of
from mlirtri.lowering.schedule.cpu.common.profitability import Outer, outer_loops
from mlirtri.lowering.schedule.cpu.common.register_transposes import transposed_loops
from mlirtri.lowering.schedule.cpu.common.strips import vector_of
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.statements import buffer_like, fresh, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.tir.tiles import in_lanes, ramp, replaced
from mlirtri.lowering.toolchain.tvm_names import Expr, Node, Stmt, Var, ir, structural_map, structural_walk, tirx

CHUNK = 64
"""Vectors per task where there are few rows."""
CROSSED_ROWS = 64
"""Rows that a transpose processes for one vector of columns."""
_WIDENING = (tirx.Cast, ir.Call, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)
"""Expressions that change the width of values, and those that a CPU has no byte vectors for."""
MAX_PARTS = 8
_FALSE, _TRUE = 0, 1


def element_loops(nest: FlatNest, target: Target) -> Stmt | None:
    """Return the statements of an elementwise nest; None where no axis can be vectorised."""
    if not nest.axes:
        return fresh(nest.body)
    axis, lanes = _vector_axis(nest), _lanes(nest)
    if lanes >= MIN_LANES and (mixed := mixed_axes(nest)) is not None:
        regions = _regions(nest, [axis for axis in nest.axes if axis not in mixed])
        return sequence(*(interleaved(part, mixed, lanes, target) for part in regions))
    if axis is None or lanes < MIN_LANES:
        return None
    across = _crossing_axis(nest, axis)
    if across is not None and len(parts_of(nest.body, axis.variable, axis.extent)) == 1:
        statements = transposed_loops(nest, axis, across, lanes, target, may_repeat=_may_repeat(nest))
        return _crossing(nest, axis, across, lanes, target) if statements is None else statements
    statements = []
    for part in _regions(nest, [other for other in nest.axes if other is not axis]):
        statements += _region(
            part, next(candidate for candidate in part.axes if candidate.variable.same_as(axis.variable)), lanes, target
        )
    return sequence(*statements)


def _lanes(nest: FlatNest) -> int:
    """Return the lanes of a register of the widest element, taken as 32 bits unless narrow integers are not widened."""
    lanes = lanes_of(nest, nest.flat)
    if not all(str(buffer.dtype).startswith(("int", "uint")) for buffer in nest.flat):
        return lanes
    widening: list[Any] = []
    structural_walk(nest.body, [(kind, widening.append) for kind in _WIDENING], order="pre")
    if widening or not nest.vectorizes:
        return lanes
    return lanes_in_register(*(int(buffer.dtype.bits) for buffer in nest.flat))


def _regions(nest: FlatNest, axes: Sequence[NestAxis]) -> list[FlatNest]:
    """Return the nest split into parts in which no condition on `axes` changes, each counting from 0."""
    if not axes:
        return [nest]
    axis, *others = axes
    parts = parts_of(nest.body, axis.variable, axis.extent)
    if len(parts) == 1:
        return _regions(nest, others)
    nests = []
    for first, last in parts:
        counter = NestAxis(tirx.Var(axis.variable.name, axis.variable.ty), last - first, False)
        body = within(nest.body, axis.variable, first, last)
        body = substituted(body, axis.variable, plus(counter.variable, index(first)))
        nests += _regions(
            replace(nest, axes=tuple(counter if other is axis else other for other in nest.axes), body=body), others
        )
    return nests


def _vector_axis(nest: FlatNest) -> NestAxis | None:
    for axis in reversed(nest.axes):
        steps = [access.step(axis.variable) for access in nest.accesses if access.is_store]
        if axis.extent >= MIN_LANES and all(step == 1 for step in steps):
            reads = [access.step(axis.variable) for access in nest.operands]
            is_fit = not reads or any(step in (0, 1) for step in reads)
            return axis if is_fit or _crossing_axis(nest, axis) is not None else None
    return None


def _crossing_axis(nest: FlatNest, axis: NestAxis) -> NestAxis | None:
    """Return the axis along which operands are contiguous, if it is not that of the results; else None."""
    for access in nest.operands:
        if access.step(axis.variable) not in (0, 1, None):
            return next((other for other in nest.axes if access.step(other.variable) == 1), None)
    return None


def _crossing(nest: FlatNest, axis: NestAxis, across: NestAxis, lanes: int, target: Target) -> Any:
    """Return a transpose: a few rows together per vector of columns, so that each cache line is used as a whole."""
    outer = [other for other in nest.axes if other is not axis and other is not across]
    full_blocks, remaining = divmod(across.extent, CROSSED_ROWS)
    statements = []
    for first, count, rows in ((0, full_blocks, CROSSED_ROWS), (full_blocks * CROSSED_ROWS, 1, remaining)):
        if not count or not rows:
            continue
        block, within_block = tirx.Var("block", "int64"), tirx.Var(across.variable.name, "int64")
        position = plus(plus(block * index(rows), within_block), index(first))
        body = substituted(nest.body, across.variable, position)
        body = tirx.For(within_block, index(0), index(rows), tirx.ForKind.SERIAL, body)
        body = vectors(nest, body, axis, index(0), axis.extent, lanes)
        iterations = nest.iterations // across.extent * count * rows
        statements.append(outer_loops(Outer([*outer, NestAxis(block, count, False)], iterations), body, target))
    return sequence(*statements)


def _region(nest: FlatNest, axis: NestAxis, lanes: int, target: Target) -> list[Any]:
    """Return the loops over all rows, each along one axis; few long rows are split into chunks."""
    rows = [other for other in nest.axes if other is not axis]
    count, chunk = prod(other.extent for other in rows), CHUNK * lanes
    parts = parts_of(nest.body, axis.variable, axis.extent)
    if len(parts) > 1 or count >= 4 * target.threads or axis.extent < 2 * chunk:
        row = sequence(*(_along(nest, axis, part, lanes) for part in parts))
        return [outer_loops(Outer(rows, nest.iterations), row, target)]
    number = tirx.Var("chunk", "int64")
    chunks = NestAxis(number, axis.extent // chunk, False)
    body = vectors(nest, nest.body, axis, number * index(chunk), chunk, lanes)
    statements = [outer_loops(Outer([*rows, chunks], nest.iterations), body, target)]
    if remaining := axis.extent % chunk:
        body = vectors(nest, nest.body, axis, index(axis.extent - remaining), remaining, lanes)
        statements.append(outer_loops(Outer(rows, count * remaining), body, target))
    return statements


def _along(nest: FlatNest, axis: NestAxis, part: tuple[int, int], lanes: int) -> Any:
    first, last = part
    return vectors(nest, within(nest.body, axis.variable, first, last), axis, index(first), last - first, lanes)


def vectors(nest: FlatNest, body: Stmt, axis: NestAxis, start: Expr, extent: int, lanes: int) -> Stmt:
    """Return `extent` iterations of an axis from `start` on as vectors; the remainder has fewer lanes, or overlaps."""
    full, remaining = divmod(extent, lanes)
    statements = []
    if full:
        number = tirx.Var(axis.variable.name, axis.variable.ty)
        first = start if full == 1 else plus(start, number * index(lanes))
        vector = _vector(body, axis, first, lanes)
        statements.append(vector if full == 1 else tirx.For(number, index(0), index(full), tirx.ForKind.SERIAL, vector))
    if not remaining:
        return sequence(*statements)
    if full and _may_repeat(nest):
        return sequence(*statements, _vector(body, axis, plus(start, index(extent - lanes)), lanes))
    while remaining:
        lanes //= 2
        if remaining >= lanes:
            statements.append(_vector(body, axis, plus(start, index(extent - remaining)), lanes))
            remaining -= lanes
    return sequence(*statements)


def _vector(body: Stmt, axis: NestAxis, start: Any, lanes: int) -> Any:
    if lanes == 1:
        return fresh(substituted(body, axis.variable, start))
    return vector_of(body, axis.variable, start, lanes)


def _may_repeat(nest: FlatNest) -> bool:
    """Return whether iterations may be repeated: no load aliases, or may alias, a store."""
    written = nest.written
    if any(buffer in nest.inner for buffer in written):
        return False
    return all(access.is_store for access in nest.accesses if access.buffer in written)


MAX_INTERLEAVED = 8
"""Elements along the short axis: the code is repeated for each."""
DTYPES = ("float64", "float32", "int64", "int32")
"""Dtypes of results with the same layout in registers as in memory."""


def mixed_axes(nest: FlatNest) -> tuple[NestAxis, NestAxis] | None:
    """Return the short axis and the vectorised one; None where results are not interleaved so."""
    stores = [access for access in nest.accesses if access.is_store]
    if len(stores) != 1 or not nest.vectorizes or str(stores[0].buffer.dtype) not in DTYPES:
        return None
    [store] = stores
    if any(access.buffer is store.buffer or access.buffer.same_as(store.buffer) for access in nest.operands):
        return None
    short = next((axis for axis in nest.axes if store.step(axis.variable) == 1), None)
    if short is None or not 1 < short.extent <= MAX_INTERLEAVED:
        return None
    along = next((axis for axis in nest.axes if store.step(axis.variable) == short.extent), None)
    if along is None or along.extent < MIN_LANES or len(parts_of(nest.body, along.variable, along.extent)) > 1:
        return None
    are_whole = all(access.step(short.variable) is not None for access in nest.operands)
    return (
        (short, along) if are_whole and all(access.step(along.variable) in (0, 1) for access in nest.operands) else None
    )


def interleaved(nest: FlatNest, axes: tuple[NestAxis, NestAxis], lanes: int, target: Target) -> Stmt:
    """Return the statements of a nest in which conditions change along the short axis only."""
    short, along = axes
    while lanes > along.extent:
        lanes //= 2
    full, remaining = divmod(along.extent, lanes)
    number = tirx.Var(along.variable.name, "int64")
    start = index(0) if full == 1 else number * index(lanes)
    body = _mixed(nest, short, along, start, lanes)
    statements = [body if full == 1 else tirx.For(number, index(0), index(full), tirx.ForKind.SERIAL, body)]
    while remaining:
        lanes //= 2
        if remaining >= lanes:
            statements.append(_mixed(nest, short, along, index(along.extent - remaining), lanes))
            remaining -= lanes
    outer = [axis for axis in nest.axes if axis is not short and axis is not along]
    return outer_loops(Outer(outer, nest.iterations), sequence(*statements), target)


def _mixed(nest: FlatNest, short: NestAxis, along: NestAxis, start: Any, lanes: int) -> Any:
    [store] = [access for access in nest.accesses if access.is_store]
    element = new_buffer(f"{store.buffer.name}_part", str(store.buffer.dtype), 1)
    buffers = [buffer_like(element, [index(1), index(lanes)]) for _ in range(short.extent)]
    statements = [tirx.AllocBuffer(buffer) for buffer in buffers]

    def element_store(node: Node) -> Any:
        return tirx.BufferStore(element, node.value, [index(0)]) if node.buffer.same_as(store.buffer) else node

    for position, buffer in enumerate(buffers):
        body = substituted(within(nest.body, short.variable, position, position + 1), short.variable, index(position))
        body = structural_map(body, (tirx.BufferStore, element_store), order="post")
        statements.append(vector_of(body, along.variable, start, lanes, {element: buffer}))
    width = lanes * short.extent
    row = new_buffer(f"{store.buffer.name}_row", str(store.buffer.dtype), width)
    vectors = [tirx.BufferLoad(buffer, [index(0), ramp(index(0), lanes)]) for buffer in buffers]
    order = [index(position * lanes + lane) for lane in range(lanes) for position in range(short.extent)]
    statements += [tirx.AllocBuffer(row), tirx.BufferStore(row, tirx.Shuffle(vectors, order), [ramp(index(0), width)])]
    first = replaced(store.offset, {short.variable: index(0), along.variable: start})
    statements.append(
        in_lanes(width, lambda lane: tirx.BufferStore(store.buffer, tirx.BufferLoad(row, [lane]), [plus(first, lane)]))
    )
    return fresh(sequence(*statements))


def parts_of(statement: Stmt, variable: Var, extent: int) -> list[tuple[int, int]]:
    """Return the bounds of the parts, in order: a single part where there would be too many."""
    bounds = {0, extent}

    def visit(node: Node) -> None:
        bounds.update(bound for bound in _changes(node, variable) if 0 < bound < extent)

    structural_walk(statement, [(kind, visit) for kind in COMPARISONS])
    ordered = sorted(bounds)
    if len(ordered) > MAX_PARTS + 1:
        return [(0, extent)]
    return list(pairwise(ordered))


def within(statement: Stmt, variable: Var, first: int, last: int) -> Stmt:
    """Return `statement` simplified for ``first <= variable < last``."""

    def comparison(node: Node) -> Any:
        form = _difference(node)
        if form is None or set(form.terms) != {variable}:
            return node
        factor = form.factor(variable)
        values = [factor * position + form.constant for position in (first, last - 1)]
        result = _constant_result(node, min(values), max(values))
        return node if result is None else tirx.IntImm("bool", result)

    rules = [(kind, comparison) for kind in COMPARISONS]
    folds = [(tirx.And, _fold_and), (tirx.Or, _fold_or), (tirx.Not, _fold_not), (ir.Call, _fold_condition)]
    return structural_map(structural_map(statement, rules, order="post"), folds, order="post")


def _difference(comparison: Expr) -> Any:
    if not str(getattr(comparison.a, "ty", "")).startswith("int"):
        return None
    left, right = linear(comparison.a, {}), linear(comparison.b, {})
    return None if left is None or right is None else left - right


def _changes(comparison: Expr, variable: Var) -> list[int]:
    """Return the values of the variable whose result may differ from that of the value below."""
    form = _difference(comparison)
    if form is None or set(form.terms) != {variable} or abs(form.factor(variable)) != 1:
        return []
    root, rises = -form.constant * form.factor(variable), form.factor(variable) > 0
    if isinstance(comparison, tirx.EQ | tirx.NE):
        return [root, root + 1]
    # The difference is 0 at the root, where it changes sign.
    is_strict = isinstance(comparison, tirx.LT | tirx.GE)
    return [root] if is_strict == rises else [root + 1]


def _constant_result(comparison: Expr, least: int, most: int) -> int | None:
    """Return the result of comparing with 0 where it is the same for all of `least` to `most`; else None."""
    results = {_RESULTS[type(comparison)](value) for value in {least, most, *([0] if least < 0 < most else [])}}
    return results.pop() if len(results) == 1 else None


_RESULTS = {
    tirx.LT: lambda value: int(value < 0),
    tirx.LE: lambda value: int(value <= 0),
    tirx.GT: lambda value: int(value > 0),
    tirx.GE: lambda value: int(value >= 0),
    tirx.EQ: lambda value: int(value == 0),
    tirx.NE: lambda value: int(value != 0),
}


def _value(node: Node) -> int | None:
    return int(node.value) if isinstance(node, tirx.IntImm) else None


def _fold_and(node: Node) -> Any:
    first, second = _value(node.a), _value(node.b)
    if _FALSE in (first, second):
        return tirx.IntImm("bool", _FALSE)
    return node.b if first == _TRUE else node.a if second == _TRUE else node


def _fold_or(node: Node) -> Any:
    first, second = _value(node.a), _value(node.b)
    if _TRUE in (first, second):
        return tirx.IntImm("bool", _TRUE)
    return node.b if first == _FALSE else node.a if second == _FALSE else node


def _fold_not(node: Node) -> Any:
    value = _value(node.a)
    return node if value is None else tirx.IntImm("bool", 1 - value)


def _fold_condition(call: Expr) -> Any:
    if not str(getattr(call.op, "name", "")).endswith(".if_then_else"):
        return call
    value = _value(call.args[0])
    return call if value is None else call.args[1] if value else call.args[2]
