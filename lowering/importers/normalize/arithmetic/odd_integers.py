"""Compute on integers of widths other than 8, 16, 32 and 64 (i4, i24, i48) in the next wider type of those.

Such a value is stored sign-extended. Each result is sign-extended again from its odd width, in which it wraps around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import arith, ir, math
from mlirtri.errors import UnsupportedOperationError

WIDTHS = (8, 16, 32, 64)
"""The widths of integers in memory."""
UNSIGNED_PREDICATES = frozenset(
    (arith.CmpIPredicate.ult, arith.CmpIPredicate.ule, arith.CmpIPredicate.ugt, arith.CmpIPredicate.uge)
)


def storage_type(type_: ir.Type) -> ir.IntegerType | None:
    """Return the integer type that stores an odd one; None for any other type."""
    if not isinstance(type_, ir.IntegerType) or not type_.is_signless or type_.width in (1, *WIDTHS):
        return None
    width = next((width for width in WIDTHS if width > type_.width), None)
    return ir.IntegerType.get_signless(width) if width else None


def lower_in_storage_type(operation: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
    """Return the result of an operation on stored operands, stored; raises `UnsupportedOperationError`."""
    rule = RULES.get(operation.name)
    if rule is None:
        odd = next(v.type for v in (*operation.operands, *operation.results) if storage_type(v.type) is not None)
        raise UnsupportedOperationError(f"{operation.name} has no lowering on {odd}", help="extend it to i8 or wider")
    source, result = operation.operands[0].type, operation.results[0].type
    return rule(_StoredOperation(operation, list(operands), _width(source), _width(result)))


def wrapped(value: ir.Value, width: int) -> ir.Value:
    """Sign-extend the lowest `width` bits."""
    if value.type.width == width:
        return value
    amount = arith.constant(value.type, value.type.width - width)
    return arith.shrsi(arith.shli(value, amount), amount)


def _width(type_: ir.Type) -> int:
    return type_.width if isinstance(type_, ir.IntegerType) else 0


def _unsigned(value: ir.Value, width: int) -> ir.Value:
    if not isinstance(value.type, ir.IntegerType) or value.type.width == width:
        return value
    return arith.andi(value, arith.constant(value.type, (1 << width) - 1))


def _resized(value: ir.Value, type_: ir.Type) -> ir.Value:
    if value.type == type_:
        return value
    return (arith.extsi if value.type.width < type_.width else arith.trunci)(type_, value)


@dataclass(frozen=True)
class _StoredOperation:
    """An operation with stored operands, and the widths of its operands and result."""

    operation: ir.Operation
    operands: list[ir.Value]
    source: int
    result: int

    @property
    def result_type(self) -> ir.Type:
        """The type that stores the result."""
        type_ = self.operation.results[0].type
        return storage_type(type_) or type_

    def same_operation(self, operands: Sequence[ir.Value] | None = None) -> ir.Value:
        """Emit the operation on the stored operands, or on others of their types, in the storage types."""
        operands = self.operands if operands is None else operands
        attributes = {name: self.operation.attributes[name] for name in self.operation.attributes}
        return ir.Operation.create(
            self.operation.name, results=[self.result_type], operands=operands, attributes=attributes
        ).results[0]

    def unsigned(self) -> list[ir.Value]:
        return [_unsigned(value, self.source) for value in self.operands]

    def wrap(self, value: ir.Value) -> ir.Value:
        return wrapped(value, self.result) if self.result else value


Rule = Callable[[_StoredOperation], ir.Value]


def _shift(stored: _StoredOperation) -> ir.Value:
    """Shift: the amount is unsigned, the shifted value signed unless zeros are shifted in."""
    value, amount = stored.unsigned()
    return stored.wrap(
        stored.same_operation([value if stored.operation.name == "arith.shrui" else stored.operands[0], amount])
    )


def _compare(stored: _StoredOperation) -> ir.Value:
    predicate = ir.IntegerAttr(stored.operation.attributes["predicate"]).value
    is_unsigned = predicate in UNSIGNED_PREDICATES
    return stored.same_operation(stored.unsigned() if is_unsigned else stored.operands)


def _leading_zeros(stored: _StoredOperation) -> ir.Value:
    count = stored.same_operation(stored.unsigned())
    return stored.wrap(arith.subi(count, arith.constant(count.type, count.type.width - stored.source)))


def _trailing_zeros(stored: _StoredOperation) -> ir.Value:
    # Set the bit past the width, so that no more zeros are counted.
    value = stored.operands[0]
    return stored.wrap(
        math.cttz(arith.ori(_unsigned(value, stored.source), arith.constant(value.type, 1 << stored.source)))
    )


def _direct(stored: _StoredOperation) -> ir.Value:
    """Compute on sign-extended operands: the result is sign-extended, too."""
    return stored.same_operation()


def _wrapping(stored: _StoredOperation) -> ir.Value:
    """Compute on sign-extended operands, and wrap the result around."""
    return stored.wrap(stored.same_operation())


def _unsigned_wrapping(stored: _StoredOperation) -> ir.Value:
    """Compute on zero-extended operands, and wrap the result around."""
    return stored.wrap(stored.same_operation(stored.unsigned()))


def _extended(stored: _StoredOperation) -> ir.Value:
    """Extend the sign: the stored operand has it already."""
    return _resized(stored.operands[0], stored.result_type)


def _extended_unsigned(stored: _StoredOperation) -> ir.Value:
    value = stored.unsigned()[0]
    is_stored = value.type == stored.result_type
    return stored.wrap(value if is_stored else arith.extui(stored.result_type, value))


def _truncated(stored: _StoredOperation) -> ir.Value:
    return stored.wrap(_resized(stored.operands[0], stored.result_type))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("arith.andi", "arith.ori", "arith.xori", "arith.maxsi", "arith.minsi", "arith.remsi"), _direct),
    **dict.fromkeys(("arith.sitofp", "arith.index_cast"), _wrapping),
    **dict.fromkeys(("arith.addi", "arith.subi", "arith.muli", "arith.divsi", "arith.floordivsi"), _wrapping),
    **dict.fromkeys(("arith.ceildivsi", "arith.fptosi", "arith.fptoui", "math.absi", "math.ipowi"), _wrapping),
    **dict.fromkeys(("arith.divui", "arith.remui", "arith.ceildivui", "arith.maxui"), _unsigned_wrapping),
    **dict.fromkeys(("arith.minui", "arith.uitofp", "arith.index_castui", "math.ctpop"), _unsigned_wrapping),
    **dict.fromkeys(("arith.shli", "arith.shrsi", "arith.shrui"), _shift),
    "arith.cmpi": _compare,
    "arith.extsi": _extended,
    "arith.extui": _extended_unsigned,
    "arith.trunci": _truncated,
    "math.ctlz": _leading_zeros,
    "math.cttz": _trailing_zeros,
}
