"""Elementary functions of fp64 in fp64, within 3 units in the last place.

Rounding errors are carried as a second number where they matter. Importing it adds them to the table `FUNCTIONS`.
"""

from __future__ import annotations

from mlirtri.lowering.elementary.circular import is_near, sine_and_cosine
from mlirtri.lowering.elementary.functions import HALF_PI, LN2, Expr, Lanes, exponential, function, natural_logarithm
from mlirtri.lowering.elementary.wide import FUNCTIONS

__all__ = ["FUNCTIONS"]

_ATAN = (
    -0.33333333333333326, 0.19999999999997628, -0.1428571428538304, 0.11111111087886694, -0.09090908134624885,
    0.07692282546810861, -0.06666223788679977, 0.05876994132336995, -0.05218234450211186, 0.045028884020629725,
    -0.0334597012786778, 0.015180753543049175,
)  # fmt: skip
"""atan t = t + t**3 A(t**2) for |t| <= tan(pi / 8)."""
_ASIN = (
    0.1666666666666676, 0.07499999999970634, 0.044642857174777444, 0.030381942699465207, 0.02237221523207926,
    0.01735160745098874, 0.013980877211927777, 0.011398433115418353, 0.010783022104125123, 0.003695640243503946,
    0.02173437877529862, -0.02103818629239339, 0.03265371021890045,
)  # fmt: skip
"""asin t = t + t**3 A(t**2) for |t| <= 1 / 2."""
_SINH = (
    0.16666666666666666, 0.008333333333333333, 0.000198412698412696, 2.7557319224116293e-06, 2.5052108346508655e-08,
    1.605905060130413e-10, 7.646482893096092e-13, 2.8482330754076513e-15,
)  # fmt: skip
"""sinh t = t + t**3 S(t**2) for |t| <= 1."""
_TAN_EIGHTH = 0.41421356237309503
_HUGE = 2.0**28
"""From here on asinh and acosh are log 2x."""


def _tail(c: Lanes, t: Expr, square: Expr, coefficients: tuple[float, ...]) -> Expr:
    return c.product(c.product(t, square), c.polynomial_by_pairs(square, coefficients))


def _infinity(c: Lanes) -> Expr:
    return c.number(float("inf"))


def _angle_of(c: Lanes, height: Expr, width: Expr) -> tuple[Expr, Expr]:
    # `greater`, not the negation of `less`: the smallest denormal times tan(pi / 8) is 0, and a height of 0 is small.
    is_large = c.greater(height, c.product(width, c.number(_TAN_EIGHTH)))
    above = c.select(is_large, c.difference(height, width), height)
    # In a buffer, as other values with large expressions: compiling `atan2` took 13 s otherwise.
    t = c.buffered(c.quotient(above, c.select(is_large, c.sum(height, width), width)))
    z = c.named(c.product(t, t))
    quarter, quarter_low = (c.select(is_large, c.number(part / 2), c.number(0.0)) for part in HALF_PI[:2])
    high = c.buffered(c.sum(quarter, t))
    # The rounding error of the sum, which is the part of t it lost, or all of t.
    lost = c.difference(t, c.difference(high, quarter))
    return high, c.buffered(c.sum(_tail(c, t, z, _ATAN), c.sum(lost, quarter_low)))


def _right_angles_minus(c: Lanes, quarters: int, high: Expr, low: Expr) -> tuple[Expr, Expr]:
    first, second = (c.number(quarters * part) for part in HALF_PI[:2])
    result = c.buffered(c.difference(first, high))
    lost = c.difference(c.difference(first, result), high)
    return result, c.buffered(c.sum(lost, c.difference(second, low)))


@function("atan", "float64")
def _atan(c: Lanes, x: Expr) -> Expr:
    size, one = c.named(c.magnitude(x)), c.number(1.0)
    is_large = c.greater(size, one)
    height, width = c.select(is_large, one, size), c.select(is_large, size, one)
    high, low = _angle_of(c, c.named(height), c.named(width))
    outer = _right_angles_minus(c, 1, high, low)
    return c.with_sign(c.select(is_large, c.sum(*outer), c.sum(high, low)), x)


