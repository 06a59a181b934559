"""Sine, cosine, tangent and powers of one fp32 number as arithmetic without branches, for any operand.

Takes the operations on one number (`mlir_lanes.Scalars`), of which LLVM makes vectors. `vector_functions` leaves some
operands of these to the C library, vector by vector; a number by itself has nobody to ask without a branch, which LLVM
would not make vectors of. Knows no MLIR but a table's load.
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
"""Exponents of fp32 numbers, the smallest ones' as well."""
DIGITS = 23
"""Behind the first one, in binary."""


@lru_cache(maxsize=1)
def quarters() -> tuple[list[float], list[float]]:
    """What 1 in the last place of a number is in quarters of a turn, without whole turns, by the number's exponent.

    Two doubles are the sum; its product with the number's digits, an integer of 24 bits, has 50 digits behind the
    point. The last one is for what is no number.
    """
    high, low = [], []
    for exponent in range(LOWEST, HIGHEST + 1):
        # In units of 2**-places, which makes all of them whole numbers.
        places = _BITS - LOWEST + DIGITS
        value = (TWO_OVER_PI << (exponent - LOWEST)) % (4 << places)
        high.append(value / (1 << places))
        numerator, denominator = high[-1].as_integer_ratio()
        low.append((value * denominator - (numerator << places)) / (denominator << places))
    return [*high, float("nan")], [*low, float("nan")]


def _angle(c: Any, x: Any) -> tuple[Any, Any, Any]:
    """x = n pi / 2 + r: n, and sine and cosine of r in doubles."""
    w = c.of_width("float64")
    y = w.converted(x)
    at = w.exponent_of(w.bits(w.magnitude(y)))
    at = w.clamped(w.minus(at, w.whole(1023 + LOWEST)), 0, HIGHEST - LOWEST + 1)
    digits = w.with_exponent(y, DIGITS)
    high, low = (w.table(name, at) for name in ("high", "low"))
    n = w.floor(w.fma(digits, high, w.number(0.5)))
    part = w.sum(w.fma(digits, high, w.difference(w.number(0.0), n)), w.product(digits, low))
    sine, cosine = circular_polynomials(w, w.product(part, w.number(HALF_PI[0])))
    return c.integer_of(n), sine, cosine


def _circular(c: Any, x: Any, turn: int) -> Any:
    n, sine, cosine = _angle(c, x)
    w, quarter = c.of_width("float64"), c.plus(n, c.whole(turn))
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
    """x**y as C has it: of |x|, with the sign of an odd power, and what zeros, infinities and NaN give."""
    zero, one, infinity, nan = (c.number(each) for each in (0.0, 1.0, float("inf"), float("nan")))
    size, is_up = c.magnitude(x), c.greater(y, zero)
    value = FUNCTIONS["pow"].make(c, size, y)
    value = c.select(c.equal(size, zero), c.select(is_up, zero, infinity), value)
    value = c.select(c.equal(size, infinity), c.select(is_up, infinity, zero), value)
    grows = c.equal_truths(c.greater(size, one), is_up)
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


WHOLE: dict[str, Callable[..., Any]] = {"sin": sine, "cos": cosine, "tan": tangent, "powf": power}
"""By the name that the operation has in MLIR's `math`."""
