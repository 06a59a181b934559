"""Rules for floats: conversions to integers defined for all operands, rounding modes, and rarer functions.

A conversion that the integer type cannot represent returns what x86, NumPy and torch return
(`dialect/scalar/algebra.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.base.dtypes import DTYPES, find_dtype
from mlirtri.dialect.bindings.mlir import arith, ir, math
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.lowering.importers.normalize.arithmetic.total_arithmetic import compare, literal, total
from mlirtri.lowering.mlir_common.narrow_floats import to_odd_float32
from mlirtri.lowering.mlir_common.reading import defined_by, is_block_argument, scalar_constant, width_of


@total("arith.fptosi", "arith.fptoui")
def _to_integer(operation: ir.Operation) -> Sequence[ir.Value] | None:
    [x], kind = operation.operands, operation.results[0].type
    source, width = find_dtype(str(x.type)), width_of(kind)
    if source is None or width > 64:
        return None
    sign = "u" if operation.name == "arith.fptoui" else ""
    least = next(bits for bits in (32, 64) if width <= bits) if width not in (8, 16) else width
    converted = scalar.cast(scalar.Scalar(x, source), DTYPES[f"{sign}int{least}"]).value
    if width == 1:
        # Truncate before the comparison: 0.5 is 0.
        return [compare("ne", converted, literal(converted.type, 0))]
    return [converted if width == least else arith.trunci(kind, converted)]


# The enum values of `arith.roundingmode`.
_DOWN, _UP, _TO_ZERO, _AWAY = 1, 2, 3, 4


@total("arith.truncf")
def _rounded(operation: ir.Operation) -> Sequence[ir.Value] | None:
    """Round to nearest, ties to even, without double rounding; other modes correct that result by one ulp."""
    [x], kind = operation.operands, operation.results[0].type
    mode = operation.attributes["roundingmode"] if "roundingmode" in operation.attributes else None
    if mode is None or mode.value == 0:
        return [_nearest(kind, x)] if isinstance(x.type, ir.F64Type) and width_of(kind) == 16 else None
    nearest = _nearest(kind, x)
    back = arith.extf(x.type, nearest)
    too_low, too_high = compare("OLT", back, x), compare("OGT", back, x)
    if mode.value == _AWAY:
        return [_ties_away(x, nearest, back)]
    is_negative = compare("OLT", x, literal(x.type, 0.0))
    up = {_UP: too_low, _TO_ZERO: arith.andi(is_negative, too_low)}.get(mode.value)
    down = {_DOWN: too_high, _TO_ZERO: arith.andi(arith.xori(is_negative, literal(is_negative.type, 1)), too_high)}
    result = nearest
    if up is not None:
        result = arith.select(up, _next(nearest, 1), result)
    if (lower := down.get(mode.value)) is not None:
        result = arith.select(lower, _next(nearest, -1), result)
    return [result]


def _nearest(type_: ir.Type, x: ir.Value) -> ir.Value:
    if isinstance(x.type, ir.F64Type) and width_of(type_) == 16:
        x = to_odd_float32(x)
    return arith.truncf(type_, x)


def _ties_away(x: ir.Value, nearest: ir.Value, back: ir.Value) -> ir.Value:
    smaller = compare("OLT", math.absf(back), math.absf(x))
    neighbour = _away_from_zero(nearest)
    far = arith.subf(arith.extf(x.type, neighbour), x)
    is_tie = compare("OEQ", math.absf(far), math.absf(arith.subf(x, back)))
    return arith.select(arith.andi(smaller, is_tie), neighbour, nearest)


def _away_from_zero(x: ir.Value) -> ir.Value:
    bits = ir.IntegerType.get_signless(width_of(x.type))
    return arith.bitcast(x.type, arith.addi(arith.bitcast(bits, x), literal(bits, 1)))


def _next(x: ir.Value, direction: int) -> ir.Value:
    """Return the float next to `x`, up (1) or down (-1): floats are ordered like their bits as sign and magnitude."""
    kind = ir.IntegerType.get_signless(width_of(x.type))
    bits, zero = arith.bitcast(kind, x), literal(kind, 0)
    is_negative = compare("slt", bits, zero)
    one, minus_one = literal(kind, direction), literal(kind, -direction)
    moved = arith.addi(bits, arith.select(is_negative, minus_one, one))
    # Next to either zero is the smallest number of that sign.
    smallest = literal(kind, 1 if direction == 1 else (1 << (width_of(kind) - 1)) | 1)
    is_zero = compare("OEQ", x, literal(x.type, 0.0))
    return arith.bitcast(x.type, arith.select(is_zero, smallest, moved))


@total("arith.convertf")
def _between_halves(operation: ir.Operation) -> Sequence[ir.Value]:
    """Convert fp16 to bf16 and back through fp32, which holds both."""
    [x], wide = operation.operands, ir.F32Type.get()
    return [arith.truncf(operation.results[0].type, arith.extf(wide, x))]


@total("math.fma")
def _fused_sum(operation: ir.Operation) -> Sequence[ir.Value] | None:
    """Compute fp16 and bf16 in fp32, which holds their products; LLVM's own lowering flushes denormal bf16."""
    kind, wide = operation.results[0].type, ir.F32Type.get()
    if width_of(kind) != 16:
        return None
    return [arith.truncf(kind, math.fma(*(arith.extf(wide, operand) for operand in operation.operands)))]


