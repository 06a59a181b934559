"""A program that computes and checks sizes on the host: result shapes from the arguments' sizes.

A size may also be an element of an argument. A program is plain data, which `lowering/sizes` infers from a module and a
manifest stores as JSON.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mlirtri.errors import Span

Number: TypeAlias = Any
"""The value of a step: an int or a float, or None for an element of an argument without data."""

SIZE, ELEMENT, CONSTANT = "size", "element", "constant"
"""Leaf steps: the size of an argument's axis, an element of an argument, a constant."""
SIGNATURE = "the signature"
"""The start of a condition's reason where the signature requires it, before any operation does."""
_LONGEST = 60
"""Characters of a size in words that a message shows."""


@dataclass(frozen=True)
class SizeStep:
    """One SSA value: an MLIR operation on earlier steps, or a leaf."""

    name: str
    kind: str = "index"
    """Its type: ``index``, ``i1`` to ``i64``, ``f32``, ``f64``."""
    operands: tuple[int, ...] = ()
    literals: tuple[Any, ...] = ()
    """`SIZE`: argument and axis; `ELEMENT`: argument and indices; `CONSTANT`: the number; else the predicate."""


def add_step(steps: list[SizeStep], step: SizeStep) -> int:
    """Return the index of a step, which is appended where it is missing."""
    if step not in steps:
        steps.append(step)
    return steps.index(step)


@dataclass(frozen=True)
class Condition:
    """A relation between two steps; calls that violate it are refused."""

    left: int
    relation: str
    """``==`` or ``<=``."""
    right: int
    why: str
    """The operation that requires it, with its line."""
    span: Span | None = None
    error: str | None = None
    """The error's class and whole message, if the program itself raises it."""


@dataclass(frozen=True)
class SizeProgram:
    """Sizes of results as arithmetic on sizes of arguments: steps in SSA order, and conditions on them."""

    steps: tuple[SizeStep, ...]
    sizes: tuple[tuple[int, int, int], ...]
    """For each dynamic axis: result, axis, and the step that is its size."""
    conditions: tuple[Condition, ...] = ()

    @property
    def elements(self) -> tuple[SizeStep, ...]:
        return tuple(step for step in self.steps if step.name == ELEMENT)

    def run(self, shapes: Sequence[Sequence[int]], element: Callable[[int, tuple[int, ...]], Number]) -> list[Number]:
        """Return the value of every step for arguments of these shapes; `element` reads an element of an argument."""
        values: list[Any] = []
        for step in self.steps:
            if step.name == SIZE:
                argument, axis = step.literals
                values.append(int(shapes[argument][axis]))
            elif step.name == ELEMENT:
                values.append(element(step.literals[0], tuple(step.literals[1:])))
            elif step.name == CONSTANT:
                values.append(step.literals[0])
            else:
                operands = [values[operand] for operand in step.operands]
                widths = [_bits(self.steps[operand].kind) for operand in step.operands]
                values.append(computed(step, widths, operands))
        return values

    def shown(self, index: int, names: Sequence[str]) -> str:
        """Return a step in words: ``axis 0 of 'x'``, with its arithmetic if that is short."""
        step = self.steps[index]
        if step.name == SIZE:
            return f"axis {step.literals[1]} of {names[step.literals[0]]!r}"
        if step.name == ELEMENT:
            return f"{names[step.literals[0]]!r}{list(step.literals[1:]) or ''}"
        if step.name == CONSTANT:
            return str(step.literals[0])
        if step.name in _SIGNS:
            left, right = (self.shown(operand, names) for operand in step.operands)
            return f"({left} {_SIGNS[step.name]} {right})"
        if step.name in _CASTS:
            return self.shown(step.operands[0], names)
        return f"{step.name.partition('.')[2]}({', '.join(self.shown(operand, names) for operand in step.operands)})"

    def violated(self, values: Sequence[Number]) -> Iterator[Condition]:
        """Yield the conditions that the values of the steps do not meet."""
        for condition in self.conditions:
            left, right = values[condition.left], values[condition.right]
            if not (left == right if condition.relation == "==" else left <= right):
                yield condition

    def misfit(self, condition: Condition, values: Sequence[Number], names: Sequence[str]) -> str:
        """Return what a violated condition says of the sizes: ``axis 0 of 'x' is 3 and …, which have to be equal``."""
        facts = [f"{self.shown(step, names)} is {values[step]}" for step in self._inputs_of(condition)]
        sides = {self.steps[step].name for step in (condition.left, condition.right)}
        verb = "do not fit together" if len(facts) > 1 else "does not fit"
        if sides == {SIZE} and condition.relation == "==":
            verb = "have to be equal"
        shown = " and ".join(facts) or "its sizes"
        why = "a slice" if condition.why == "tensor.extract_slice" else condition.why
        if condition.relation == "<=":
            # The memory behind a pointer, or a slice, is too small.
            left, right = (self.shown(step, names) for step in (condition.left, condition.right))
            short = max(len(left), len(right)) < _LONGEST
            least = values[condition.left]
            is_known = self.steps[condition.left].name == CONSTANT
            larger = f"{right} is {least} at least" if is_known else f"{left} is {least}, which is more than {right}"
            reason = f": {larger}" if short else ""
            return f"{shown}, which {verb} in {why}{reason}"
        return f"{shown}, which {verb} in {why}"

    def _inputs_of(self, condition: Condition) -> list[int]:
        inputs: dict[int, None] = {}
        pending = [condition.right, condition.left]
        while pending:
            number = pending.pop()
            step = self.steps[number]
            if step.name in (SIZE, ELEMENT):
                inputs.setdefault(number)
            pending += reversed(step.operands)
        return list(inputs)


