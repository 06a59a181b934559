"""Row kernels whose sums are fp64 and rounded to fp32: blocks of terms are added in fp32 first.

A pass whose reductions are all such sums (`blocked_sums`) runs in blocks, with the error bound of `nests.wide_sums`::

    for blocks:  terms[0:64] = 0                                  in fp32
                 for 16 strips: terms[0:64] += the fp32 values that the fp64 sums widen
                 partial[0:16] += the four vectors' sums
    if a sum is infinite or NaN:  the pass again, in fp64        a block may overflow where fp64 does not
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from mlirtri.lowering.schedule.cpu.nests.wide_sums import NARROW, STEPS, is_special
from mlirtri.lowering.schedule.cpu.rows.row_loops import RowWriter
from mlirtri.lowering.schedule.rows.nests import BlockNest
from mlirtri.lowering.schedule.rows.plan import RowPlan, Step
from mlirtri.lowering.tir.statements import index, plus
from mlirtri.lowering.tir.vectors import in_order, lanewise, stored
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, TensorLoad, structural_walk, tirx

MIN_TERMS_PER_LANE = 2
"""Terms per lane from which a block is profitable."""


def blocked_sums(plan: RowPlan, step: Step, parameters: Sequence[Buffer]) -> dict[int, Expr]:
    """Return the fp32 terms of a step's reductions; empty where one is no sum that is only read as fp32."""
    reductions = [n for n in step.nests if plan.nests[n].is_reduction]
    terms = {n: _fp32_term(plan, n) for n in reductions if not any(map(plan.nests[n].target.same_as, parameters))}
    are_narrowed = (term is not None and is_narrowed(plan.nests, plan.nests[n].target) for n, term in terms.items())
    return terms if len(terms) == len(reductions) and all(are_narrowed) else {}


def _fp32_term(plan: RowPlan, n: int) -> Any:
    value = plan.nests[n].store.value
    is_sum = isinstance(value, tirx.Add) and str(value.ty.dtype) == "float64"
    return _before_widening(plan.reducers[n].term) if is_sum else None


def _before_widening(term: Expr) -> Any:
    if isinstance(term, tirx.Let):  # The bits of bf16.
        inner = _before_widening(term.body)
        return None if inner is None else tirx.Let(term.var, term.value, inner)
    if not isinstance(term, tirx.Cast) or str(term.value.ty.dtype) not in NARROW:
        return None
    return term.value if str(term.value.ty.dtype) == "float32" else tirx.Cast("float32", term.value)


def is_narrowed(nests: Sequence[BlockNest], buffer: Buffer) -> bool:
    """Return whether every load of a buffer is immediately cast to fp32 or less."""
    casts: list[Any] = []
    for nest in nests:
        for statement in (*nest.before, nest.store):
            structural_walk(statement, (tirx.Cast, casts.append), order="post")
    narrowing = [
        cast
        for cast in casts
        if isinstance(cast.value, TensorLoad) and cast.value.source.same_as(buffer) and str(cast.ty.dtype) in NARROW
    ]
    return len(narrowing) == sum(load.source.same_as(buffer) for nest in nests for load in nest.loads)