@total("math.copysign")
def _copied_sign(operation: ir.Operation) -> Sequence[ir.Value]:
    x, y = operation.operands
    size, bits = math.absf(x), ir.IntegerType.get_signless(width_of(y.type))
    is_negative = compare("slt", arith.bitcast(bits, y), literal(bits, 0))
    return [arith.select(is_negative, arith.negf(size), size)]


@total("arith.maximumf", "arith.minimumf")
def _extreme(operation: ir.Operation) -> Sequence[ir.Value] | None:
    """Order 0.0 above -0.0, which compare equal. Accumulators keep the form that schedules match."""
    x, y = operation.operands
    if any(defined_by(operand, "arith.constant") or _is_accumulator(operand) for operand in (x, y)):
        return None
    return [(_largest if operation.name == "arith.maximumf" else _smallest)(x, y)]


def _is_accumulator(value: ir.Value) -> bool:
    if not is_block_argument(value):
        return False
    generic = value.owner.owner.operation
    return generic.name == "linalg.generic" and value.arg_number >= len(generic.operands) - len(generic.results)


def _largest(x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.select(compare("OEQ", x, y), _combined_bits(arith.andi, x, y), arith.maximumf(x, y))


def _smallest(x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.select(compare("OEQ", x, y), _combined_bits(arith.ori, x, y), arith.minimumf(x, y))


def _combined_bits(combine: Callable[[ir.Value, ir.Value], ir.Value], x: ir.Value, y: ir.Value) -> ir.Value:
    """Combine the bits of two equal floats, which differ in the sign of zero at most."""
    bits = ir.IntegerType.get_signless(width_of(x.type))
    return arith.bitcast(x.type, combine(arith.bitcast(bits, x), arith.bitcast(bits, y)))


@total("math.clampf")
def _clamped(operation: ir.Operation) -> Sequence[ir.Value]:
    x, low, high = operation.operands
    return [_smallest(_largest(x, low), high)]


@total("math.sincos")
def _sine_and_cosine(operation: ir.Operation) -> Sequence[ir.Value]:
    [x] = operation.operands
    return [math.sin(x), math.cos(x)]


@total("math.isnan")
def _is_nan(operation: ir.Operation) -> Sequence[ir.Value]:
    [x] = operation.operands
    return [compare("UNO", x, x)]


@total("math.isinf")
def _is_infinite(operation: ir.Operation) -> Sequence[ir.Value]:
    [x] = operation.operands
    return [compare("OEQ", math.absf(x), literal(x.type, float("inf")))]


@total("math.isfinite")
def _is_finite(operation: ir.Operation) -> Sequence[ir.Value]:
    [x] = operation.operands
    return [compare("OLT", math.absf(x), literal(x.type, float("inf")))]


_SMALLEST_EXPONENT = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}


@total("math.isnormal")
def _is_normal(operation: ir.Operation) -> Sequence[ir.Value] | None:
    [x] = operation.operands
    if str(x.type) not in _SMALLEST_EXPONENT:
        return None
    size, least = math.absf(x), literal(x.type, 2.0 ** _SMALLEST_EXPONENT[str(x.type)])
    return [arith.andi(compare("OGE", size, least), compare("OLT", size, literal(x.type, float("inf"))))]


@total("math.powf")
def _plain_power(operation: ir.Operation) -> Sequence[ir.Value] | None:
    """Lower powers of 1, 2 and -1 to arithmetic that is rounded once, as C's function is."""
    x, exponent = operation.operands
    constant = defined_by(exponent, "arith.constant")
    if constant is None:
        return None
    power = scalar_constant(constant.attributes["value"])
    if power == 2.0:
        return [arith.mulf(x, x)]
    if power == -1.0:
        return [arith.divf(literal(x.type, 1.0), x)]
    return [x] if power == 1.0 else None


@total("math.fpowi")
def _integer_power(operation: ir.Operation) -> Sequence[ir.Value]:
    """Compute the power of the magnitude in fp64 and give it the sign: no odd exponent is rounded to an even one."""
    x, exponent = operation.operands
    wide, size = ir.F64Type.get(), math.absf(x)
    size = size if x.type == wide else arith.extf(wide, size)
    power = math.powf(size, arith.sitofp(wide, exponent))
    power = power if x.type == wide else arith.truncf(x.type, power)
    bits = ir.IntegerType.get_signless(width_of(x.type))
    is_negative = compare("slt", arith.bitcast(bits, x), literal(bits, 0))
    one = literal(exponent.type, 1)
    is_odd = compare("eq", arith.andi(exponent, one), one)
    return [arith.select(arith.andi(is_odd, is_negative), arith.negf(power), power)]
