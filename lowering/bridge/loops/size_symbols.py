"""Sizes known at run time as TVM's symbols: one for all argument sizes that have to be equal.

A result size beyond sums and multiples of argument sizes is a variable of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.core.size_program import CONSTANT, SIZE, SizeProgram
from mlirtri.lowering.tir.statements import index
from mlirtri.lowering.toolchain.tvm_names import Analyzer, tirx

_NAMES = ("n", "m", "k", "p", "q")
_WHOLE = {"arith.addi": lambda x, y: x + y, "arith.subi": lambda x, y: x - y, "arith.muli": lambda x, y: x * y}
_MORE = {
    "arith.floordivsi": tirx.FloorDiv,
    "arith.divsi": tirx.FloorDiv,
    "arith.maxsi": tirx.Max,
    "arith.minsi": tirx.Min,
}
Shape = list[Any]


class Symbols:
    """The size variables of one TVM function."""

    def __init__(self, program: SizeProgram | None):
        self.program = program
        self._variables: dict[int, Any] = {}
        """Variables by the representative step of their equality class."""
        self._same = _united(program) if program else {}

    def arguments(self, kinds: Sequence[ir.Type]) -> list[Shape]:
        """Return the shapes of arguments of these types."""
        return [self._shape(kind, lambda axis, n=n: self._argument(n, axis)) for n, kind in enumerate(kinds)]

    def results(self, kinds: Sequence[ir.Type], is_whole: bool) -> list[Shape]:
        """Return the shapes of results of these types; `is_whole` writes out quotients and the like."""
        sizes = {(result, axis): step for result, axis, step in (self.program.sizes if self.program else ())}
        rules = {**_WHOLE, **_MORE} if is_whole else _WHOLE
        return [
            self._shape(kind, lambda axis, n=n: self._result(sizes[n, axis], rules)) for n, kind in enumerate(kinds)
        ]

    def _shape(self, type_: ir.Type, unknown: Callable[[int], Any]) -> Shape:
        return [index(size) if size >= 0 else unknown(axis) for axis, size in enumerate(type_.shape)]

    def _argument(self, argument: int, axis: int) -> Any:
        steps = enumerate(self.program.steps if self.program else ())
        number = next((n for n, step in steps if step.name == SIZE and step.literals == (argument, axis)), None)
        # A size that no step computes is a variable equal to no other.
        return self._variable((argument, axis) if number is None else self._same.get(number, number))

    def _result(self, step: int, rules: dict[str, Any]) -> Any:
        expression = self._expression(step, rules)
        return self._variable(("result", step)) if expression is None else Analyzer().simplify(expression)

    def _expression(self, number: int, rules: dict[str, Any]) -> Any:
        step = self.program.steps[number]  # type: ignore[union-attr]
        if step.name == SIZE:
            return self._variable(self._same.get(number, number))
        if step.name == CONSTANT:
            return index(step.literals[0]) if isinstance(step.literals[0], int) else None
        operands = [self._expression(operand, rules) for operand in step.operands]
        if any(operand is None for operand in operands):
            return None
        if step.name in ("arith.index_cast", "arith.extsi") and step.kind in ("index", "i64"):
            return operands[0]
        return rules[step.name](*operands) if step.name in rules else None

    def _variable(self, key: Any) -> Any:
        if key not in self._variables:
            count = len(self._variables)
            name = _NAMES[count] if count < len(_NAMES) else f"n{count}"
            self._variables[key] = tirx.Var(name, "int64")
        return self._variables[key]


def _united(program: SizeProgram) -> dict[int, int]:
    """Map each argument size's step to the first one that it has to equal."""
    parents: dict[int, int] = {}

    def first(step: int) -> int:
        while step in parents:
            step = parents[step]
        return step

    for condition in program.conditions:
        sides = condition.left, condition.right
        if condition.relation != "==" or any(program.steps[step].name != SIZE for step in sides):
            continue
        left, right = sorted(map(first, sides))
        if left != right:
            parents[right] = left
    return {step: first(step) for step in parents}
