"""Sums of fp32 accumulated in fp64 and rounded to fp32: blocks of terms are added in fp32 first.

Takes a reduction that adds fp32 terms, or halves, to one fp64 cell which nothing reads but a cast to fp32. Gives the
statements for one result, or None. The block sums are added in fp64; fp64 alone takes three times the instructions::

    for blocks:  t0..t3 = terms                    four vectors of fp32
                 for 15 steps: t0..t3 += terms
                 t = (t0 + t1) + (t2 + t3)
                 low, high += the halves of t      vectors of fp64

A term is rounded in fp32 at most 15 + 2 times, so that the error of a sum of any length is at most 17 · 2^-24 of the
sum of its terms' magnitudes, besides its own rounding. (NumPy adds 16 terms in a row and 8 of such sums as a tree, and
pairs of those: 18 roundings, and one more for each doubling beyond 128 terms.) A block may overflow where fp64 does
not: then the sum is infinite or NaN, which no sum of finite fp32 numbers in fp64 is, and it is computed again in fp64
(`is_special`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.schedule.cpu.common.nest import FlatNest, NestAxis
from mlirtri.lowering.schedule.cpu.common.strips import Shape, strip
from mlirtri.lowering.schedule.cpu.nests.accumulators import Accumulators, is_load
from mlirtri.lowering.tir.blocks import PartedLanesError
from mlirtri.lowering.tir.statements import fresh, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.toolchain.tvm_names import tirx

STEPS = 16
"""Terms that are added in a row in fp32."""
CHAINS = 4
"""Vectors of fp32 sums: as many additions as are in flight in a core."""
PARTIAL_SUMS = 2
"""Vectors of fp64 that hold the halves of one of fp32."""
NARROW = ("float32", "float16", "bfloat16")
_INFINITY = 0x7FF0000000000000
"""The bits of an infinite fp64."""


def fp32_term(nest: FlatNest, accumulators: Accumulators) -> Any:
    """Return the fp32 term of such a sum; None for any other reduction."""
    if len(accumulators.cells) != 1 or next(iter(accumulators.cells)) not in nest.narrowed:
        return None
    [cell], step = accumulators.cells.values(), accumulators.step
    if str(cell.dtype) != "float64" or not isinstance(step, tirx.BufferStore) or not isinstance(step.value, tirx.Add):
        return None
    term = step.value.b
    if not is_load(step.value.a, cell) or not isinstance(term, tirx.Cast) or str(term.value.ty.dtype) not in NARROW:
        return None
    return term.value if str(term.value.ty.dtype) == "float32" else tirx.Cast("float32", term.value)


def has_blocks(row: NestAxis, lanes: int) -> bool:
    """Whether a row is long enough for a block of two steps."""
    return row.extent >= 2 * CHAINS * 2 * lanes


def add_blocks(term: Any, row: NestAxis, partial: Sequence[Any], lanes: int) -> tuple[Any, int]:
    """Return statements that add terms of a row to two vectors of `lanes` fp64 numbers, and their number."""
    steps = row.extent // (CHAINS * 2 * lanes)
    whole, rest = divmod(steps, STEPS)
    of_step, made = CHAINS * 2 * lanes, []
    if whole:
        number = tirx.Var(row.variable.name, row.variable.ty)
        body = _block(term, row, number * index(STEPS * of_step), STEPS, partial, lanes)
        loop = tirx.For(number, index(0), index(whole), tirx.ForKind.SERIAL, body)
        made.append(loop if whole > 1 else substituted(body, number, index(0)))
    if rest:
        made.append(_block(term, row, index(whole * STEPS * of_step), rest, partial, lanes))
    return sequence(*made), steps * of_step


def _block(term: Any, row: NestAxis, start: Any, steps: int, partial: Sequence[Any], lanes: int) -> Any:
    wide = 2 * lanes
    chains = [new_buffer("terms", "float32", 1, wide) for _ in range(CHAINS)]
    one = new_buffer("term", "float32", 1)

    def step(number: Any, value: Any) -> list[Any]:
        store = tirx.BufferStore(one, value, [index(0)])
        first = plus(start, number)
        return [
            vector_of(store, row.variable, plus(first, index(at * wide)), wide, {one: room})
            for at, room in enumerate(chains)
        ]

    made = [*(tirx.AllocBuffer(each) for each in chains), *step(index(0), term)]
    if steps > 1:
        number = tirx.Var("step", "int64")
        added = step((number + index(1)) * index(CHAINS * wide), tirx.BufferLoad(one, [index(0)]) + term)
        made.append(tirx.For(number, index(0), index(steps - 1), tirx.ForKind.SERIAL, sequence(*added)))
    everything = tirx.Ramp(index(0), index(1), wide)
    sums = [tirx.BufferLoad(each, [index(0), everything]) for each in chains]
    while len(sums) > 1:
        sums = [first + second for first, second in zip(sums[::2], sums[1::2], strict=True)]
    tree = new_buffer("tree", "float32", wide)
    made += [tirx.AllocBuffer(tree), tirx.BufferStore(tree, sums[0], [everything])]
    made += [add_half(buffer, index(0), tree, at, lanes) for at, buffer in enumerate(partial)]
    return fresh(sequence(*made))


def vector_of(store: Any, variable: Any, start: Any, lanes: int, room: dict[Any, Any]) -> Any:
    """Return a vectorised store for `lanes` neighbours."""
    made = strip(store, variable, start, Shape(1, lanes), room)
    if made is None:
        raise PartedLanesError("the terms of a sum part")
    return made


def add_half(sums: Any, first: Any, terms: Any, half: int, lanes: int) -> Any:
    """Return the addition of half 0 or 1 of an fp32 vector to the fp64 elements of a buffer from `first` on."""
    value = tirx.BufferLoad(terms, [tirx.Ramp(index(half * lanes), index(1), lanes)])
    place = [index(0), tirx.Ramp(first, index(1), lanes)]
    return tirx.BufferStore(sums, tirx.BufferLoad(sums, place) + tirx.Cast(f"float64x{lanes}", value), place)


def rest_of(step: Any, row: NestAxis, done: int) -> tuple[Any, NestAxis]:
    """Return the step and the axis of the remaining terms."""
    rest = NestAxis(tirx.Var(row.variable.name, row.variable.ty), row.extent - done, True)
    return substituted(step, row.variable, rest.variable + index(done)), rest


def is_special(value: Any) -> Any:
    """Return whether an fp64 is infinite or NaN, by its bits: TVM inverts branches on comparisons."""
    bits = tirx.IntImm("int64", _INFINITY)
    return tirx.EQ(tirx.bitwise_and(tirx.reinterpret("int64", value), bits), bits)
