"""Write indices as linear forms of induction variables and opaque values, from `tri` IR and from `arith`.

Two values that are computed by equal operations from equal operands have one form, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from mlirtri.dialect.base.sizes import Size, Symbol
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.mlir_common.attributes import CLAMP
from mlirtri.lowering.mlir_common.reading import defined_by, definition, width_of

ATOMIC = "mlirtri.atomic"
"""Attribute of the read and the write of an atomic update."""
_SAME = frozenset({"arith.index_cast", "tensor.from_elements", "tensor.extract"})
_COMPARISONS = frozenset({"tri.greater_equal", "tri.greater", "tri.less", "tri.less_equal", "tri.logical_or"})
_SUMS = frozenset({"tri.add", "arith.addi"})
_DIFFERENCES = frozenset({"tri.subtract", "arith.subi"})
_PRODUCTS = frozenset({"tri.multiply", "arith.muli"})
_QUOTIENTS = frozenset({"tri.floor_divide", "arith.floordivsi"})
LEAST_BITS = 32
"""Bits of integers that are taken not to wrap around: indices of arrays that fit into memory."""
_NOT_IN_KEYS = ("operandSegmentSizes",)


@dataclass
class IndexForms:
    """The linear forms of the values in one loop."""

    loop: ir.Operation
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _forms: dict[ir.Value, Size] = field(default_factory=dict)
    _varying: dict[Symbol, bool] = field(default_factory=dict)
    """Whether iterations of the loop may have different values of a symbol, an opaque value."""
    ranges: dict[Symbol, tuple[int, int] | None] = field(default_factory=dict)
    """Least and greatest value of the induction variables, of this loop and of those inside; None if no constants."""
    bounds: dict[Symbol, tuple[Size, Size]] = field(default_factory=dict)
    """Forms of the least and the greatest value of induction variables."""
    unique: dict[Symbol, tuple[Size, ...]] = field(default_factory=dict)
    """The forms in whose equal evaluations a symbol never has the same number twice."""
    quotients: dict[Symbol, tuple[Size, int]] = field(default_factory=dict)
    """The dividend and the positive divisor of which a symbol is the quotient, rounded down."""
    remainders: dict[Symbol, tuple[Size, int]] = field(default_factory=dict)
    """The dividend and the positive divisor of which a symbol is the remainder, not negative."""
    wrapped: dict[Symbol, tuple[Size, int]] = field(default_factory=dict)
    """The index and the size of which a symbol is ``where(index < 0, index + size, index)``."""
    turned: dict[Symbol, Size] = field(default_factory=dict)
    """The index of which a symbol is ``where(index < 0, index + size, index)``, of any size."""
    scaled: dict[Symbol, tuple[Size, Size]] = field(default_factory=dict)
    """The factors of which a symbol is the product, first the one that iterations change."""
    exchanged: dict[Symbol, tuple[Size, Size]] = field(default_factory=dict)
    """The operands of which a symbol is the bitwise exclusive or."""
    powers: dict[Symbol, Size] = field(default_factory=dict)
    """The exponents of symbols that are powers of 2."""
    _loaded: set[Symbol] = field(default_factory=set)
    """Elements of arrays at indices that iterations change."""

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
        return self._varying[symbol]

    def is_variable(self, symbol: Symbol) -> bool:
        """Return whether a symbol is the induction variable of the loop or of one inside it."""
        return symbol in self.ranges

    def depth_of(self, symbol: Symbol) -> int:
        """Return a number that is greater for induction variables of inner loops: bounds are numbered before them."""
        bounds = self.bounds.get(symbol)
        if bounds is None:
            return -1
        inner = [self.depth_of(other) for bound in bounds for other, _ in bound.terms]
        return 1 + max(inner, default=0)

    def is_loaded(self, symbol: Symbol) -> bool:
        """Return whether a symbol is an element that an iteration reads from an array, or an index made of one."""
        if symbol in self.turned:
            return any(self.is_loaded(inner) for inner, _ in self.turned[symbol].terms)
        return symbol in self._loaded

    def _form(self, value: ir.Value) -> Size:
        if isinstance(value.owner, ir.Block):
            return self._argument(value)
        operation = value.owner.operation
        operands, name = list(operation.operands), operation.name
        if name in _SAME and len(operands) == 1:
            return self.of(operands[0])
        if name == "tri.cast" and _keeps_integers(operation):
            return self.of(operands[0])
        if name in ("arith.constant", "tri.constant") and isinstance(operation.attributes["value"], ir.IntegerAttr):
            return Size.of(ir.IntegerAttr(operation.attributes["value"]).value)
        if (form := self._arithmetic(name, operands)) is not None:
            return form
        if name == "tri.where" and self._is_checked(operands):
            return self.of(operands[2])
        if name == "tri.where" and _is_from_the_end(operands):
            return self.of(operands[2])
        if CLAMP in operation.attributes:
            return self.of(operands[0])
        return self._computed(value, operation)

    def _arithmetic(self, name: str, operands: list[ir.Value]) -> Size | None:
        """Return the form of a sum, a difference, a multiple or a negative number; None for other operations."""
        if name == "tri.negative":
            return -self.of(operands[0])
        if name not in _SUMS | _DIFFERENCES | _PRODUCTS:
            return None
        left, right = map(self.of, operands)
        if name in _PRODUCTS:
            return left * right if left.is_constant or right.is_constant else None
        return left + right if name in _SUMS else left - right

    def _argument(self, value: ir.Value) -> Size:
        block = value.owner
        around = block.owner.operation
        form = self._opaque(("argument", value), self._is_inside(around))
        if (bounds := _bounds(around, value)) is not None:
            lower, step = self.of(bounds[0]), self.of(bounds[2])
            upper = self._upper(bounds[1], lower)
            is_known = lower.is_constant and upper.is_constant and step.is_constant
            [(symbol, _)] = form.terms
            last = upper.constant - 1 - (upper.constant - 1 - lower.constant) % max(step.constant, 1)
            self.ranges[symbol] = (lower.constant, max(last, lower.constant)) if is_known else None
            self.bounds[symbol] = (lower, upper - 1)
        return form

    def _upper(self, value: ir.Value, lower: Size) -> Size:
        """Return an upper bound; a loop whose indices fail their check is not started: ``select(failed, lower, n)``."""
        if (select := defined_by(value, "arith.select")) is not None:
            _, empty, upper = select.operands
            if self.of(empty) == lower:
                return self.of(upper)
        return self.of(value)

    def _is_checked(self, operands: list[ir.Value]) -> bool:
        """Return whether a selection moves an index that is outside of its axis to 0, beside a check that raises."""
        comparison = definition(operands[0])
        if comparison is None or comparison.name not in _COMPARISONS:
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
        form = self._opaque(key, any(self.varies(symbol) for form in operands for symbol, _ in form.terms))
        [(symbol, _)] = form.terms
        self._note(symbol, operation, operands)
        return form

    def _note(self, symbol: Symbol, operation: ir.Operation, operands: list[Size]) -> None:
        """Record what is known of an opaque value."""
        name = operation.name
        self._note_division(symbol, operation, operands)
        if name == "tri.where" and (moved := operands[1] - operands[2]).is_constant and moved.constant > 0:
            self.wrapped[symbol] = (operands[2], moved.constant)
        if name == "tri.extract_slice" and self.varies(symbol):
            self._loaded.add(symbol)
        if name == "tri.where" and self._is_below_zero(operation.operands[0], operands[2]):
            self.turned[symbol] = operands[2]
        if name in _PRODUCTS:
            changing = [any(self.varies(inner) for inner, _ in form.terms) for form in operands]
            if changing[0] != changing[1]:
                first = changing.index(True)
                self.scaled[symbol] = (operands[first], operands[1 - first])
        if name == "tri.bitwise_xor":
            self.exchanged[symbol] = (operands[0], operands[1])
        base = {"tri.left_shift": 1, "tri.power": 2}.get(name)
        if base is not None and operands[0].is_constant and operands[0].constant == base:
            self.powers[symbol] = operands[1]

    def _note_division(self, symbol: Symbol, operation: ir.Operation, operands: list[Size]) -> None:
        known = {"tri.remainder": self.remainders} | dict.fromkeys(_QUOTIENTS, self.quotients)
        results = known.get(operation.name)
        if (parts := _floored_remainder(operation)) is not None:
            results, operands = self.remainders, [self.of(part) for part in parts]
        if results is not None and operands[1].is_constant and operands[1].constant > 0:
            results[symbol] = (operands[0], operands[1].constant)

    def _is_below_zero(self, condition: ir.Value, index: Size) -> bool:
        comparison = defined_by(condition, "tri.less")
        if comparison is None:
            return False
        compared, zero = map(self.of, comparison.operands)
        return compared == index and zero == Size.of(0)

    def _opaque(self, key: Hashable, varies: bool) -> Size:
        number = self._numbers.setdefault(key, len(self._numbers))
        symbol = Symbol(number, f"v{number}", order=number)
        self._varying[symbol] = varies
        return Size.of(symbol)

    def _is_inside(self, operation: ir.Operation) -> bool:
        around = operation.operation
        while around is not None and around.name != "func.func":
            if around == self.loop:
                return True
            around = around.parent.operation if around.parent is not None else None
        return False


def _is_from_the_end(operands: list[ir.Value]) -> bool:
    """Return whether ``where(x < 0, x + size, x)`` counts what an atomic update returned, which starts at 0, from 0."""
    owners = [value.owner for value in operands]
    if any(isinstance(owner, ir.Block) for owner in owners):
        return False
    condition, moved, ticket = (owner.operation for owner in owners)
    is_moved = condition.name == "tri.less" and moved.name == "tri.add" and moved.operands[0] == operands[2]
    while ticket.name == "tri.cast" and not isinstance(ticket.operands[0].owner, ir.Block):
        ticket = ticket.operands[0].owner.operation
    return is_moved and ATOMIC in ticket.attributes


def _floored_remainder(operation: ir.Operation) -> list[ir.Value] | None:
    """Return x and n of ``r != 0 and (r ^ n) < 0 ? r + n : r`` with r the remainder of x by n, Python's x % n."""
    if operation.name != "arith.select":
        return None
    _, moved, plain = map(definition, operation.operands)
    if moved is None or plain is None or moved.name != "arith.addi" or plain.name != "arith.remsi":
        return None
    is_moved = moved.operands[0] == plain.results[0] and moved.operands[1] == plain.operands[1]
    return list(plain.operands) if is_moved else None


def _bounds(loop: ir.Operation, variable: ir.Value) -> list[ir.Value] | None:
    """Return lower bound, upper bound and step of an induction variable; None for other values."""
    if loop.name == "scf.for" and variable.arg_number == 0:
        return list(loop.operands)[:3]
    if loop.name == "scf.parallel":
        count = len(loop.regions[0].blocks[0].arguments)
        return list(loop.operands)[variable.arg_number : 3 * count : count]
    return None


def _keeps_integers(cast: ir.Operation) -> bool:
    """Return whether a cast gives the same integer: one to 8 or 16 bits may wrap around."""
    source, target = (_element(value) for value in (cast.operands[0], cast.results[0]))
    if not all(isinstance(element, (ir.IntegerType, ir.IndexType)) for element in (source, target)):
        return False
    before, after = map(width_of, (source, target))
    return after >= min(before, LEAST_BITS)


def _element(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type if isinstance(value.type, ir.RankedTensorType) else value.type
