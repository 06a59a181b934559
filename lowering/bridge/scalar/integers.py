"""Scalar rules of integers: arithmetic that wraps, division that never traps, shifts, comparisons.

TVM assumes that int32 and int64, signed or unsigned, never overflow, and evaluates both arms of a select: so sums and
products are computed in twice the width, and a divisor is made safe before the division.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.bridge.scalar.scalar_rules import (
    Build,
    Expr,
    cast,
    dtype_name,
    literal,
    result_dtype,
    scalar_rule,
    signed,
    unsigned,
)  # fmt: skip
from mlirtri.lowering.tir.arithmetic import wrapped
from mlirtri.lowering.toolchain.tvm_names import tirx


def _is_widened(expression: Expr, dtype: str) -> bool:
    """Return whether an integer was extended from at most half its width: a product cannot overflow."""
    if not isinstance(expression, tirx.Cast):
        return False
    source = DTYPES.get(dtype_name(expression.value))
    return source is not None and not source.is_float and source.bits * 2 < DTYPES[dtype].bits


def _wrapping(node: Callable[[Expr, Expr], Expr]) -> Build:
    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        dtype = result_dtype(operation)
        if dtype == "bool":
            return _BOOLEAN_ARITHMETIC[operation.name](*operands)
        exact = all(_is_widened(operand, dtype) for operand in operands)
        is_index = isinstance(operation.results[0].type, ir.IndexType)
        return node(*operands) if is_index or exact else wrapped(node, *operands)

    return build


def _combine_bits(function: Callable[[Expr, Expr], Expr]) -> Build:
    # Bools also use bitwise ops: TVM's logical simplifications (`not a <= b` is `b < a`) are wrong for NaN.
    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        x, y = operands
        if isinstance(x, tirx.IntImm) and isinstance(y, tirx.IntImm):
            return literal(_BITS_OF_NUMBERS[operation.name](x.value, y.value), dtype_name(x))
        return function(x, y)

    return build


_BITS_OF_NUMBERS = {"arith.andi": operator.and_, "arith.ori": operator.or_, "arith.xori": operator.xor}


def _unsigned_binary(node: Callable[[Expr, Expr], Expr]) -> Build:
    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        x, y = map(unsigned, operands)
        return signed(node(x, y)) if dtype_name(x) != "bool" else _BOOLEAN_ARITHMETIC[operation.name](x, y)

    return build


_BOOLEAN_ARITHMETIC = {
    "arith.addi": tirx.bitwise_xor,
    "arith.subi": tirx.bitwise_xor,
    "arith.muli": tirx.bitwise_and,
    "arith.maxui": tirx.bitwise_or,
    "arith.minui": tirx.bitwise_and,
    "arith.maxsi": tirx.bitwise_and,
    "arith.minsi": tirx.bitwise_or,
}

scalar_rule("arith.addi")(_wrapping(tirx.Add))
scalar_rule("arith.subi")(_wrapping(tirx.Sub))
scalar_rule("arith.muli")(_wrapping(tirx.Mul))
scalar_rule("arith.andi")(_combine_bits(tirx.bitwise_and))
scalar_rule("arith.ori")(_combine_bits(tirx.bitwise_or))
scalar_rule("arith.xori")(_combine_bits(tirx.bitwise_xor))
scalar_rule("arith.maxui")(_unsigned_binary(tirx.Max))
scalar_rule("arith.minui")(_unsigned_binary(tirx.Min))


@scalar_rule("arith.maxsi")
@scalar_rule("arith.minsi")
def _signed_extremum(operation, operands):
    if dtype_name(operands[0]) == "bool":
        return _BOOLEAN_ARITHMETIC[operation.name](*operands)
    return (tirx.Max if operation.name == "arith.maxsi" else tirx.Min)(*operands)


def _hide_lowest(x: Expr) -> Expr:
    """Return INT_MIN hidden from TVM, which folds ``x == INT_MIN`` and ``x <= INT_MIN`` to false."""
    dtype = dtype_name(x)
    lowest = -(1 << (DTYPES[dtype].bits - 1))
    if not isinstance(x, tirx.IntImm) or x.value != lowest:
        return x
    return tirx.bitwise_not(literal(-1 - lowest, dtype))


def _safe_divisor(x: Expr, y: Expr) -> Expr:
    """Return a divisor that cannot trap: 1 where `y` is 0 or the quotient would overflow (which wraps to x / 1)."""
    dtype = dtype_name(y)
    one = literal(1, dtype)
    if isinstance(y, tirx.IntImm) and y.value not in (0, -1):
        return y
    is_bad = tirx.EQ(y, literal(0, dtype))
    if not dtype.startswith("u"):
        lowest = _hide_lowest(literal(1 << (DTYPES[dtype].bits - 1), dtype))
        is_bad = tirx.Or(is_bad, tirx.And(tirx.EQ(x, lowest), tirx.EQ(y, literal(-1, dtype))))
    return tirx.Select(is_bad, one, y)


def _division(node: Callable[[Expr, Expr], Expr], *, is_unsigned: bool = False) -> Build:
    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        x, y = map(unsigned, operands) if is_unsigned else operands
        return signed(node(x, _safe_divisor(x, y)))

    return build


def _ceiling_quotient(x: Expr, y: Expr) -> Expr:
    dtype = dtype_name(x)
    zero = literal(0, dtype)
    quotient, remainder = tirx.Div(x, y), tirx.Mod(x, y)
    is_positive = tirx.And(tirx.GT(remainder, zero), tirx.GT(y, zero))
    is_rounded_down = tirx.Or(is_positive, tirx.And(tirx.LT(remainder, zero), tirx.LT(y, zero)))
    return tirx.Select(is_rounded_down, tirx.Add(quotient, literal(1, dtype)), quotient)


scalar_rule("arith.divsi", repeats=True, is_expensive=True)(_division(tirx.Div))
scalar_rule("arith.remsi", repeats=True, is_expensive=True)(_division(tirx.Mod))
scalar_rule("arith.floordivsi", repeats=True, is_expensive=True)(_division(tirx.FloorDiv))
scalar_rule("arith.ceildivsi", repeats=True, is_expensive=True)(_division(_ceiling_quotient))
scalar_rule("arith.divui", repeats=True, is_expensive=True)(_division(tirx.Div, is_unsigned=True))
scalar_rule("arith.remui", repeats=True, is_expensive=True)(_division(tirx.Mod, is_unsigned=True))
scalar_rule("arith.ceildivui", repeats=True, is_expensive=True)(_division(_ceiling_quotient, is_unsigned=True))


def _shift(node: Callable[[Expr, Expr], Expr], *, is_unsigned: bool) -> Build:
    """Keep a shift's amount below the width; more is poison in MLIR, and fatal in TVM's folding."""

    def build(operation: ir.Operation, operands: Sequence[Expr]) -> Expr:
        x, y = map(unsigned, operands) if is_unsigned else operands
        dtype = dtype_name(x)
        amount = tirx.bitwise_and(y, literal(DTYPES[dtype].bits - 1, dtype))
        return signed(node(x, amount))

    return build


scalar_rule("arith.shli")(_shift(tirx.shift_left, is_unsigned=True))
scalar_rule("arith.shrui")(_shift(tirx.shift_right, is_unsigned=True))
scalar_rule("arith.shrsi")(_shift(tirx.shift_right, is_unsigned=False))


_CMPI = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
_COMPARE_NUMBERS = (
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
    operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip
_FIRST_UNSIGNED = 6


@scalar_rule("arith.cmpi")
def _compare_integers(operation, operands):
    number = operation.attributes["predicate"].value
    x, y = operands
    if dtype_name(x) == "bool":
        # As a signed number, true is -1.
        sign = 1 if number < 2 or number >= _FIRST_UNSIGNED else -1
        x, y = (tirx.Select(operand, literal(sign, "int32"), literal(0, "int32")) for operand in operands)
    elif number >= _FIRST_UNSIGNED:
        x, y = _ordered_as_unsigned(x), _ordered_as_unsigned(y)
    if isinstance(x, tirx.IntImm) and isinstance(y, tirx.IntImm):
        return literal(_COMPARE_NUMBERS[number](x.value, y.value), "bool")
    return _CMPI[number](_hide_lowest(x), _hide_lowest(y))


def _ordered_as_unsigned(x: Expr) -> Expr:
    """Return a signed number that orders as the unsigned `x`: TVM mishandles negative unsigned differences."""
    dtype = dtype_name(x)
    lowest = 1 << (DTYPES[dtype].bits - 1)
    if isinstance(x, tirx.IntImm):
        return literal(x.value ^ lowest, dtype)
    return tirx.bitwise_xor(x, literal(lowest, dtype))


@scalar_rule("math.absi", repeats=True)
def _absolute_integer(operation, operands):
    (x,) = operands
    dtype = dtype_name(x)
    return tirx.Select(tirx.LT(x, literal(0, dtype)), wrapped(tirx.Sub, literal(0, dtype), x), x)


@scalar_rule("math.ctpop")
def _count_ones(operation, operands):
    (x,) = operands
    # Count in 64 bits, without the sign extension.
    return cast(tirx.popcount(cast(unsigned(x), "uint64")), dtype_name(x))


def integer_power(base: Expr, exponent: Expr, name: Callable[[Expr, str], Expr]) -> Expr:
    """Return ``math.ipowi``, `base ** exponent` that wraps; a negative exponent gives 0 unless the base is 1 or -1.

    `name` makes a variable of an expression: there are two for every bit.
    """
    dtype = dtype_name(base)
    one, zero = literal(1, dtype), literal(0, dtype)
    power, square = one, name(base, "square")
    for bit in range(DTYPES[dtype].bits - 1):
        is_set = tirx.NE(tirx.bitwise_and(exponent, literal(1 << bit, dtype)), zero)
        power = name(wrapped(tirx.Mul, power, tirx.Select(is_set, square, one)), "power")
        square = name(wrapped(tirx.Mul, square, square), "square")
    # The power of 1 and -1 is right for any two's-complement exponent.
    is_unit = tirx.Or(tirx.EQ(base, one), tirx.EQ(base, literal(-1, dtype)))
    return tirx.Select(tirx.Or(tirx.GE(exponent, zero), is_unit), power, zero)
