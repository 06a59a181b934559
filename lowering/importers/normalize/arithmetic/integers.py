"""Rules for integers: division, shifts, absolute values and powers defined for all operands; extended arithmetic.

x / 0 and x % 0 are 0, and the smallest integer divided by -1 wraps, as in NumPy. A shift past the width leaves zeros or
copies of the sign, as in NumPy and torch. 0 to a negative power is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import arith, ir, math
from mlirtri.lowering.importers.normalize.arithmetic.total_arithmetic import compare, literal, total
from mlirtri.lowering.mlir_common.reading import integer_constant, width_of


def _negated(x: ir.Value) -> ir.Value:
    return arith.subi(literal(x.type, 0), x)


@total("arith.divui", "arith.remui", "arith.ceildivui")
@total("arith.divsi", "arith.floordivsi", "arith.ceildivsi", "arith.remsi")
def _division(operation: ir.Operation) -> Sequence[ir.Value] | None:
    """Divide by 1 in place of 0, and in place of -1 where that may overflow, and select what those give."""
    (x, y), builder = operation.operands, getattr(arith, operation.name.removeprefix("arith."))
    is_remainder, is_signed = "rem" in operation.name, operation.name.endswith("si")
    zero = literal(x.type, 0)
    if width_of(x.type) == 1:
        return [zero if is_remainder else arith.andi(x, y)]
    if integer_constant(y) not in ((None, 0, -1) if is_signed else (None, 0)):
        return None
    is_zero, one = compare("eq", y, zero), literal(x.type, 1)
    if not is_signed:
        return [arith.select(is_zero, zero, builder(x, arith.select(is_zero, one, y)))]
    is_minus_one = compare("eq", y, literal(x.type, -1))
    quotient = builder(x, arith.select(arith.ori(is_zero, is_minus_one), one, y))
    return [arith.select(is_zero, zero, arith.select(is_minus_one, zero if is_remainder else _negated(x), quotient))]


@total("arith.shli", "arith.shrui", "arith.shrsi")
def _shift(operation: ir.Operation) -> Sequence[ir.Value] | None:
    x, amount = operation.operands
    width, builder = width_of(x.type), getattr(arith, operation.name.removeprefix("arith."))
    constant_amount = integer_constant(amount)
    if constant_amount is not None and 0 <= constant_amount < width:
        return None
    is_in_range = (
        compare("ult", amount, literal(x.type, width)) if width > 1 else compare("eq", amount, literal(x.type, 0))
    )
    most = literal(x.type, width - 1)
    shifted = builder(x, arith.select(is_in_range, amount, most))
    return [shifted if operation.name == "arith.shrsi" else arith.select(is_in_range, shifted, literal(x.type, 0))]


@total("math.absi")
def _absolute(operation: ir.Operation) -> Sequence[ir.Value]:
    [x] = operation.operands
    return [arith.select(compare("slt", x, literal(x.type, 0)), _negated(x), x)]


@total("math.ipowi")
def _power(operation: ir.Operation) -> Sequence[ir.Value]:
    base, exponent = operation.operands
    zero = literal(base.type, 0)
    divides = arith.andi(compare("eq", base, zero), compare("slt", exponent, zero))
    # 2 to a negative power is 0, too, and divides by nothing.
    return [math.ipowi(arith.select(divides, literal(base.type, 2), base), exponent)]


@total("math.ctpop")
def _ones(operation: ir.Operation) -> Sequence[ir.Value]:
    return [_count_ones(operation.operands[0])]


def _count_ones(x: ir.Value) -> ir.Value:
    width = width_of(x.type)
    if width % 8:
        wide = ir.IntegerType.get_signless(8 * (width // 8 + 1))
        return arith.trunci(x.type, _count_ones(arith.extui(wide, x)))

    def pattern(byte: int) -> ir.Value:
        return literal(x.type, int.from_bytes([byte] * (width // 8), "little"))

    def shifted(value: ir.Value, by: int) -> ir.Value:
        return arith.shrui(value, literal(x.type, by))

    x = arith.subi(x, arith.andi(shifted(x, 1), pattern(0x55)))
    x = arith.addi(arith.andi(x, pattern(0x33)), arith.andi(shifted(x, 2), pattern(0x33)))
    x = arith.andi(arith.addi(x, shifted(x, 4)), pattern(0x0F))
    return x if width == 8 else shifted(arith.muli(x, pattern(1)), width - 8)


@total("math.cttz")
def _trailing_zeros(operation: ir.Operation) -> Sequence[ir.Value]:
    [x] = operation.operands
    below_lowest = arith.andi(arith.xori(x, literal(x.type, -1)), arith.subi(x, literal(x.type, 1)))
    return [_count_ones(below_lowest)]


@total("math.ctlz")
def _leading_zeros(operation: ir.Operation) -> Sequence[ir.Value]:
    [x] = operation.operands
    width, distance = width_of(x.type), 1
    while distance < width:
        x = arith.ori(x, arith.shrui(x, literal(x.type, distance)))
        distance *= 2
    return [_count_ones(arith.xori(x, literal(x.type, -1)))]


@total("arith.addui_extended")
def _sum_with_carry(operation: ir.Operation) -> Sequence[ir.Value]:
    x, y = operation.operands
    result = arith.addi(x, y)
    return [result, compare("ult", result, x)]


@total("arith.subui_extended")
def _difference_with_borrow(operation: ir.Operation) -> Sequence[ir.Value]:
    x, y = operation.operands
    return [arith.subi(x, y), compare("ult", x, y)]


@total("arith.mului_extended", "arith.mulsi_extended")
def _wide_product(operation: ir.Operation) -> Sequence[ir.Value]:
    x, y = operation.operands
    is_signed, width = operation.name == "arith.mulsi_extended", width_of(x.type)
    if width > 32:
        high = _unsigned_high_half(x, y)
        return [arith.muli(x, y), _as_signed(high, x, y) if is_signed else high]
    wide = ir.IntegerType.get_signless(2 * width)
    extend = arith.extsi if is_signed else arith.extui
    product = arith.muli(extend(wide, x), extend(wide, y))
    return [arith.trunci(x.type, product), arith.trunci(x.type, arith.shrui(product, literal(wide, width)))]


def _unsigned_high_half(x: ir.Value, y: ir.Value) -> ir.Value:
    """Return the high half by long multiplication of halves, none of whose sums overflows."""
    half = literal(x.type, width_of(x.type) // 2)
    low_bits = arith.shrui(literal(x.type, -1), half)
    x_low, y_low = arith.andi(x, low_bits), arith.andi(y, low_bits)
    x_high, y_high = arith.shrui(x, half), arith.shrui(y, half)
    middle = arith.addi(arith.muli(x_high, y_low), arith.shrui(arith.muli(x_low, y_low), half))
    other = arith.addi(arith.muli(x_low, y_high), arith.andi(middle, low_bits))
    return arith.addi(arith.addi(arith.muli(x_high, y_high), arith.shrui(middle, half)), arith.shrui(other, half))


def _as_signed(high: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return the high half of the signed product: subtract the other factor for each negative one."""
    zero = literal(x.type, 0)
    for factor, other in ((x, y), (y, x)):
        high = arith.subi(high, arith.select(compare("slt", factor, zero), other, zero))
    return high
