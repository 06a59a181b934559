"""Scalar arithmetic, comparisons and casts, which the rules of the op table emit as `arith` and `math` operations.

No operation is undefined behaviour or poison for any value of its operands: no division traps, no conversion is
poison, minimum and maximum propagate NaN as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.bindings.mlir import arith, ir, math
from mlirtri.dialect.scalar import complex_parts

BOOL, INT32, INT64, FLOAT32 = DTYPES["bool"], DTYPES["int32"], DTYPES["int64"], DTYPES["float32"]


Builder = Any
"""A function from MLIR values to the value of an operation on them, or None."""


@dataclass(frozen=True)
class Scalar:
    """One element: an MLIR value of signless type, with the dtype that has its signedness."""

    value: Any
    dtype: DType


def constant(number: complex | float | int | bool, dtype: DType) -> Scalar:
    """Create a literal; integers wrap to the width of the dtype."""
    kind = ir.Type.parse(dtype.signless)
    if dtype.is_complex:
        return Scalar(complex_parts.constant(number.real, number.imag, kind), dtype)
    if isinstance(number, complex):
        raise TypeError(f"{number} is not a literal of {dtype}")
    if dtype.is_float:
        return Scalar(arith.constant(kind, ir.FloatAttr.get(kind, float(number))), dtype)
    return Scalar(arith.constant(kind, ir.IntegerAttr.get(kind, wrapped(int(number), dtype))), dtype)


def wrapped(number: int, dtype: DType) -> int:
    """Return `number` modulo 2**bits, as the signed integer that MLIR's attribute takes (i1 takes 0 and 1)."""
    number &= (1 << dtype.bits) - 1
    return number - (1 << dtype.bits) if dtype.bits > 1 and number >> (dtype.bits - 1) else number


def by_kind(
    x: Scalar, *, f: Builder = None, i: Builder = None, u: Builder = None, b: Builder = None, c: Builder = None
) -> Builder:
    """Return the builder for the kind of x: float, int, unsigned (else that of int), bool or complex; None for none."""
    return {"f": f, "v": f, "i": i, "u": u or i, "b": b, "c": c}[x.dtype.kind]


def _binary(**builders):
    def build(x: Scalar, y: Scalar) -> Scalar:
        return Scalar(by_kind(x, **builders)(x.value, y.value), x.dtype)

    return build


add = _binary(f=arith.addf, i=arith.addi, b=arith.ori, c=complex_parts.add)
subtract = _binary(f=arith.subf, i=arith.subi, c=complex_parts.subtract)
multiply = _binary(f=arith.mulf, i=arith.muli, b=arith.andi, c=complex_parts.multiply)
divide = _binary(f=arith.divf)
maximum = _binary(f=arith.maximumf, i=arith.maxsi, u=arith.maxui, b=arith.ori, c=complex_parts.extreme("ge"))
minimum = _binary(f=arith.minimumf, i=arith.minsi, u=arith.minui, b=arith.andi, c=complex_parts.extreme("le"))
least_number = _binary(f=arith.minnumf, i=arith.minsi, u=arith.minui, b=arith.andi)
greatest_number = _binary(f=arith.maxnumf, i=arith.maxsi, u=arith.maxui, b=arith.ori)
bit_and = _binary(i=arith.andi, b=arith.andi)
bit_or = _binary(i=arith.ori, b=arith.ori)
bit_xor = _binary(i=arith.xori, b=arith.xori)
atan2 = _binary(f=math.atan2)
_float_remainder = _binary(f=arith.remf)
_shift_left = _binary(i=arith.shli)
_shift_right = _binary(i=arith.shrsi, u=arith.shrui)
_floor_divide = _binary(i=arith.floordivsi, u=arith.divui)
_truncated_remainder = _binary(i=arith.remsi, u=arith.remui)
float_power = _binary(f=math.powf)


def unary(builder: Callable[[ir.Value], ir.Value]) -> Callable[[Scalar], Scalar]:
    """Return the rule for one `math` operation on floats."""
    return lambda x: Scalar(builder(x.value), x.dtype)


# Predicates of `arith`: ordered for floats except "ne", so that NaN compares as in IEEE 754.
_PREDICATES = {
    "eq": ("OEQ", "eq", "eq"), "ne": ("UNE", "ne", "ne"), "lt": ("OLT", "slt", "ult"),
    "le": ("OLE", "sle", "ule"), "gt": ("OGT", "sgt", "ugt"), "ge": ("OGE", "sge", "uge"),
}  # fmt: skip


