"""Quotients and remainders of floats that torch rounds, or signs, in another way than Python."""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.builder import TriBuilder, TriValue


def floor_of_halves(tri: TriBuilder, x: TriValue, y: TriValue, half: DType) -> TriValue:
    """Return ``(x - fmod(x, y)) / y`` rounded down, with each step rounded to `half`; x and y are float32."""
    zero, one = tri.constant(0, x.type.dtype), tri.constant(1, x.type.dtype)

    def stored(value: TriValue) -> TriValue:
        return tri.cast(tri.cast(value, half), x.type.dtype)

    remainder, quotient = tri.fmod(x, y), tri.divide(x, y)
    exact = stored(tri.divide(stored(tri.subtract(x, remainder)), y))
    signs_differ = tri.not_equal(tri.less(y, zero), tri.less(remainder, zero))
    is_above = tri.logical_and(tri.not_equal(remainder, zero), signs_differ)
    exact = tri.where(is_above, stored(tri.subtract(exact, one)), exact)
    down = tri.floor(exact)
    is_low = tri.less(tri.constant(0.5, x.type.dtype), stored(tri.subtract(exact, down)))
    down = tri.where(is_low, stored(tri.add(down, one)), down)
    down = tri.where(tri.equal(exact, zero), tri.copysign(exact, quotient), down)
    return tri.cast(tri.where(tri.equal(y, zero), quotient, down), half)


def torch_remainder(tri: TriBuilder, x: TriValue, y: TriValue) -> TriValue:
    """Return torch's ``%`` of floats, which has the sign of the divisor, but of the dividend where it is 0."""
    zero, rest = tri.constant(0, x.type.dtype), tri.fmod(x, y)
    signs_differ = tri.not_equal(tri.less(y, zero), tri.less(rest, zero))
    return tri.where(tri.logical_and(tri.not_equal(rest, zero), signs_differ), tri.add(rest, y), rest)
