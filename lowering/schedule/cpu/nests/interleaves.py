"""The CPU's loops for elementwise work whose neighbours in memory come from several places, and are of one kind each.

Takes a `FlatNest` without reduction axes, whose innermost axis of the results is short and whose next one is that many
elements apart: what transposed convolutions put together of their phases, images of pixels shuffled. Gives statements,
or None for any other. Each place along the short axis is a vector along the next one, and these are mixed::

    for i, c in (n, 2):  out[2 i + c] = f(select(c == 0, x[i], y[i]))
        ──►   for vectors of i:  a = f(x[i:i+16]);  b = f(y[i:i+16]);  out[2 i : 2 i + 32] = a0 b0 a1 b1 …
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.nest import FlatNest, NestAxis
from mlirtri.lowering.schedule.cpu.common.parallel import Outer, outer_loops
from mlirtri.lowering.schedule.cpu.common.strips import Shape, strip
from mlirtri.lowering.schedule.cpu.nests.ranges import parts_of, within
from mlirtri.lowering.tir.blocks import PartedLanesError
from mlirtri.lowering.tir.statements import buffer_like, fresh, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.tir.tiles import in_lanes, ramp, replaced
from mlirtri.lowering.toolchain.tvm_names import structural_map, tirx

MOST_PLACES = 8
"""Elements along the short axis: each is the whole work once more as code."""
FEW_LANES = 4
DTYPES = ("float64", "float32", "int64", "int32")
"""Of results: registers hold their vectors as memory does."""


def mixed_axes(nest: FlatNest) -> tuple[NestAxis, NestAxis] | None:
    """The short axis and the one along which vectors go; None where results do not lie so."""
    stores = [each for each in nest.accesses if each.is_store]
    if len(stores) != 1 or not nest.vectorizes or str(stores[0].buffer.dtype) not in DTYPES:
        return None
    [store] = stores
    if any(each.buffer is store.buffer or each.buffer.same_as(store.buffer) for each in nest.operands):
        return None
    short = next((each for each in nest.axes if store.step(each.variable) == 1), None)
    if short is None or not 1 < short.extent <= MOST_PLACES:
        return None
    along = next((each for each in nest.axes if store.step(each.variable) == short.extent), None)
    if along is None or along.extent < FEW_LANES or len(parts_of(nest.body, along.variable, along.extent)) > 1:
        return None
    are_whole = all(each.step(short.variable) is not None for each in nest.operands)
    return (short, along) if are_whole and all(each.step(along.variable) in (0, 1) for each in nest.operands) else None


def interleaved(nest: FlatNest, axes: tuple[NestAxis, NestAxis], lanes: int, target: Target) -> Any:
    """The statements of a nest in which no condition changes but along the short axis."""
    short, along = axes
    while lanes > along.extent:
        lanes //= 2
    whole, rest = divmod(along.extent, lanes)
    number = tirx.Var(along.variable.name, "int64")
    place = index(0) if whole == 1 else number * index(lanes)
    body = _mixed(nest, short, along, place, lanes)
    made = [body if whole == 1 else tirx.For(number, index(0), index(whole), tirx.ForKind.SERIAL, body)]
    while rest:
        lanes //= 2
        if rest >= lanes:
            made.append(_mixed(nest, short, along, index(along.extent - rest), lanes))
            rest -= lanes
    outer = [each for each in nest.axes if each is not short and each is not along]
    return outer_loops(Outer(outer, nest.points), sequence(*made), target)


def _mixed(nest: FlatNest, short: NestAxis, along: NestAxis, start: Any, lanes: int) -> Any:
    """All results of so many neighbours along the longer axis."""
    [store] = [each for each in nest.accesses if each.is_store]
    cell = new_buffer(f"{store.buffer.name}_part", str(store.buffer.dtype), 1)
    rooms = [buffer_like(cell, [index(1), index(lanes)]) for _ in range(short.extent)]
    made = [tirx.AllocBuffer(each) for each in rooms]

    def kept(node: Any) -> Any:
        return tirx.BufferStore(cell, node.value, [index(0)]) if node.buffer.same_as(store.buffer) else node

    for at, room in enumerate(rooms):
        body = substituted(within(nest.body, short.variable, at, at + 1), short.variable, index(at))
        body = structural_map(body, (tirx.BufferStore, kept), order="post")
        part = strip(body, along.variable, start, Shape(1, lanes), {cell: room})
        if part is None:
            raise PartedLanesError("the elements of a vector part")
        made.append(part)
    width = lanes * short.extent
    row = new_buffer(f"{store.buffer.name}_row", str(store.buffer.dtype), width)
    vectors = [tirx.BufferLoad(each, [index(0), ramp(index(0), lanes)]) for each in rooms]
    order = [index(at * lanes + lane) for lane in range(lanes) for at in range(short.extent)]
    made += [tirx.AllocBuffer(row), tirx.BufferStore(row, tirx.Shuffle(vectors, order), [ramp(index(0), width)])]
    first = replaced(store.place, {short.variable: index(0), along.variable: start})
    made.append(
        in_lanes(width, lambda lane: tirx.BufferStore(store.buffer, tirx.BufferLoad(row, [lane]), [plus(first, lane)]))
    )
    return fresh(sequence(*made))
