"""Sine, cosine and tangent by range reduction modulo pi / 2 and polynomials.

For vectors they are registered in the table of `functions`, which passes some operands to the C library. For one fp32
number (`mlir_backend.llvm.elementary.Scalars`) that would be a branch, which LLVM does not vectorise: here they, and
powers, are branch-free for any operand. The only MLIR operation is the load from a table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from mlirtri.lowering.elementary.functions import FUNCTIONS, HALF_PI, TWO_OVER_PI, Expr, Lanes, function

_SIN = {
    "float32": (-0.1666666716337204, 0.008333330042660236, -0.00019839480228256434, 2.7194739686819958e-06),
    "float64": (
        -0.16666666666666666, 0.008333333333333328, -0.0001984126984125938, 2.755731921613194e-06,
        -2.5052105360956075e-08, 1.6058418363005726e-10, -7.581045494945307e-13,
    ),
}  # fmt: skip
"""sin r = r + r**3 S(r**2) for |r| <= pi / 4."""
_COS = {
    "float32": (0.0416666679084301, -0.0013888885732740164, 2.4800019673421048e-05, -2.72464717454568e-07),
    "float64": (
        0.041666666666666664, -0.0013888888888888885, 2.4801587301580708e-05, -2.7557319219087624e-07,
        2.087675515050489e-09, -1.1470376944557137e-11, 4.741667624505616e-14,
    ),
}  # fmt: skip
"""cos r = 1 - r**2 / 2 + r**4 C(r**2)."""
_FARTHEST = {"float32": 2.0**26, "float64": 2.0**20}


def quarters_of(c: Lanes, wide: Lanes, x: Expr) -> tuple[Expr, Expr]:
    """Return n, and r in fp64, with x = n pi / 2 + r for an fp32 x."""
    y = c.named(wide.converted(x))
    n = c.named(wide.floor(wide.fma(y, wide.number(TWO_OVER_PI), wide.number(0.5))))
    minus = c.named(wide.product(n, wide.number(-1.0)))
    r = wide.fma(minus, wide.number(HALF_PI[1]), wide.fma(minus, wide.number(HALF_PI[0]), y))
    return c.named(c.integer_of(n)), r


def _quarters32(c: Lanes, x: Expr) -> tuple[Expr, Expr, Expr]:
    n, r = quarters_of(c, c.of_width("float64"), x)
    return n, c.named(c.converted(r)), c.number(0.0)


def _quarters64(c: Lanes, x: Expr) -> tuple[Expr, Expr, Expr]:
    n = c.named(c.floor(c.fma(x, c.number(TWO_OVER_PI), c.number(0.5))))
    minus = c.named(c.product(n, c.number(-1.0)))
    first = c.named(c.fma(minus, c.number(HALF_PI[0]), x))
    second = c.named(c.product(minus, c.number(HALF_PI[1])))
    r = c.named(c.sum(first, second))
    # Both are exact, even under cancellation: `first` is a multiple of the last place of `second`.
    rounded = c.difference(second, c.difference(r, first))
    below = c.fma(minus, c.number(HALF_PI[1]), c.product(second, c.number(-1.0)))
    return c.named(c.integer_of(n)), r, c.named(c.fma(minus, c.number(HALF_PI[2]), c.sum(rounded, below)))


def circular_polynomials(c: Lanes, r: Expr) -> tuple[Expr, Expr]:
    """Return sin r and cos r for |r| <= pi / 4, without correction of the last digit."""
    r = c.named(r)
    z = c.named(c.product(r, r))
    sine = c.named(c.fma(c.product(r, z), c.polynomial(z, _SIN[c.dtype]), r))
    quartic = c.product(c.product(z, z), c.polynomial(z, _COS[c.dtype]))
    return sine, c.named(c.sum(c.fma(z, c.number(-0.5), c.number(1.0)), quartic))


def sine_and_cosine(c: Lanes, x: Expr) -> tuple[Expr, Expr, Expr]:
    """Return n, sin r and cos r with x = n pi / 2 + r, for x that is not too large."""
    n, r, lost = (_quarters32 if c.dtype == "float32" else _quarters64)(c, x)
    z = c.named(c.product(r, r))
    sine = c.sum(r, c.fma(c.product(r, z), c.polynomial(z, _SIN[c.dtype]), lost))
    half = c.named(c.product(z, c.number(0.5)))
    near_one = c.named(c.difference(c.number(1.0), half))
    missing = c.difference(c.difference(c.number(1.0), near_one), half)
    quartic = c.fma(c.product(z, z), c.polynomial(z, _COS[c.dtype]), c.product(c.product(r, lost), c.number(-1.0)))
    return n, sine, c.sum(near_one, c.sum(missing, quartic))


def _circular(c: Lanes, x: Expr, quarters: int) -> Expr:
    n, sine, cosine = sine_and_cosine(c, x)
    quarter = c.named(c.plus(n, c.integral(quarters)))
    is_odd = c.has_bit(quarter, 0)
    is_lower = c.has_bit(quarter, 1)
    value = c.named(c.select(is_odd, cosine, sine))
    return c.select(is_lower, c.product(value, c.number(-1.0)), value)


def is_near(c: Lanes, x: Expr) -> Expr:
    return c.less(c.magnitude(x), c.number(_FARTHEST[c.dtype]))


@function("sin", "float32", "float64", asks_library=True)
def _sin(c: Lanes, x: Expr) -> Expr:
    near = c.named(c.select(c.equal(x, c.number(0.0)), x, _circular(c, x, 0)))
    return c.where_all(is_near(c, x), near, "sin", x)


@function("cos", "float32", "float64", asks_library=True)
def _cos(c: Lanes, x: Expr) -> Expr:
    near = c.named(_circular(c, x, 1))
    return c.where_all(is_near(c, x), near, "cos", x)


_TWO_OVER_PI_BITS = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A
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
        value = (_TWO_OVER_PI_BITS << (exponent - LOWEST)) % (4 << fraction_bits)
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


def _scalar_circular(c: Any, x: Any, shift: int) -> Any:
    n, sine, cosine = _angle(c, x)
    w, quarter = c.of_width("float64"), c.plus(n, c.integral(shift))
    value = w.select(c.has_bit(quarter, 0), cosine, sine)
    return c.converted(w.select(c.has_bit(quarter, 1), w.product(value, w.number(-1.0)), value))


def sine(c: Any, x: Any) -> Any:
    return c.select(c.equal(x, c.number(0.0)), x, _scalar_circular(c, x, 0))


def cosine(c: Any, x: Any) -> Any:
    return _scalar_circular(c, x, 1)


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
