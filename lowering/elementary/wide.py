"""Elementary functions of fp32 computed in fp64, so that nearly all the error is the final rounding.

Importing it adds tan, the inverse circular and the hyperbolic functions and cube roots to the table `FUNCTIONS`.
"""

from __future__ import annotations

from mlirtri.lowering.elementary.circular import circular_polynomials, is_near, quarters_of
from mlirtri.lowering.elementary.functions import (
    FUNCTIONS,
    HALF_PI,
    Expr,
    Lanes,
    exponential,
    function,
    natural_logarithm,
)

__all__ = ["FUNCTIONS"]

_ATAN = (
    -0.33333333300324525, 0.19999994764781723, -0.1428543844119043, 0.1110424194720348, -0.0899881285692324,
    0.06999363668066644, -0.0380570302185147,
)  # fmt: skip
"""atan t = t + t**3 A(t**2) for |t| <= tan(pi / 8), relative error 8e-13."""
_TAN_EIGHTH = 0.41421356237309503
_TINY = 1e-4
"""Below this a function with f(x) ~ x is x plus its cubic term, to twelve digits."""


def _positive_arctangent(w: Lanes, x: Expr) -> Expr:
    """Return atan of numbers from 0 to 1: pi / 4 + atan((x - 1) / (x + 1)) where x is not small."""
    one = w.number(1.0)
    is_small = w.less(x, w.number(_TAN_EIGHTH))
    reduced = w.quotient(w.difference(x, one), w.sum(x, one))
    t = w.named(w.select(is_small, x, reduced))
    z = w.named(w.product(t, t))
    series = w.named(w.fma(w.product(t, z), w.polynomial(z, _ATAN), t))
    return w.select(is_small, series, w.sum(series, w.number(HALF_PI[0] / 2)))


def _arctangent(w: Lanes, x: Expr) -> Expr:
    size = w.named(w.magnitude(x))
    one = w.number(1.0)
    is_large = w.greater(size, one)
    angle = w.named(_positive_arctangent(w, w.named(w.select(is_large, w.quotient(one, size), size))))
    return w.with_sign(w.select(is_large, w.difference(w.number(HALF_PI[0]), angle), angle), x)


def _from_wide(c: Lanes, x: Expr, result: Expr) -> Expr:
    """Return the result in fp32; NaN and zeros are returned unchanged."""
    is_same = c.either(c.is_nan(x), c.equal(x, c.number(0.0)))
    return c.select(is_same, x, c.converted(result))


@function("atan", "float32")
def _atan(c: Lanes, x: Expr) -> Expr:
    w = c.of_width("float64")
    return _from_wide(c, x, _arctangent(w, w.named(w.converted(x))))


@function("atan2", "float32")
def _atan2(c: Lanes, y: Expr, x: Expr) -> Expr:
    """Return atan(|y| / |x|), or its complement, in the quadrant of the signs; equal infinities count as equal."""
    w = c.of_width("float64")
    v, u = w.named(w.converted(y)), w.named(w.converted(x))
    height, width = w.named(w.magnitude(v)), w.named(w.magnitude(u))
    is_steep = w.greater(height, width)
    least, most = w.named(w.select(is_steep, width, height)), w.named(w.select(is_steep, height, width))
    ratio = w.quotient(least, w.select(w.equal(most, w.number(0.0)), w.number(1.0), most))
    ratio = w.buffered(w.select(w.equal(least, w.number(float("inf"))), w.number(1.0), ratio))
    acute = w.named(_positive_arctangent(w, ratio))
    upright = w.named(w.select(is_steep, w.difference(w.number(HALF_PI[0]), acute), acute))
    is_left = w.less(w.with_sign(w.number(1.0), u), w.number(0.0))
    angle = w.select(is_left, w.difference(w.number(2 * HALF_PI[0]), upright), upright)
    result = c.converted(w.with_sign(angle, v))
    return c.select(c.is_nan(x), x, c.select(c.is_nan(y), y, result))


def _beyond(w: Lanes, size: Expr, result: Expr) -> Expr:
    return w.select(w.greater(size, w.number(1.0)), w.number(float("nan")), result)


@function("asin", "float32")
def _asin(c: Lanes, x: Expr) -> Expr:
    """atan(x / sqrt((1 - x) (1 + x)))."""
    w = c.of_width("float64")
    y, one = w.named(w.converted(x)), w.number(1.0)
    other = w.root(w.product(w.difference(one, y), w.sum(one, y)))
    angle = _arctangent(w, w.named(w.quotient(y, other)))
    return _from_wide(c, x, _beyond(w, w.magnitude(y), angle))


