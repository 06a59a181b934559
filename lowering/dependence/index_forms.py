"""Indices in `tri` IR as linear forms of induction variables and of values that are opaque.

Two values that are computed by equal operations from equal operands have one form, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from mlirtri.dialect.base.sizes import Size, Symbol
from mlirtri.dialect.bindings.mlir import ir

_SAME = frozenset({"arith.index_cast", "tensor.from_elements", "tensor.extract"})
_COMPARISONS = frozenset({"tri.greater_equal", "tri.greater", "tri.less", "tri.less_equal", "tri.logical_or"})
_NOT_IN_KEYS = ("operandSegmentSizes",)


@dataclass
class IndexForms:
    """The linear forms of the values in one loop."""

    loop: ir.Operation
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _forms: dict[ir.Value, Size] = field(default_factory=dict)
    _varying: dict[int, bool] = field(default_factory=dict)
    """By the number of an opaque value, whether iterations of the loop may have different ones."""
    _ranges: dict[int, tuple[int, int] | None] = field(default_factory=dict)
    """By the number of an induction variable inside, its least and greatest value; None where they are not known."""

    def of(self, value: ir.Value) -> Size:
        """Return the linear form of an integer of rank 0, a `tensor<i64>` or an `index`."""
        if value not in self._forms:
            self._forms[value] = self._form(value)
        return self._forms[value]

    def induction_variable(self) -> Symbol:
        """Return the symbol of the loop's own induction variable."""
        [(symbol, _)] = self.of(self.loop.regions[0].blocks[0].arguments[0]).terms
        return symbol

    def varies(self, symbol: Symbol) -> bool:
        """Return whether iterations of the loop may have different values of a symbol."""
        return self._varying[symbol.order]

    def is_variable(self, symbol: Symbol) -> bool:
        """Return whether a symbol is the induction variable of the loop or of one inside it."""
        return symbol.order in self._ranges

    def range_of(self, symbol: Symbol) -> tuple[int, int] | None:
        """Return the least and the greatest value of an inner loop's induction variable, where they are constants."""
        return self._ranges.get(symbol.order)

    def _form(self, value: ir.Value) -> Size:
        if isinstance(value.owner, ir.Block):
            return self._argument(value)
        operation = value.owner.operation
        operands, name = list(operation.operands), operation.name
        if name in _SAME and len(operands) == 1:
            return self.of(operands[0])
        if name == "tri.cast" and "int" in str(operation.attributes["dtype"]) and _is_integer(operands[0]):
            return self.of(operands[0])
        if name in ("arith.constant", "tri.constant") and isinstance(operation.attributes["value"], ir.IntegerAttr):
            return Size.of(ir.IntegerAttr(operation.attributes["value"]).value)
        if name in ("tri.add", "tri.subtract"):
            left, right = map(self.of, operands)
            return left + right if name == "tri.add" else left - right
        if name == "tri.multiply":
            left, right = map(self.of, operands)
            if left.is_constant or right.is_constant:
                return left * right
        if name == "tri.where" and self._is_checked(operands):
            return self.of(operands[2])
        return self._computed(value, operation)

    def _argument(self, value: ir.Value) -> Size:
        block = value.owner
        around = block.owner.operation
        form = self._opaque(("argument", value), self._is_inside(around))
        if around.name == "scf.for" and value == block.arguments[0]:
            lower, upper, step = (self.of(operand) for operand in list(around.operands)[:3])
            is_known = lower.is_constant and upper.is_constant and step.is_constant
            [(symbol, _)] = form.terms
            last = upper.constant - 1 - (upper.constant - 1 - lower.constant) % max(step.constant, 1)
            self._ranges[symbol.order] = (lower.constant, max(last, lower.constant)) if is_known else None
        return form

    def _is_checked(self, operands: list[ir.Value]) -> bool:
        """Return whether a selection moves an index that is outside of its axis to 0, beside a check that raises."""
        owner = operands[0].owner
        if isinstance(owner, ir.Block) or owner.operation.name not in _COMPARISONS:
            return False
        moved = self.of(operands[1])
        return moved.is_constant and moved.constant == 0 and len(list(operands[0].uses)) > 1

    def _computed(self, value: ir.Value, operation: ir.Operation) -> Size:
        if list(operation.regions) or not operation.name.startswith(("tri.", "arith.", "tensor.")):
            return self._opaque(("result", value), self._is_inside(operation))
        operands = [self.of(operand) for operand in operation.operands]
        attributes = tuple(
            (name, str(operation.attributes[name])) for name in operation.attributes if name not in _NOT_IN_KEYS
        )
        key = (operation.name, attributes, tuple((form.terms, form.constant) for form in operands))
        varies = any(self.varies(symbol) for form in operands for symbol, _ in form.terms)
        return self._opaque(key, varies)

    def _opaque(self, key: Hashable, varies: bool) -> Size:
        number = self._numbers.setdefault(key, len(self._numbers))
        self._varying[number] = varies
        return Size.of(Symbol(number, f"v{number}", order=number))

    def _is_inside(self, operation: ir.Operation) -> bool:
        around = operation.operation
        while around is not None and around.name != "func.func":
            if around == self.loop:
                return True
            around = around.parent.operation if around.parent is not None else None
        return False


def _is_integer(value: ir.Value) -> bool:
    kind = value.type
    element = ir.RankedTensorType(kind).element_type if isinstance(kind, ir.RankedTensorType) else kind
    return isinstance(element, (ir.IntegerType, ir.IndexType))
