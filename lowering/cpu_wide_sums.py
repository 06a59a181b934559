"""Long sums of fp32 that are carried in fp64 and end in fp32 again: some terms are added in fp32 before.

Takes a reduction that adds fp32 terms, or halves, to one fp64 cell which nothing reads but a cast to fp32. Gives the
statements for one result, or None. Sums of `TERMS` terms as a tree have one rounding of fp32 for each of its levels,
which is what the result's own rounding is like; the rest is fp64 as before, at a third of the instructions::

    for groups:  t = (x0 + x1) + (x2 + x3)      vectors of fp32
                 low, high += the halves of t   vectors of fp64
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.cpu_accumulators import Accumulators, is_load
from mlirtri.lowering.cpu_facts import cache_bytes
from mlirtri.lowering.cpu_nests import Nest, NestAxis
from mlirtri.lowering.loop_strips import Shape, strip
from mlirtri.lowering.tir_statements import fresh, index, new_buffer, sequence, substituted
from mlirtri.lowering.tvm_names import tirx

TERMS = 4
GROUPS = 2
"""Trees under way at once."""
_NARROW = ("float32", "float16", "bfloat16")


def fp32_term(nest: Nest, accumulators: Accumulators) -> Any:
    """What such a sum adds, in fp32; None for any other reduction."""
    if len(accumulators.cells) != 1 or next(iter(accumulators.cells)) not in nest.narrowed:
        return None
    # From memory lines have to come in their order, in which LLVM does not leave the loads of a tree.
    if 4 * nest.points > cache_bytes()[3]:
        return None
    [cell], step = accumulators.cells.values(), accumulators.step
    if str(cell.dtype) != "float64" or not isinstance(step, tirx.BufferStore) or not isinstance(step.value, tirx.Add):
        return None
    term = step.value.b
    if not is_load(step.value.a, cell) or not isinstance(term, tirx.Cast) or str(term.value.ty.dtype) not in _NARROW:
        return None
    return term.value if str(term.value.ty.dtype) == "float32" else tirx.Cast("float32", term.value)


def add_groups(term: Any, row: NestAxis, rooms: Sequence[dict[Any, Any]], lanes: int) -> tuple[Any, int] | None:
    """Statements that add whole groups of the row's terms to vectors of fp64, and how many terms these are."""
    wide = 2 * lanes
    of_group = TERMS * wide
    count = row.extent // (of_group * GROUPS)
    if not count or len(rooms) < 2 * GROUPS:
        return None
    number = tirx.Var(row.variable.name, row.variable.ty)
    body: list[Any] = []
    for group in range(GROUPS):
        start = number * index(of_group * GROUPS) + index(group * of_group)
        body += _group(
            term, row, [next(iter(each.values())) for each in rooms[2 * group : 2 * group + 2]], start, lanes
        )
    loop = tirx.For(number, index(0), index(count), tirx.ForKind.SERIAL, fresh(sequence(*body)))
    return loop, count * of_group * GROUPS


def _group(term: Any, row: NestAxis, partial: Sequence[Any], start: Any, lanes: int) -> list[Any]:
    wide, made, sums = 2 * lanes, [], []
    everything = tirx.Ramp(index(0), index(1), wide)
    for at in range(TERMS):
        one, room = new_buffer("term", "float32", 1), new_buffer("terms", "float32", 1, wide)
        store = tirx.BufferStore(one, term, [index(0)])
        vector = strip(store, row.variable, start + index(at * wide), Shape(1, wide), {one: room})
        if vector is None:
            raise ValueError("the row's terms part")
        made += [tirx.AllocBuffer(room), vector]
        sums.append(tirx.BufferLoad(room, [index(0), everything]))
    while len(sums) > 1:
        sums = [first + second for first, second in zip(sums[::2], sums[1::2], strict=True)]
    tree = new_buffer("tree", "float32", wide)
    made += [tirx.AllocBuffer(tree), tirx.BufferStore(tree, sums[0], [everything])]
    for at, buffer in enumerate(partial):
        half = tirx.BufferLoad(tree, [tirx.Ramp(index(at * lanes), index(1), lanes)])
        place = [index(0), tirx.Ramp(index(0), index(1), lanes)]
        made.append(
            tirx.BufferStore(buffer, tirx.BufferLoad(buffer, place) + tirx.Cast(f"float64x{lanes}", half), place)
        )
    return made


def rest_of(step: Any, row: NestAxis, done: int) -> tuple[Any, NestAxis]:
    """The step and the axis of the terms that are left."""
    rest = NestAxis(tirx.Var(row.variable.name, row.variable.ty), row.extent - done, True)
    return substituted(step, row.variable, rest.variable + index(done)), rest