@function("acos", "float32")
def _acos(c: Lanes, x: Expr) -> Expr:
    """2 atan(sqrt((1 - x) / (1 + x)))."""
    w = c.of_width("float64")
    y, one = w.named(w.converted(x)), w.number(1.0)
    half = w.root(w.quotient(w.difference(one, y), w.sum(one, y)))
    angle = w.product(_arctangent(w, w.named(half)), w.number(2.0))
    return c.select(c.is_nan(x), x, c.converted(_beyond(w, w.magnitude(y), angle)))


def _odd(w: Lanes, x: Expr, cubic: float, elsewhere: Expr) -> Expr:
    """Return an odd function: x + cubic x**3 where x is small, else `elsewhere`, which is for |x|."""
    near = w.fma(w.product(x, w.product(x, x)), w.number(cubic), x)
    return w.select(w.less(w.magnitude(x), w.number(_TINY)), near, w.with_sign(elsewhere, x))


def _exponentials(w: Lanes, x: Expr) -> tuple[Expr, Expr]:
    size = w.named(w.between(w.magnitude(x), 0.0, 200.0))
    grown = w.named(exponential(w, size))
    return grown, w.quotient(w.number(1.0), grown)


@function("sinh", "float32")
def _sinh(c: Lanes, x: Expr) -> Expr:
    w = c.of_width("float64")
    y = w.named(w.converted(x))
    grown, shrunk = _exponentials(w, y)
    half = w.product(w.difference(grown, shrunk), w.number(0.5))
    return _from_wide(c, x, _odd(w, y, 1 / 6, half))


@function("cosh", "float32")
def _cosh(c: Lanes, x: Expr) -> Expr:
    w = c.of_width("float64")
    grown, shrunk = _exponentials(w, w.named(w.converted(x)))
    return c.select(c.is_nan(x), x, c.converted(w.product(w.sum(grown, shrunk), w.number(0.5))))


@function("asinh", "float32")
def _asinh(c: Lanes, x: Expr) -> Expr:
    """log(|x| + sqrt(x**2 + 1))."""
    w = c.of_width("float64")
    y = w.named(w.converted(x))
    size = w.named(w.between(w.magnitude(y), 0.0, 1e39))
    log = natural_logarithm(w, w.named(w.sum(size, w.root(w.fma(size, size, w.number(1.0))))))
    is_infinite = w.greater(w.magnitude(y), w.number(1e39))
    return _from_wide(c, x, _odd(w, y, -1 / 6, w.select(is_infinite, w.number(float("inf")), log)))


@function("acosh", "float32")
def _acosh(c: Lanes, x: Expr) -> Expr:
    """log(x + sqrt((x - 1) (x + 1)))."""
    w = c.of_width("float64")
    y, one = w.named(w.converted(x)), w.number(1.0)
    size = w.named(w.between(y, 1.0, 1e39))
    other = w.root(w.product(w.difference(size, one), w.sum(size, one)))
    log = w.select(
        w.greater(y, w.number(1e39)), w.number(float("inf")), natural_logarithm(w, w.named(w.sum(size, other)))
    )
    return c.converted(w.select(w.less(y, one), w.number(float("nan")), w.select(w.is_nan(y), y, log)))


@function("atanh", "float32")
def _atanh(c: Lanes, x: Expr) -> Expr:
    """log((1 + |x|) / (1 - |x|)) / 2."""
    w = c.of_width("float64")
    y, one = w.named(w.converted(x)), w.number(1.0)
    size = w.named(w.magnitude(y))
    clamped = w.named(w.between(size, 0.0, 1 - 2.0**-30))
    log = natural_logarithm(w, w.named(w.quotient(w.sum(one, clamped), w.difference(one, clamped))))
    half = w.select(w.equal(size, one), w.number(float("inf")), w.product(log, w.number(0.5)))
    return _from_wide(c, x, _beyond(w, size, _odd(w, y, 1 / 3, half)))


@function("cbrt", "float32")
def _cbrt(c: Lanes, x: Expr) -> Expr:
    """e**(log|x| / 3)."""
    w = c.of_width("float64")
    y = w.named(w.converted(x))
    size = w.named(w.between(w.magnitude(y), 1e-46, 1e39))
    power = exponential(w, w.named(w.product(natural_logarithm(w, size), w.number(1 / 3))))
    root = w.select(w.greater(w.magnitude(y), w.number(1e39)), w.number(float("inf")), power)
    return _from_wide(c, x, w.with_sign(root, y))


@function("tan", "float32", asks_library=True)
def _tan(c: Lanes, x: Expr) -> Expr:
    w = c.of_width("float64")
    n, r = quarters_of(c, w, x)
    sine, cosine = circular_polynomials(w, r)
    is_odd = c.has_bit(n, 0)
    ratio = w.quotient(w.select(is_odd, w.product(cosine, w.number(-1.0)), sine), w.select(is_odd, sine, cosine))
    near = c.named(c.select(c.equal(x, c.number(0.0)), x, c.converted(ratio)))
    return c.where_all(is_near(c, x), near, "tan", x)