_CASTS = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui")
_SIGNS = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*", "arith.floordivsi": "//", "arith.divsi": "//"}


def computed(step: SizeStep, widths: Sequence[int], operands: Sequence[Number]) -> Number:
    """Return what a step computes from operands of so many bits; floats are rounded to its type."""
    return _rounded(OPERATIONS[step.name](step, widths, *operands), step.kind)


def _bits(kind: str) -> int:
    return 64 if kind == "index" else int(kind[1:])


def _rounded(value: Any, kind: str) -> Any:
    if kind == "f32":
        return ctypes.c_float(value).value
    if kind == "f64":
        return float(value)
    bits = _bits(kind)
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def _unsigned(function: Callable[[int, int], int]) -> Callable[..., int]:
    def compute(_step: SizeStep, widths: list[int], x: int, y: int) -> int:
        return function(x & ((1 << widths[0]) - 1), y & ((1 << widths[1]) - 1))

    return compute


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _step, _widths, *operands: function(*operands)


def _truncated(x: int, y: int) -> int:
    return -(-x // y) if y and (x < 0) != (y < 0) else x // y if y else 0


def _compare_integers(step: SizeStep, widths: list[int], x: int, y: int) -> bool:
    """Return the result of MLIR's integer predicate; those from 6 on are unsigned."""
    predicate = step.literals[0]
    if predicate >= 6:
        x, y, predicate = x & ((1 << widths[0]) - 1), y & ((1 << widths[1]) - 1), predicate - 4
    return (x == y, x != y, x < y, x <= y, x > y, x >= y)[predicate]


def _compare_floats(step: SizeStep, _widths: list[int], x: float, y: float) -> bool:
    """Return the result of MLIR's predicate: false, the six ordered, ord, the six unordered, uno, true."""
    predicate, unordered = step.literals[0], math.isnan(x) or math.isnan(y)
    if predicate in (0, 15):
        return predicate == 15
    if predicate in (7, 14):
        return unordered == (predicate == 14)
    if unordered:
        return predicate > 7
    return (x == y, x > y, x >= y, x < y, x <= y, x != y)[(predicate - 1) % 7]


def _quotient(x: float, y: float) -> float:
    if y:
        return x / y
    return math.nan if not x or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1, y)


def _whole(function: Callable[[float], int]) -> Callable[..., float]:
    return _plain(lambda x: float(function(x)) if math.isfinite(x) else x)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "arith.addi": _plain(lambda x, y: x + y),
    "arith.subi": _plain(lambda x, y: x - y),
    "arith.muli": _plain(lambda x, y: x * y),
    "arith.andi": _plain(lambda x, y: x & y),
    "arith.ori": _plain(lambda x, y: x | y),
    "arith.xori": _plain(lambda x, y: x ^ y),
    "arith.divsi": _plain(_truncated),
    "arith.floordivsi": _plain(lambda x, y: x // y if y else 0),
    "arith.ceildivsi": _plain(lambda x, y: -(-x // y) if y else 0),
    "arith.remsi": _plain(lambda x, y: x - _truncated(x, y) * y if y else 0),
    "arith.divui": _unsigned(lambda x, y: x // y if y else 0),
    "arith.ceildivui": _unsigned(lambda x, y: -(-x // y) if y else 0),
    "arith.remui": _unsigned(lambda x, y: x % y if y else 0),
    "arith.maxsi": _plain(max),
    "arith.minsi": _plain(min),
    "arith.maxui": _unsigned(max),
    "arith.minui": _unsigned(min),
    "arith.cmpi": _compare_integers,
    "arith.select": _plain(lambda condition, x, y: x if condition else y),
    "arith.extsi": lambda _step, widths, x: -x if widths[0] == 1 else x,
    "arith.extui": lambda _step, widths, x: x & ((1 << widths[0]) - 1),
    "arith.trunci": _plain(lambda x: x),
    "arith.index_cast": lambda _step, widths, x: -x if widths[0] == 1 else x,
    "arith.index_castui": lambda _step, widths, x: x & ((1 << widths[0]) - 1),
    "arith.sitofp": lambda _step, widths, x: float(-x if widths[0] == 1 else x),
    "arith.uitofp": lambda _step, widths, x: float(x & ((1 << widths[0]) - 1)),
    "arith.fptosi": _plain(lambda x: int(x) if math.isfinite(x) else 0),
    "arith.extf": _plain(float),
    "arith.truncf": _plain(float),
    "arith.addf": _plain(lambda x, y: x + y),
    "arith.subf": _plain(lambda x, y: x - y),
    "arith.mulf": _plain(lambda x, y: x * y),
    "arith.divf": _plain(_quotient),
    "arith.negf": _plain(lambda x: -x),
    "arith.cmpf": _compare_floats,
    "math.absi": _plain(abs),
    "math.absf": _plain(abs),
    "math.ceil": _whole(math.ceil),
    "math.floor": _whole(math.floor),
    "math.trunc": _whole(math.trunc),
}
"""MLIR operations on numbers. i1 is 0 or 1; other integers are signed."""
