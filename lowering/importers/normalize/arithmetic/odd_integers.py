"""Compute on integers of widths that memory does not have (i4, i24, i48) in the next wider type that it has.

Stored values are sign-extended to the wider type; what overflows the odd width wraps around in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import arith, ir, math
from mlirtri.errors import UnsupportedOperationError

WIDTHS = (8, 16, 32, 64)
"""The integer widths that memory has."""


def storage_type(kind: ir.Type) -> ir.IntegerType | None:
    """Return the integer type that stores an odd one; None for any other type."""
    if not isinstance(kind, ir.IntegerType) or not kind.is_signless or kind.width in (1, *WIDTHS):
        return None
    width = next((width for width in WIDTHS if width > kind.width), None)
    return ir.IntegerType.get_signless(width) if width else None


def compute_stored(operation: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
    """Return the result of an operation on stored operands, stored; raises `UnsupportedOperationError`."""
    rule = RULES.get(operation.name)
    if rule is None:
        odd = next(v.type for v in (*operation.operands, *operation.results) if storage_type(v.type) is not None)
        raise UnsupportedOperationError(f"{operation.name} has no lowering on {odd}", help="extend it to i8 or wider")
    source, result = operation.operands[0].type, operation.results[0].type
    return rule(_Widths(operation, list(operands), _width(source), _width(result)))


def wrapped(value: ir.Value, width: int) -> ir.Value:
    """Sign-extend the lowest `width` bits."""
    if value.type.width == width:
        return value
    amount = arith.constant(value.type, value.type.width - width)
    return arith.shrsi(arith.shli(value, amount), amount)


def _width(kind: ir.Type) -> int:
    return kind.width if isinstance(kind, ir.IntegerType) else 0


def _unsigned(value: ir.Value, width: int) -> ir.Value:
    if not isinstance(value.type, ir.IntegerType) or value.type.width == width:
        return value
    return arith.andi(value, arith.constant(value.type, (1 << width) - 1))


def _resized(value: ir.Value, kind: ir.Type) -> ir.Value:
    if value.type == kind:
        return value
    return (arith.extsi if value.type.width < kind.width else arith.trunci)(kind, value)


@dataclass(frozen=True)
class _Widths:
    """An operation with stored operands, and the widths of its operands and result."""

    operation: ir.Operation
    operands: list[ir.Value]
    source: int
    result: int

    @property
    def kind(self) -> ir.Type:
        """The type that stores the result."""
        result_type = self.operation.results[0].type
        return storage_type(result_type) or result_type

    def plain(self, operands: Sequence[ir.Value] | None = None) -> ir.Value:
        operands = self.operands if operands is None else operands
        attributes = {name: self.operation.attributes[name] for name in self.operation.attributes}
        return ir.Operation.create(
            self.operation.name, results=[self.kind], operands=operands, attributes=attributes
        ).results[0]

    def unsigned(self) -> list[ir.Value]:
        return [_unsigned(value, self.source) for value in self.operands]

    def wrap(self, value: ir.Value) -> ir.Value:
        return wrapped(value, self.result) if self.result else value


Rule = Callable[[_Widths], ir.Value]


def _shift(wide: _Widths) -> ir.Value:
    """Shift: the amount is unsigned, the shifted value signed unless zeros are shifted in."""
    value, amount = wide.unsigned()
    return wide.wrap(wide.plain([value if wide.operation.name == "arith.shrui" else wide.operands[0], amount]))


def _compare(wide: _Widths) -> ir.Value:
    predicate = ir.IntegerAttr(wide.operation.attributes["predicate"]).value
    is_unsigned = predicate >= arith.CmpIPredicate.ult
    return wide.plain(wide.unsigned() if is_unsigned else wide.operands)


def _leading_zeros(wide: _Widths) -> ir.Value:
    count = wide.plain(wide.unsigned())
    return wide.wrap(arith.subi(count, arith.constant(count.type, count.type.width - wide.source)))


def _trailing_zeros(wide: _Widths) -> ir.Value:
    # Set the bit past the width, so that no more zeros are counted.
    value = wide.operands[0]
    return wide.wrap(math.cttz(arith.ori(_unsigned(value, wide.source), arith.constant(value.type, 1 << wide.source))))


def _direct(wide: _Widths) -> ir.Value:
    return wide.plain()


def _wrapping(wide: _Widths) -> ir.Value:
    return wide.wrap(wide.plain())


def _unsigned_wrapping(wide: _Widths) -> ir.Value:
    return wide.wrap(wide.plain(wide.unsigned()))


def _extended(wide: _Widths) -> ir.Value:
    return _resized(wide.operands[0], wide.kind)


def _extended_unsigned(wide: _Widths) -> ir.Value:
    value = wide.unsigned()[0]
    is_stored = value.type == wide.kind
    return wide.wrap(value if is_stored else arith.extui(wide.kind, value))


def _truncated(wide: _Widths) -> ir.Value:
    return wide.wrap(_resized(wide.operands[0], wide.kind))


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