@function("atan2", "float64")
def _atan2(c: Lanes, y: Expr, x: Expr) -> Expr:
    height, width = c.named(c.magnitude(y)), c.named(c.magnitude(x))
    is_steep = c.greater(height, width)
    least, most = c.buffered(c.select(is_steep, width, height)), c.buffered(c.select(is_steep, height, width))
    # Sums of huge numbers overflow, hence the scale; equal infinities have the quotient 1, two zeros the quotient 0.
    scale = c.select(c.greater(most, c.number(2.0**1000)), c.number(2.0**-60), c.number(1.0))
    are_infinite = c.equal(least, _infinity(c))
    top = c.buffered(c.select(are_infinite, c.number(1.0), c.product(least, scale)))
    bottom = c.select(c.equal(most, c.number(0.0)), c.number(1.0), c.product(most, scale))
    high, low = _angle_of(c, top, c.buffered(c.select(are_infinite, c.number(1.0), bottom)))
    complement = _right_angles_minus(c, 1, high, low)
    high, low = (c.buffered(c.select(is_steep, *pair)) for pair in zip(complement, (high, low), strict=True))
    is_left = c.less(c.with_sign(c.number(1.0), x), c.number(0.0))
    angle = c.select(is_left, c.sum(*_right_angles_minus(c, 2, high, low)), c.sum(high, low))
    return c.select(c.is_nan(x), x, c.select(c.is_nan(y), y, c.with_sign(angle, y)))


def _arcsine(c: Lanes, x: Expr) -> tuple[Expr, Expr, Expr]:
    """Return whether |x| is small, and s and q: asin |x| = s + q if so, else pi / 2 - 2 (s + q)."""
    size, half = c.named(c.magnitude(x)), c.number(0.5)
    is_small = c.less(size, half)
    halved = c.named(c.product(c.difference(c.number(1.0), size), half))
    z = c.named(c.select(is_small, c.product(size, size), halved))
    s = c.named(c.select(is_small, size, c.root(halved)))
    return is_small, s, c.named(_tail(c, s, z, _ASIN))


@function("asin", "float64")
def _asin(c: Lanes, x: Expr) -> Expr:
    is_small, s, q = _arcsine(c, x)
    two = c.number(2.0)
    outer = c.sum(*_right_angles_minus(c, 1, c.named(c.product(s, two)), c.product(q, two)))
    return c.with_sign(c.select(is_small, c.sum(s, q), outer), x)


@function("acos", "float64")
def _acos(c: Lanes, x: Expr) -> Expr:
    is_small, s, q = _arcsine(c, x)
    two = c.number(2.0)
    signed = c.sum(*_right_angles_minus(c, 1, c.with_sign(s, x), c.with_sign(q, x)))
    doubled = c.named(c.product(s, two)), c.named(c.product(q, two))
    is_left = c.less(x, c.number(0.0))
    return c.select(is_small, signed, c.select(is_left, c.sum(*_right_angles_minus(c, 2, *doubled)), c.sum(*doubled)))


@function("tan", "float64", asks_library=True)
def _tan(c: Lanes, x: Expr) -> Expr:
    n, sine, cosine = sine_and_cosine(c, x)
    is_odd = c.has_bit(n, 0)
    ratio = c.quotient(c.select(is_odd, c.product(cosine, c.number(-1.0)), sine), c.select(is_odd, sine, cosine))
    near = c.named(c.select(c.equal(x, c.number(0.0)), x, ratio))
    return c.where_all(is_near(c, x), near, "tan", x)


def _half_exponential(c: Lanes, x: Expr) -> Expr:
    """Return e**|x| / 2, which overflows where the hyperbolic functions do."""
    return c.named(exponential(c, c.named(c.between(c.magnitude(x), 0.0, 711.0)), less=1))


@function("sinh", "float64")
def _sinh(c: Lanes, x: Expr) -> Expr:
    half = _half_exponential(c, x)
    far = c.with_sign(c.difference(half, c.quotient(c.number(0.25), half)), x)
    near = c.sum(x, _tail(c, x, c.named(c.product(x, x)), _SINH))
    return c.select(c.either(c.is_nan(x), c.less(c.magnitude(x), c.number(1.0))), near, far)


