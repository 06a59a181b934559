"""Sums of fp32 accumulated in fp64 and rounded to fp32: blocks of terms are added in fp32 first.

Takes a reduction that adds fp32 terms, or halves, to one fp64 accumulator which nothing reads but a cast to fp32.
Gives the statements for one result, or None. Sums of blocks are added in fp64, which alone takes three times as long::

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
    if len(accumulators.buffers) != 1 or next(iter(accumulators.buffers)) not in nest.narrowed:
        return None
    [scalar], step = accumulators.buffers.values(), accumulators.step
    if str(scalar.dtype) != "float64" or not isinstance(step, tirx.BufferStore) or not isinstance(step.value, tirx.Add):
        return None
    term = step.value.b
    if not is_load(step.value.a, scalar) or not isinstance(term, tirx.Cast) or str(term.value.ty.dtype) not in NARROW:
        return None
    return term.value if str(term.value.ty.dtype) == "float32" else tirx.Cast("float32", term.value)


def has_blocks(row: NestAxis, lanes: int) -> bool:
    """Whether a row is long enough for a block of two steps."""
    return row.extent >= 2 * CHAINS * 2 * lanes


def add_blocks(term: Any, row: NestAxis, partial: Sequence[Any], lanes: int) -> tuple[Any, int]:
    """Return statements that add terms of a row to two vectors of `lanes` fp64 numbers, and their number."""
    steps = row.extent // (CHAINS * 2 * lanes)
    full, remaining = divmod(steps, STEPS)
    terms_per_step, statements = CHAINS * 2 * lanes, []
    if full:
        number = tirx.Var(row.variable.name, row.variable.ty)
        body = _block(term, row, number * index(STEPS * terms_per_step), STEPS, partial, lanes)
        loop = tirx.For(number, index(0), index(full), tirx.ForKind.SERIAL, body)
        statements.append(loop if full > 1 else substituted(body, number, index(0)))
    if remaining:
        statements.append(_block(term, row, index(full * STEPS * terms_per_step), remaining, partial, lanes))
    return sequence(*statements), steps * terms_per_step


def _block(term: Any, row: NestAxis, start: Any, steps: int, partial: Sequence[Any], lanes: int) -> Any:
    wide = 2 * lanes
    chains = [new_buffer("terms", "float32", 1, wide) for _ in range(CHAINS)]
    element = new_buffer("term", "float32", 1)

    def step(number: Any, value: Any) -> list[Any]:
        store = tirx.BufferStore(element, value, [index(0)])
        first = plus(start, number)
        return [
            vector_of(store, row.variable, plus(first, index(chain * wide)), wide, {element: buffer})
            for chain, buffer in enumerate(chains)
        ]

    statements = [*(tirx.AllocBuffer(buffer) for buffer in chains), *step(index(0), term)]
    if steps > 1:
        number = tirx.Var("step", "int64")
        added = step((number + index(1)) * index(CHAINS * wide), tirx.BufferLoad(element, [index(0)]) + term)
        statements.append(tirx.For(number, index(0), index(steps - 1), tirx.ForKind.SERIAL, sequence(*added)))
    everything = tirx.Ramp(index(0), index(1), wide)
    sums = [tirx.BufferLoad(buffer, [index(0), everything]) for buffer in chains]
    while len(sums) > 1:
        sums = [first + second for first, second in zip(sums[::2], sums[1::2], strict=True)]
    tree = new_buffer("tree", "float32", wide)
    statements += [tirx.AllocBuffer(tree), tirx.BufferStore(tree, sums[0], [everything])]
    statements += [add_half(buffer, index(0), tree, half, lanes) for half, buffer in enumerate(partial)]
    return fresh(sequence(*statements))


def vector_of(store: Any, variable: Any, start: Any, lanes: int, widened: dict[Any, Any]) -> Any:
    """Return a vectorised store for `lanes` neighbours."""
    vector = strip(store, variable, start, Shape(1, lanes), widened)
    if vector is None:
        raise PartedLanesError("the terms of a sum part")
    return vector


def add_half(sums: Any, first: Any, terms: Any, half: int, lanes: int) -> Any:
    """Return the addition of half 0 or 1 of an fp32 vector to the fp64 elements of a buffer from `first` on."""
    value = tirx.BufferLoad(terms, [tirx.Ramp(index(half * lanes), index(1), lanes)])
    indices = [index(0), tirx.Ramp(first, index(1), lanes)]
    return tirx.BufferStore(sums, tirx.BufferLoad(sums, indices) + tirx.Cast(f"float64x{lanes}", value), indices)


def rest_of(step: Any, row: NestAxis, first: int) -> tuple[Any, NestAxis]:
    """Return the step and the axis of the remaining terms."""
    remaining = NestAxis(tirx.Var(row.variable.name, row.variable.ty), row.extent - first, True)
    return substituted(step, row.variable, remaining.variable + index(first)), remaining


def is_special(value: Any) -> Any:
    """Return whether an fp64 is infinite or NaN, by its bits: TVM inverts branches on comparisons."""
    bits = tirx.IntImm("int64", _INFINITY)
    return tirx.EQ(tirx.bitwise_and(tirx.reinterpret("int64", value), bits), bits)