def compare(predicate: str, x: Scalar, y: Scalar) -> Scalar:
    """Compare by ``eq ne lt le gt ge``; a comparison with NaN is false, and ``ne`` true."""
    if x.dtype.is_complex:
        return Scalar(complex_parts.compare(predicate, x.value, y.value), BOOL)
    of_floats, of_signed, of_unsigned = _PREDICATES[predicate]
    if x.dtype.is_float:
        return Scalar(arith.cmpf(getattr(arith.CmpFPredicate, of_floats), x.value, y.value), BOOL)
    of_integers = of_signed if x.dtype.kind == "i" else of_unsigned
    return Scalar(arith.cmpi(getattr(arith.CmpIPredicate, of_integers), x.value, y.value), BOOL)


def select(condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
    build = complex_parts.select if x.dtype.is_complex else arith.select
    return Scalar(build(condition.value, x.value, y.value), x.dtype)


def negate(x: Scalar) -> Scalar:
    if x.dtype.is_inexact:
        return Scalar((complex_parts.negate if x.dtype.is_complex else arith.negf)(x.value), x.dtype)
    return subtract(constant(0, x.dtype), x)


def logical_not(x: Scalar) -> Scalar:
    return bit_xor(x, constant(1, BOOL))


def bit_not(x: Scalar) -> Scalar:
    return bit_xor(x, constant(1 if x.dtype.is_bool else -1, x.dtype))


def absolute(x: Scalar) -> Scalar:
    """Return |x|; that of the smallest integer wraps to itself."""
    if x.dtype.is_float:
        return Scalar(math.absf(x.value), x.dtype)
    # |INT_MIN| wraps to INT_MIN in both libraries; math.absi calls that poison, so select instead.
    return x if x.dtype.kind in "ub" else select(compare("lt", x, constant(0, x.dtype)), negate(x), x)


def is_nan(x: Scalar) -> Scalar:
    if x.dtype.is_complex:
        return Scalar(complex_parts.is_nan(x.value), BOOL)
    return Scalar(arith.cmpf(arith.CmpFPredicate.UNO, x.value, x.value), BOOL)


def is_infinite(x: Scalar) -> Scalar:
    return compare("eq", absolute(x), constant(float("inf"), x.dtype))


def is_finite(x: Scalar) -> Scalar:
    return compare("lt", absolute(x), constant(float("inf"), x.dtype))


def sign(x: Scalar) -> Scalar:
    """Return -1, 0 or 1; NaN stays NaN."""
    zero, one = constant(0, x.dtype), constant(1, x.dtype)
    result = select(compare("gt", x, zero), one, zero)
    if x.dtype.kind != "u":
        result = select(compare("lt", x, zero), constant(-1, x.dtype), result)
    return select(is_nan(x), x, result) if x.dtype.is_float else result


def copy_sign(x: Scalar, y: Scalar) -> Scalar:
    """Return |x| with the sign of y; upstream does not lower `math.copysign` to LLVM."""
    size = absolute(x)
    return select(sign_bit(y), negate(size), size)


def floor_divide(x: Scalar, y: Scalar) -> Scalar:
    """Return Python's ``//``. Integers: x // 0 is 0 and INT_MIN // -1 wraps, as in NumPy."""
    if x.dtype.is_float:
        return _float_floor_divide(x, y)
    zero, one = constant(0, x.dtype), constant(1, x.dtype)
    by_zero = compare("eq", y, zero)
    if x.dtype.is_unsigned:
        return select(by_zero, zero, _floor_divide(x, select(by_zero, one, y)))
    by_minus_one = compare("eq", y, constant(-1, x.dtype))
    quotient = _floor_divide(x, select(bit_or(by_zero, by_minus_one), one, y))
    return select(by_zero, zero, select(by_minus_one, negate(x), quotient))


def _float_floor_divide(x: Scalar, y: Scalar) -> Scalar:
    """Return the quotient of Python's remainder, rounded to the nearest integer: PEP 238's float ``//``,
    computed as CPython's `float_divmod` documents it; x // 0 is x / 0."""
    zero, one = constant(0, x.dtype), constant(1, x.dtype)
    remainder_ = _float_remainder(x, y)
    quotient = divide(subtract(x, remainder_), y)
    signs_differ = bit_xor(compare("lt", y, zero), compare("lt", remainder_, zero))
    adjust = bit_and(compare("ne", remainder_, zero), signs_differ)
    quotient = select(adjust, subtract(quotient, one), quotient)
    down = Scalar(math.floor(quotient.value), x.dtype)
    too_low = compare("gt", subtract(quotient, down), constant(0.5, x.dtype))
    down = select(too_low, add(down, one), down)
    # No literals: TVM merges 0.0 and -0.0.
    size = absolute(quotient)
    signed_zero = select(sign_bit(divide(x, y)), negate(size), size)
    snapped = select(compare("eq", quotient, zero), signed_zero, down)
    return select(compare("eq", y, zero), divide(x, y), snapped)


def sign_bit(x: Scalar) -> Scalar:
    """Return whether the sign bit of a float is set."""
    bits = DTYPES[f"int{x.dtype.bits}"]
    return compare("lt", bitcast(x, bits), constant(0, bits))


def bitcast(x: Scalar, dtype: DType) -> Scalar:
    """Return the number of the same width that has the bits of x."""
    target = ir.Type.parse(dtype.signless)
    return Scalar(x.value if x.value.type == target else arith.bitcast(target, x.value), dtype)


def remainder(x: Scalar, y: Scalar) -> Scalar:
    """Return Python's ``%``: the sign is the divisor's. Integers: x % 0 is 0, as in NumPy."""
    zero = constant(0, x.dtype)
    if x.dtype.is_float:
        modulo = _float_remainder(x, y)
        adjust = bit_and(compare("ne", modulo, zero), bit_xor(compare("lt", y, zero), compare("lt", modulo, zero)))
        # IEEE: fmod keeps the dividend's sign on zero; Python gives zero the divisor's.
        size = absolute(modulo)
        signed_zero = select(compare("lt", y, zero), negate(size), size)
        modulo = select(compare("eq", modulo, zero), signed_zero, modulo)
        return select(adjust, add(modulo, y), modulo)
    one = constant(1, x.dtype)
    degenerate = compare("eq", y, zero)
    if x.dtype.is_unsigned:
        return select(degenerate, zero, _truncated_remainder(x, select(degenerate, one, y)))
    degenerate = bit_or(degenerate, compare("eq", y, constant(-1, x.dtype)))
    modulo = _truncated_remainder(x, select(degenerate, one, y))
    adjust = bit_and(compare("ne", modulo, zero), compare("lt", bit_xor(modulo, y), zero))
    return select(degenerate, zero, select(adjust, add(modulo, y), modulo))


def truncated_remainder(x: Scalar, y: Scalar) -> Scalar:
    """Return C's ``fmod`` or ``%``: the sign is the dividend's. Integers: x % 0 is 0, as in NumPy."""
    if x.dtype.is_float:
        return _float_remainder(x, y)
    zero, one = constant(0, x.dtype), constant(1, x.dtype)
    degenerate = compare("eq", y, zero)
    if not x.dtype.is_unsigned:
        degenerate = bit_or(degenerate, compare("eq", y, constant(-1, x.dtype)))
    return select(degenerate, zero, _truncated_remainder(x, select(degenerate, one, y)))


def left_shift(x: Scalar, y: Scalar) -> Scalar:
    """Shift left; shifts by the width or more, and negative ones, give 0, as in NumPy and torch."""
    in_range = _shift_in_range(y)
    amount = select(in_range, y, constant(0, y.dtype))
    return select(in_range, _shift_left(x, amount), constant(0, x.dtype))


def right_shift(x: Scalar, y: Scalar) -> Scalar:
    """Shift right; shifts by the width or more, and negative ones, leave the sign only, as in NumPy and torch."""
    last = constant(y.dtype.bits - 1, y.dtype)
    if x.dtype.is_unsigned:
        in_range = _shift_in_range(y)
        return select(in_range, _shift_right(x, select(in_range, y, last)), constant(0, x.dtype))
    return _shift_right(x, select(_shift_in_range(y), y, last))


def _shift_in_range(y: Scalar) -> Scalar:
    unsigned = Scalar(y.value, DTYPES[f"uint{y.dtype.bits}"])
    return compare("lt", unsigned, constant(y.dtype.bits, unsigned.dtype))


def power(x: Scalar, y: Scalar) -> Scalar:
    """Return x**y. Integers by repeated squaring, wrapping; a negative exponent gives 1/x truncated, as in torch."""
    if x.dtype.is_float:
        return float_power(x, y)
    zero, one = constant(0, x.dtype), constant(1, x.dtype)
    result, square, exponent = one, x, Scalar(y.value, DTYPES[f"uint{y.dtype.bits}"])
    for bit in range(x.dtype.bits):
        is_set = compare("ne", bit_and(exponent, constant(1 << bit, exponent.dtype)), constant(0, exponent.dtype))
        result = select(is_set, multiply(result, square), result)
        square = multiply(square, square)
    if x.dtype.is_unsigned:
        return result
    # For |x| > 1 the reciprocal truncates to 0; for 1 and -1 the wrapped power is already right.
    is_unit = bit_or(compare("eq", x, one), compare("eq", x, constant(-1, x.dtype)))
    return select(bit_and(compare("lt", y, zero), logical_not(is_unit)), zero, result)


def cast(x: Scalar, dtype: DType) -> Scalar:
    """Convert as C does where C defines it.

    Out-of-range and NaN floats become what x86 gives: the smallest 32 or 64-bit integer, cut to the width. A cast to
    bool is ``x != 0``; a complex value loses its imaginary part.
    """
    if x.dtype == dtype:
        return x
    if dtype.is_bool:
        return compare("ne", x, constant(0, x.dtype))
    if x.dtype.is_complex or dtype.is_complex:
        return _cast_complex(x, dtype)
    if x.dtype.is_float:
        return _float_to_float(x, dtype) if dtype.is_float else _float_to_integer(x, dtype)
    if dtype.is_float:
        return _integer_to_float(x, dtype)
    return _resize(x, dtype)


def _cast_complex(x: Scalar, dtype: DType) -> Scalar:
    real, imaginary = parts(x)
    if not dtype.is_complex:
        return cast(real, dtype)
    return create(cast(real, dtype.part), cast(imaginary, dtype.part))


def parts(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return the real and the imaginary part; the latter is 0 for a real dtype."""
    if not x.dtype.is_complex:
        return x, constant(0, x.dtype)
    real, imaginary = complex_parts.parts(x.value)
    return Scalar(real, x.dtype.part), Scalar(imaginary, x.dtype.part)


def create(real: Scalar, imaginary: Scalar) -> Scalar:
    """Create a complex value of two floats of one dtype, fp32 or fp64."""
    dtype = DTYPES[f"complex{2 * real.dtype.bits}"]
    return Scalar(complex_parts.create(real.value, imaginary.value), dtype)


def _float_to_float(x: Scalar, dtype: DType) -> Scalar:
    kind = ir.Type.parse(dtype.mlir)
    if dtype.bits > x.dtype.bits:
        return Scalar(arith.extf(kind, x.value), dtype)
    if x.dtype.bits == dtype.bits or (x.dtype.bits == 64 and dtype.is_half):
        # fp64 to half and half to half go through fp32, as in torch: there is no direct conversion.
        return _float_to_float(_float_to_float(x, FLOAT32), dtype)
    return Scalar(arith.truncf(kind, x.value), dtype)


def _integer_to_float(x: Scalar, dtype: DType) -> Scalar:
    if dtype.is_half:
        return _float_to_float(_integer_to_float(x, FLOAT32), dtype)
    convert = arith.sitofp if x.dtype.kind == "i" else arith.uitofp
    return Scalar(convert(ir.Type.parse(dtype.mlir), x.value), dtype)


def _float_to_integer(x: Scalar, dtype: DType) -> Scalar:
    if x.dtype.is_half:
        x = _float_to_float(x, FLOAT32)
    if dtype.name == "uint64":
        return _float_to_uint64(x)
    wide = INT64 if dtype.bits == 64 or dtype.name == "uint32" else INT32
    limit = float(2 ** (wide.bits - 1))
    in_range = bit_and(compare("ge", x, constant(-limit, x.dtype)), compare("lt", x, constant(limit, x.dtype)))
    safe = select(in_range, x, constant(0, x.dtype))
    number = Scalar(arith.fptosi(ir.Type.parse(wide.mlir), safe.value), wide)
    number = select(in_range, number, constant(-(1 << (wide.bits - 1)), wide))
    return _resize(number, dtype)


def _float_to_uint64(x: Scalar) -> Scalar:
    """Convert below 2**63 like int64, up to 2**64 by offset; all other values and NaN become 2**63."""
    half = constant(float(2**63), x.dtype)
    is_low = compare("lt", x, half)
    low = _float_to_integer(select(is_low, x, constant(0, x.dtype)), INT64)
    high = _float_to_integer(subtract(x, half), INT64)
    in_high = bit_and(compare("ge", x, half), compare("lt", x, constant(float(2**64), x.dtype)))
    top = constant(-(2**63), INT64)
    result = select(is_low, low, select(in_high, bit_xor(high, top), top))
    return Scalar(result.value, DTYPES["uint64"])


def _resize(x: Scalar, dtype: DType) -> Scalar:
    if x.dtype.bits == dtype.bits:
        return Scalar(x.value, dtype)
    kind = ir.Type.parse(dtype.signless)
    if dtype.bits < x.dtype.bits:
        return Scalar(arith.trunci(kind, x.value), dtype)
    extend = arith.extsi if x.dtype.kind == "i" else arith.extui
    return Scalar(extend(kind, x.value), dtype)
