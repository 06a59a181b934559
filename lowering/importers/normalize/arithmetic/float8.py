"""Build conversions between 8-bit floats and fp32 or fp64 from integer arithmetic: no target has instructions for them.

An 8-bit float is the i8 of its bits. Narrowing rounds to nearest, ties to even; values that are too large become the
infinity of a format that has one, else NaN, as in torch and ml_dtypes.

Source of the formats: OCP 8-bit Floating Point Specification (OFP8), revision 1.0, 2023; of those without a negative
zero (FNUZ): B. Noune et al., "8-bit Numerical Formats for Deep Neural Networks", 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import arith, ir


@dataclass(frozen=True)
class Format:
    """An 8-bit float format: a sign bit, an exponent and a mantissa."""

    mantissa: int
    """The width of the mantissa in bits."""
    bias: int
    infinity: int | None = None
    """The bits of the positive infinity; larger ones are NaNs. None for a format without infinity."""
    nan: int = 0x7F
    """The bits of the NaN that conversions return."""
    has_negative_zero: bool = True
    """Without a negative zero, its bits are the only NaN."""

    @property
    def largest(self) -> int:
        """The bits of the largest finite value, or of infinity."""
        if self.infinity is not None:
            return self.infinity
        return 0x7E if self.has_negative_zero else 0x7F


FORMATS = {
    "f8E4M3FN": Format(3, 7),
    "f8E5M2": Format(2, 15, infinity=0x7C, nan=0x7E),
    "f8E4M3FNUZ": Format(3, 8, nan=0x80, has_negative_zero=False),
    "f8E5M2FNUZ": Format(2, 16, nan=0x80, has_negative_zero=False),
}
_FLOAT = {32: (23, 127), 64: (52, 1023)}
"""By width of a float: the width of its mantissa, and its bias."""


def widened(bits: ir.Value, source: Format) -> ir.Value:
    """Return the fp32 of an 8-bit float; exact."""
    b = _Bits(32)
    word = arith.extui(b.integer, bits)
    magnitude = arith.andi(word, b(0x7F))
    shifted = arith.shli(magnitude, b(23 - source.mantissa))
    normal = b.as_float(arith.addi(shifted, b((127 - source.bias) << 23)))
    digits = arith.uitofp(b.float, arith.andi(magnitude, b((1 << source.mantissa) - 1)))
    denormal = arith.mulf(digits, b.number(2.0 ** (1 - source.bias - source.mantissa)))
    value = arith.select(b.less(magnitude, 1 << source.mantissa), denormal, normal)
    if source.infinity is not None:
        special = b.as_float(arith.ori(shifted, b(0xFF << 23)))
        value = arith.select(b.less(magnitude, source.infinity), value, special)
    else:
        is_nan = b.equal(magnitude if source.has_negative_zero else word, source.nan)
        value = arith.select(is_nan, b.number(float("nan")), value)
    sign = arith.shli(arith.andi(word, b(0x80)), b(24))
    return b.as_float(arith.ori(arith.bitcast(b.integer, value), sign))


def narrowed(value: ir.Value, target: Format) -> ir.Value:
    """Return the bits of the 8-bit float nearest to an fp32 or fp64; denormal results are rounded once, too."""
    b = _Bits(ir.FloatType(value.type).width)
    digits, bias = _FLOAT[b.width]
    word = arith.bitcast(b.integer, value)
    magnitude = arith.andi(word, b((1 << (b.width - 1)) - 1))
    shift = digits - target.mantissa
    # Half of the last bit kept, less one where that bit is even: the carry rounds.
    is_odd = arith.andi(arith.shrui(magnitude, b(shift)), b(1))
    carried = arith.addi(arith.addi(magnitude, b((1 << (shift - 1)) - 1)), is_odd)
    normal = arith.subi(arith.shrui(carried, b(shift)), b((bias - target.bias) << target.mantissa))
    # The sum with a power of two whose last bit is the smallest denormal number: the addition rounds.
    anchor = b.number(2.0 ** (1 - target.bias - target.mantissa + digits))
    summed = arith.bitcast(b.integer, arith.addf(b.as_float(magnitude), anchor))
    denormal = arith.subi(summed, arith.bitcast(b.integer, anchor))
    code = arith.select(b.less(magnitude, (bias + 1 - target.bias) << digits), denormal, normal)
    too_large = target.infinity if target.infinity is not None else target.nan
    code = arith.select(b.less(code, target.largest + 1), code, b(too_large))
    is_nan = b.less(b(((1 << (b.width - 1 - digits)) - 1) << digits), magnitude)
    code = arith.select(is_nan, b(target.nan), code)
    sign = arith.andi(arith.shrui(word, b(b.width - 8)), b(0x80))
    signed = arith.ori(code, sign)
    if not target.has_negative_zero:
        signed = arith.select(b.equal(code, 0), code, signed)
    return arith.trunci(ir.IntegerType.get_signless(8), signed)


class _Bits:
    def __init__(self, width: int):
        self.width = width
        self.integer = ir.IntegerType.get_signless(width)
        self.float = ir.F32Type.get() if width == 32 else ir.F64Type.get()

    def __call__(self, value: int) -> ir.Value:
        return arith.constant(self.integer, value)

    def number(self, value: float) -> ir.Value:
        return arith.constant(self.float, value)

    def as_float(self, bits: ir.Value) -> ir.Value:
        return arith.bitcast(self.float, bits)

    def less(self, value: ir.Value, other: ir.Value | int) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.slt, value, self(other) if isinstance(other, int) else other)

    def equal(self, value: ir.Value, constant: int) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.eq, value, self(constant))