class BlockWriter(RowWriter):
    """Writes the statements of one row, with blocked sums in the passes that take them."""

    def __init__(self, plan: RowPlan, row: Sequence[Expr], parameters: Sequence[Buffer], ahead: Sequence[Any] = ()):
        super().__init__(plan, row, parameters, ahead)
        self.blocked: dict[int, Any] = {}
        """The terms of the current pass's sums."""
        self.terms: dict[int, Any] = {}
        """Buffers of their sums in a block."""
        self.elements: dict[int, Any] = {}
        """Buffers of its elements."""
        self.is_rerun = False
        """Whether this is the second version of the pass, for rows with a block that overflowed."""

    def _pass(self, step: Step) -> list[Any]:
        self.blocked = self._blocked(step)
        if not self.blocked:
            return super()._pass(step)
        sums, written = list(self.blocked), super()._pass(step)
        special = reduce(tirx.Or, [is_special(tirx.BufferLoad(self.storage[n].buffer, [index(0)])) for n in sums])
        self.blocked, self.is_rerun = {}, True
        rerun = super()._pass(step)
        self.is_rerun = False
        return [*written, tirx.IfThenElse(special, in_order(rerun), None)]

    def _blocked(self, step: Step) -> dict[int, Any]:
        chains = super()._vectors(step, True)
        is_long = step.extents[-1] >= MIN_TERMS_PER_LANE * chains * self._lanes(step)
        return blocked_sums(self.plan, step, self.parameters) if is_long else {}

    # A pass that is computed again uses the buffers of the first version.

    def _value_of(self, n: int) -> Any:
        return self.storage[n].buffer if self.is_rerun else super()._value_of(n)

    def _allocate_elements(self, step: Step, lanes: int) -> None:
        if not self.is_rerun:
            super()._allocate_elements(step, lanes)
            self.elements = dict(self.registers)
        self.registers |= self.elements

    def _vectors(self, step: Step, reduces: bool) -> int:
        return 1 if self.blocked or self.is_rerun else super()._vectors(step, reduces)

    def _strips(self, step: Step, outer: tuple, vectors: int, lanes: int) -> Any:
        if not self.blocked:
            return super()._strips(step, outer, vectors, lanes)
        chains, length = super()._vectors(step, True), step.extents[-1]
        strips = length // (chains * lanes)
        covered, statements = strips * chains * lanes, [self._blocks(step, outer, strips, chains, lanes)]
        single = (length - covered) // lanes
        if single:
            statements.append(self._strip_loop(step, outer, covered, single, 1, lanes))
            covered += single * lanes
        if covered < length:
            statements.append(self._vector(step, outer, index(covered), index(0), length - covered))
        return in_order(statements)

    def _blocks(self, step: Step, outer: tuple, strips: int, chains: int, lanes: int) -> Any:
        """Return all whole strips, in blocks of `STEPS`; the last block may have fewer."""
        block, strip, vector = (tirx.Var(name, "int64") for name in ("block", "strip", "vector"))
        wide = chains * lanes
        self.terms = {
            n: self._allocate(f"{self.plan.nests[n].target.name}_terms", [wide], "float32") for n in self.blocked
        }
        start = (block * index(STEPS) + strip) * index(wide)
        body = self._vector(step, outer, plus(start, vector * index(lanes)), vector * index(lanes), lanes)
        body = tirx.For(vector, index(0), index(chains), tirx.ForKind.UNROLLED, body)
        remaining = index(strips) - block * index(STEPS)
        remaining = index(STEPS) if strips % STEPS == 0 else tirx.Min(index(STEPS), remaining)
        loop = tirx.For(strip, index(0), remaining, tirx.ForKind.SERIAL, body)
        zero = tirx.const(0, "float32")
        starts = [
            lanewise(terms, first * lanes, lanes, lambda _: zero)
            for terms in self.terms.values()
            for first in range(chains)
        ]
        ends = [self._block_added(n, chains, lanes) for n in self.terms]
        self.terms = {}
        return tirx.For(
            block, index(0), index(-(-strips // STEPS)), tirx.ForKind.SERIAL, in_order([*starts, loop, *ends])
        )

    def _block_added(self, n: int, chains: int, lanes: int) -> Any:
        """Return the pairwise sum of a block's vectors, added to the fp64 sums."""
        terms, partial = self.terms[n], self.partial[n]

        def value(lane: Any) -> Any:
            sums = [tirx.BufferLoad(terms, [plus(lane, index(chain * lanes))]) for chain in range(chains)]
            while len(sums) > 1:
                sums = [first + second for first, second in zip(sums[::2], sums[1::2], strict=True)]
            return tirx.BufferLoad(partial, [lane]) + tirx.Cast("float64", sums[0])

        return lanewise(partial, 0, lanes, value)

    def _element(self, n: int, vector: Any) -> list[Any]:
        if n not in self.terms:
            return super()._element(n, vector)
        indices = [plus(vector.part, vector.lane)]
        term = self.expression(self.blocked[n], self._point(n, vector.outer, plus(vector.start, vector.lane)))
        return [stored(self.terms[n], indices, tirx.BufferLoad(self.terms[n], indices) + term)]
