"""Sizes that a signature names: which axis gives each name its value, and which sizes have to agree with it.

    x: [K, 4], y: [2*K + 1]   ──►   K is axis 0 of x; axis 0 of y has to be 2*K + 1

The named size of an axis is a `Size` of symbols without bounds in the types of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlirtri.dialect.base.sizes import Size, Symbol
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.core.size_program import CONSTANT, SIGNATURE, SIZE, Condition, SizeProgram, SizeStep, add_step


@dataclass(frozen=True)
class Definition:
    """A symbol by the size of an axis, which is ``factor * symbol + rest``; `rest` has earlier symbols."""

    symbol: Symbol
    argument: int
    axis: int
    factor: int
    rest: Size


@dataclass(frozen=True)
class NamedSizes:
    """The named sizes of a signature."""

    definitions: tuple[Definition, ...]
    """One for each symbol, in an order in which each uses earlier ones only."""
    others: tuple[tuple[int, int, Size], ...]
    """The argument and axis of each further size, which has to have this value."""


def named_sizes(shapes: Sequence[Sequence[int | Size]], names: Sequence[str]) -> NamedSizes:
    """Return the named sizes of parameters of these shapes; raises `KernelTypeError` for one that no axis gives."""
    axes = [
        (argument, axis, size)
        for argument, shape in enumerate(shapes)
        for axis, size in enumerate(shape)
        if isinstance(size, Size)
    ]
    # Axes that are the symbol itself come first.
    pending = sorted(axes, key=lambda entry: entry[2] != Size(((entry[2].terms[0][0], 1),)))
    known: dict[Symbol, Definition] = {}
    others: list[tuple[int, int, Size]] = []
    while pending:
        entry = next((entry for entry in pending if len(_unknown(entry[2], known)) <= 1), None)
        if entry is None:
            argument, axis, size = pending[0]
            raise KernelTypeError(
                f"axis {axis} of {names[argument]!r} has the size {size}, which does not say what "
                f"{' and '.join(sorted(symbol.name for symbol, _ in _unknown(size, known)))} are",
                help="annotate another axis with each of these names alone",
            )
        pending.remove(entry)
        argument, axis, size = entry
        if not (unknown := _unknown(size, known)):
            others.append(entry)
            continue
        [(symbol, factor)] = unknown
        known[symbol] = Definition(symbol, argument, axis, factor, size - Size(((symbol, factor),)))
    return NamedSizes(tuple(known.values()), tuple(others))


def _unknown(size: Size, known: dict[Symbol, Definition]) -> list[tuple[Symbol, int]]:
    return [(symbol, factor) for symbol, factor in size.terms if symbol not in known]


def signature_program(sizes: NamedSizes) -> SizeProgram:
    """Return the conditions on the sizes of the arguments, as a program without results."""
    writer = _Writer()
    for definition in sizes.definitions:
        writer.define(definition)
    for argument, axis, size in sizes.others:
        is_one_name = size.constant == 0 and [factor for _, factor in size.terms] == [1]
        name = f"size {str(size)!r}" if is_one_name else f"size {size}"
        actual = writer.add(SizeStep(SIZE, "index", (), (argument, axis)))
        writer.conditions.append(Condition(actual, "==", writer.linear(size), f"{SIGNATURE} ({name})"))
    return SizeProgram(tuple(writer.steps), (), tuple(writer.conditions))


class _Writer:
    """A size program that is being built: steps, of which equal ones are the same, and conditions."""

    def __init__(self, program: SizeProgram | None = None):
        self.steps = list(program.steps) if program else []
        self.conditions = list(program.conditions) if program else []
        self.symbols: dict[Symbol, int] = {}

    def add(self, step: SizeStep) -> int:
        return add_step(self.steps, step)

    def constant(self, number: int) -> int:
        return self.add(SizeStep(CONSTANT, "index", (), (number,)))

    def operation(self, name: str, left: int, right: int) -> int:
        return self.add(SizeStep(f"arith.{name}", "index", (left, right)))

    def linear(self, size: Size) -> int:
        total: int | None = None
        for symbol, factor in size.terms:
            term = self.symbols[symbol]
            if factor != 1:
                term = self.operation("muli", self.constant(factor), term)
            total = term if total is None else self.operation("addi", total, term)
        if total is None:
            return self.constant(size.constant)
        return self.operation("addi", total, self.constant(size.constant)) if size.constant else total

    def define(self, definition: Definition) -> None:
        actual = self.add(SizeStep(SIZE, "index", (), (definition.argument, definition.axis)))
        value, factor, rest = actual, definition.factor, definition.rest
        if not rest.is_constant or rest.constant:
            value = self.operation("subi", value, self.linear(rest))
        if factor != 1:
            value = self.operation("floordivsi", value, self.constant(factor))
        self.symbols[definition.symbol] = value
        if value == actual:
            return
        size = Size(((definition.symbol, factor),)) + rest
        why = f"a multiple of {factor}" if rest == Size.of(0) else f"size {size}"
        self.conditions.append(Condition(self.constant(0), "<=", value, f"{SIGNATURE} ({why})"))
        if factor not in (1, -1):
            self.conditions.append(Condition(self.linear(size), "==", actual, f"{SIGNATURE} ({why})"))


def merged(first: SizeProgram, second: SizeProgram) -> SizeProgram:
    """Return the sizes of both programs and their conditions, those of `first` first, each once."""
    writer = _Writer(first)
    positions: list[int] = []
    for step in second.steps:
        positions.append(writer.add(replace(step, operands=tuple(positions[operand] for operand in step.operands))))
    seen = {(frozenset((c.left, c.right)), c.relation) for c in first.conditions if c.relation == "=="}
    for condition in second.conditions:
        moved = replace(condition, left=positions[condition.left], right=positions[condition.right])
        if (frozenset((moved.left, moved.right)), moved.relation) not in seen:
            writer.conditions.append(moved)
    sizes = (*first.sizes, *((result, axis, positions[step]) for result, axis, step in second.sizes))
    return SizeProgram(tuple(writer.steps), sizes, tuple(writer.conditions))
