"""Loop-carried scalars that each iteration only combines with other values: sums, products, extrema, and, or, xor.

Follows the value from the loop's block argument to what the loop yields for it, through branches and inner loops::

    scf.for … iter_args(%s = %start) { %t = arith.addf %s, %x; %u = scf.if %c { yield %t } else { yield %s }; yield %u }
"""

from __future__ import annotations

from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import arith, ir
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.reading import is_block_argument

_NEUTRAL = {"arith.addf": -0.0, "arith.mulf": 1.0, "arith.addi": 0, "arith.muli": 1, "arith.xori": 0}
_IDEMPOTENT = frozenset(
    f"arith.{name}" for name in "maximumf minimumf maxnumf minnumf maxsi minsi maxui minui andi ori".split()
)
_AS_SUM = {"arith.subf": "arith.addf", "arith.subi": "arith.addi"}
ROUNDED = frozenset({"arith.addf", "arith.mulf"})
"""Combinations whose order changes how the result is rounded."""


@dataclass(frozen=True)
class Combination:
    """How partial results combine: an operation by name, or a comparison and a selection of one of both."""

    name: str
    predicate: int = -1
    """Of the comparison ``new <predicate> accumulator``, which selects the new value."""

    def start(self, initial: ir.Value) -> ir.Value:
        """Return what a partial result starts with, where the whole starts with `initial`."""
        if self.name not in _NEUTRAL:
            return initial
        kind, number = initial.type, _NEUTRAL[self.name]
        is_float = isinstance(number, float)
        value = ir.FloatAttr.get(kind, number) if is_float else ir.IntegerAttr.get(kind, number)
        return arith.constant(kind, value)

    def combine(self, accumulator: ir.Value, new: ir.Value) -> ir.Value:
        """Return the combination of what comes first, in the order of the loop, with what comes next."""
        kind = accumulator.type
        if self.predicate < 0:
            return ir.Operation.create(self.name, [kind], [accumulator, new]).result
        predicate = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), self.predicate)}
        bit = ir.IntegerType.get_signless(1)
        is_better = ir.Operation.create(self.name, [bit], [new, accumulator], predicate).result
        return arith.select(is_better, new, accumulator)


def combination_of(step: ir.Operation, accumulator: ir.Value) -> Combination | None:
    """Return how an operation combines the accumulator with its other operand; None where it does anything else."""
    operands = list(step.operands)
    name = _AS_SUM.get(step.name, step.name)
    if name not in _NEUTRAL and name not in _IDEMPOTENT:
        return None
    if operands.count(accumulator) != 1 or (step.name in _AS_SUM and operands[0] != accumulator):
        return None
    return Combination(name)


def reduction_of(loop: ir.Operation, slot: int) -> Combination | None:
    """Return the combination that an `scf.for` reduces its loop-carried value `slot` by; None for other values."""
    return _Chain(loop, slot).combination()


class _Chain:
    """The values that hold the accumulator within one iteration."""

    def __init__(self, loop: ir.Operation, slot: int):
        self.loop, self.slot = loop, slot
        self.values = [loop.regions[0].blocks[0].arguments[slot + 1]]
        self.steps: list[ir.Operation] = []
        self.kinds: set[Combination] = set()

    def combination(self) -> Combination | None:
        kind = self.values[0].type
        if not isinstance(kind, (ir.IntegerType, ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type)):
            return None
        position = 0
        while position < len(self.values):
            value = self.values[position]
            if not all(self._follow(use.owner.operation, use.operand_number, value) for use in value.uses):
                return None
            position += 1
        return next(iter(self.kinds)) if len(self.kinds) == 1 and self._is_closed() else None

    def _follow(self, user: ir.Operation, number: int, value: ir.Value) -> bool:
        """Add what continues the chain at one use; return whether the use is a part of a reduction."""
        if user.name == "scf.yield":
            around = user.parent.operation
            if around == self.loop:
                return number == self.slot
            return around.name in ("scf.if", "scf.for") and self._add(around.results[number])
        if user.name == "scf.for":
            return number >= 3 and self._add(user.regions[0].blocks[0].arguments[number - 2])
        if (selected := _extremum(user, value)) is not None:
            return self._note(*selected)
        combination = combination_of(user, value)
        return combination is not None and self._note(combination, user)

    def _note(self, combination: Combination, step: ir.Operation) -> bool:
        self.kinds.add(combination)
        self.steps.append(step)
        return self._add(step.results[0])

    def _add(self, value: ir.Value) -> bool:
        if value not in self.values:
            self.values.append(value)
        return True

    def _is_closed(self) -> bool:
        """Return whether no accumulator is combined with another, and nothing else replaces it."""
        for step in self.steps:
            if sum(operand in self.values for operand in step.operands) != 1:
                return False
        for value in self.values:
            if not all(source in self.values for source in _sources(value, self.loop)):
                return False
        return terminator(self.loop.regions[0].blocks[0]).operands[self.slot] in self.values


def _sources(value: ir.Value, loop: ir.Operation) -> list[ir.Value]:
    """Return the values that branches or inner loops pass on as `value`."""
    if is_block_argument(value):
        around = value.owner.owner.operation
        if around == loop:
            return []
        end = terminator(around.regions[0].blocks[0])
        return [around.operands[value.arg_number + 2], end.operands[value.arg_number - 1]]
    operation, number = value.owner.operation, value.result_number
    if operation.name == "scf.for":
        return [operation.operands[number + 3], terminator(operation.regions[0].blocks[0]).operands[number]]
    if operation.name == "scf.if":
        return [terminator(region.blocks[0]).operands[number] for region in operation.regions if region.blocks]
    return []


_SWAPPED = {
    "arith.cmpi": {2: 4, 3: 5, 4: 2, 5: 3, 6: 8, 7: 9, 8: 6, 9: 7},
    "arith.cmpf": {2: 4, 3: 5, 4: 2, 5: 3},
}
"""By comparison its ordered predicates, and the same with both operands exchanged."""


def _extremum(user: ir.Operation, accumulator: ir.Value) -> tuple[Combination, ir.Operation] | None:
    """Return the combination of ``select(new > accumulator, new, accumulator)``, and its selection.

    A NaN is never selected: with the other order of comparison the last NaN counts, which no partial result knows.
    """
    comparison = user if user.name in _SWAPPED else None
    if user.name == "arith.select" and not is_block_argument(user.operands[0]):
        comparison = user.operands[0].owner.operation
    if comparison is None or comparison.name not in _SWAPPED:
        return None
    uses = list(comparison.results[0].uses)
    selection = uses[0].owner.operation if len(uses) == 1 else None
    if selection is None or selection.name != "arith.select" or selection.operands[2] != accumulator:
        return None
    new, sides = selection.operands[1], list(comparison.operands)
    predicate = ir.IntegerAttr(comparison.attributes["predicate"]).value
    swapped = _SWAPPED[comparison.name]
    if predicate not in swapped or sides not in ([new, accumulator], [accumulator, new]) or new == accumulator:
        return None
    return Combination(comparison.name, predicate if sides[0] == new else swapped[predicate]), selection
