"""Sine, cosine, tangent and powers of one fp32 number as branch-free arithmetic, for any operand.

Takes the operations on one number (`mlir_backend.llvm.elementary.Scalars`), which LLVM vectorises. `functions` passes
some operands to the C library, vector by vector; for a scalar that is a branch, which LLVM does not vectorise. Its only
MLIR operation is the load from a table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from mlirtri.lowering.elementary.circular import circular_polynomials
from mlirtri.lowering.elementary.functions import FUNCTIONS, HALF_PI

TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A
"""2 / pi times 2**288."""
_BITS = 288
LOWEST, HIGHEST = -149, 127
"""Exponents of fp32 numbers, denormals included."""
DIGITS = 23
"""Binary digits after the leading one."""


@lru_cache(maxsize=1)
def quarters() -> tuple[list[float], list[float]]:
    """Return, by the exponent of a number, its unit in the last place in units of pi / 2, modulo 4.

    The value is a sum of two doubles; its product with the 24-bit mantissa has 50 digits after the binary point. The
    last entry is for infinity and NaN.
    """
    high, low = [], []
    for exponent in range(LOWEST, HIGHEST + 1):
        # In units of 2**-fraction_bits, so that all are integers.
        fraction_bits = _BITS - LOWEST + DIGITS
        value = (TWO_OVER_PI << (exponent - LOWEST)) % (4 << fraction_bits)
        high.append(value / (1 << fraction_bits))
        numerator, denominator = high[-1].as_integer_ratio()
        low.append((value * denominator - (numerator << fraction_bits)) / (denominator << fraction_bits))
    return [*high, float("nan")], [*low, float("nan")]


def _angle(c: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return n, and sin r and cos r in doubles, with x = n pi / 2 + r."""
    w = c.of_width("float64")
    y = w.converted(x)
    entry = w.exponent_of(w.bits(w.magnitude(y)))
    entry = w.clamped(w.minus(entry, w.integral(1023 + LOWEST)), 0, HIGHEST - LOWEST + 1)
    digits = w.with_exponent(y, DIGITS)
    high, low = (w.table(name, entry) for name in ("high", "low"))
    n = w.floor(w.fma(digits, high, w.number(0.5)))
    part = w.sum(w.fma(digits, high, w.difference(w.number(0.0), n)), w.product(digits, low))
    sine, cosine = circular_polynomials(w, w.product(part, w.number(HALF_PI[0])))
    return c.integer_of(n), sine, cosine


def _circular(c: Any, x: Any, shift: int) -> Any:
    n, sine, cosine = _angle(c, x)
    w, quarter = c.of_width("float64"), c.plus(n, c.integral(shift))
    value = w.select(c.has_bit(quarter, 0), cosine, sine)
    return c.converted(w.select(c.has_bit(quarter, 1), w.product(value, w.number(-1.0)), value))


def sine(c: Any, x: Any) -> Any:
    return c.select(c.equal(x, c.number(0.0)), x, _circular(c, x, 0))


def cosine(c: Any, x: Any) -> Any:
    return _circular(c, x, 1)


def tangent(c: Any, x: Any) -> Any:
    n, sine, cosine = _angle(c, x)
    w = c.of_width("float64")
    is_odd = c.has_bit(n, 0)
    negative = w.product(cosine, w.number(-1.0))
    ratio = w.quotient(w.select(is_odd, negative, sine), w.select(is_odd, sine, cosine))
    return c.select(c.equal(x, c.number(0.0)), x, c.converted(ratio))


def power(c: Any, x: Any, y: Any) -> Any:
    """Return x**y as C defines it, zeros, infinities and NaN included: of |x|, with the sign of an odd power."""
    zero, one, infinity, nan = (c.number(number) for number in (0.0, 1.0, float("inf"), float("nan")))
    size, is_up = c.magnitude(x), c.greater(y, zero)
    value = FUNCTIONS["pow"].make(c, size, y)
    value = c.select(c.equal(size, zero), c.select(is_up, zero, infinity), value)
    value = c.select(c.equal(size, infinity), c.select(is_up, infinity, zero), value)
    grows = c.equal_booleans(c.greater(size, one), is_up)
    endless = c.select(c.equal(size, one), one, c.select(grows, infinity, zero))
    value = c.select(c.equal(c.magnitude(y), infinity), endless, value)
    half = c.product(y, c.number(0.5))
    is_whole = c.equal(c.floor(y), y)
    is_odd = c.both(is_whole, c.differ(c.floor(half), half))
    is_negative = c.less(c.with_sign(one, x), zero)
    value = c.select(c.both(is_negative, is_odd), c.product(value, c.number(-1.0)), value)
    has_root = c.either(is_whole, c.either(c.equal(size, zero), c.equal(size, infinity)))
    value = c.select(c.both(c.less(x, zero), c.negated(has_root)), nan, value)
    value = c.select(c.either(c.is_nan(x), c.is_nan(y)), nan, value)
    return c.select(c.either(c.equal(y, zero), c.equal(x, one)), one, value)


SCALAR_FUNCTIONS: dict[str, Callable[..., Any]] = {"sin": sine, "cos": cosine, "tan": tangent, "powf": power}
"""By the operation's name in MLIR's `math`."""