@function("cosh", "float64")
def _cosh(c: Lanes, x: Expr) -> Expr:
    half = _half_exponential(c, x)
    return c.select(c.is_nan(x), x, c.sum(half, c.quotient(c.number(0.25), half)))


def _log1p(c: Lanes, u: Expr, is_huge: Expr, huge: Expr) -> Expr:
    """Return log(1 + u) for u >= 0, or log 2 + log of a huge number."""
    one = c.number(1.0)
    v = c.named(c.sum(u, one))
    lost = c.select(c.greater(u, one), c.difference(one, c.difference(v, u)), c.difference(u, c.difference(v, one)))
    correction = c.select(is_huge, c.number(LN2), c.quotient(lost, v))
    return c.sum(natural_logarithm(c, c.named(c.select(is_huge, huge, v))), correction)


@function("asinh", "float64")
def _asinh(c: Lanes, x: Expr) -> Expr:
    """log1p(|x| + x**2 / (1 + sqrt(1 + x**2)))."""
    size, one = c.named(c.magnitude(x)), c.number(1.0)
    square = c.named(c.product(size, size))
    more = c.quotient(square, c.sum(c.root(c.sum(square, one)), one))
    log = _log1p(c, c.named(c.sum(size, more)), c.greater(size, c.number(_HUGE)), size)
    # Zeros, infinities, NaN and the smallest numbers are returned unchanged.
    is_same = c.either(c.less(size, c.number(2.0**-28)), c.either(c.is_nan(x), c.equal(size, _infinity(c))))
    return c.select(is_same, x, c.with_sign(log, x))


@function("acosh", "float64")
def _acosh(c: Lanes, x: Expr) -> Expr:
    """log1p(t + sqrt(2 t + t**2)) with t = x - 1."""
    t = c.named(c.difference(x, c.number(1.0)))
    root = c.root(c.fma(t, t, c.product(t, c.number(2.0))))
    log = _log1p(c, c.named(c.sum(t, root)), c.greater(x, c.number(_HUGE)), x)
    in_domain = c.select(c.less(x, c.number(1.0)), c.number(float("nan")), log)
    return c.select(c.either(c.is_nan(x), c.equal(x, _infinity(c))), x, in_domain)


@function("atanh", "float64")
def _atanh(c: Lanes, x: Expr) -> Expr:
    """log1p(2 |x| / (1 - |x|)) / 2."""
    size, one = c.named(c.magnitude(x)), c.number(1.0)
    ratio = c.quotient(c.product(size, c.number(2.0)), c.difference(one, size))
    is_inside = c.less(size, one)
    log = _log1p(c, c.named(c.select(is_inside, ratio, one)), c.greater(size, one), one)
    beyond = c.select(c.equal(size, one), _infinity(c), c.number(float("nan")))
    result = c.with_sign(c.select(is_inside, c.product(log, c.number(0.5)), beyond), x)
    return c.select(c.either(c.less(size, c.number(2.0**-28)), c.is_nan(x)), x, result)


@function("cbrt", "float64")
def _cbrt(c: Lanes, x: Expr) -> Expr:
    """Return e**(log|x| / 3), refined by one Newton step."""
    size = c.named(c.magnitude(x))
    is_small = c.less(size, c.number(2.0**-800))
    y = c.named(c.select(is_small, c.product(size, c.number(2.0**300)), size))
    safe = c.named(c.between(y, 2.0**-800, 1.7976931348623157e308))
    guess = c.named(exponential(c, c.named(c.product(natural_logarithm(c, safe), c.number(1 / 3)))))
    square = c.named(c.product(guess, guess))
    minus = c.product(square, c.number(-1.0))
    missing = c.fma(square, guess, c.fma(c.fma(guess, guess, minus), guess, c.product(y, c.number(-1.0))))
    root = c.difference(guess, c.quotient(missing, c.product(square, c.number(3.0))))
    root = c.product(root, c.select(is_small, c.number(2.0**-100), c.number(1.0)))
    is_same = c.either(c.equal(x, c.number(0.0)), c.either(c.is_nan(x), c.equal(size, _infinity(c))))
    return c.select(is_same, x, c.with_sign(root, x))
