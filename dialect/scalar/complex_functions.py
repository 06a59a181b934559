"""The scalar rules of elementwise ops on complex values.

Trigonometric and hyperbolic functions and their inverses are written with real functions of the parts; the others are
in `complex_arithmetic.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.scalar import algebra as s
from mlirtri.dialect.scalar import complex_arithmetic as c
from mlirtri.dialect.scalar.algebra import Scalar, create, parts
from mlirtri.dialect.scalar.complex_arithmetic import (
    LONGEST,
    REAL,
    conjugate,
    direction,
    is_lost,
    lengthened,
    literal,
    over_i,
    sqrt,
    square,
    times_i,
    zero_of,
)
from mlirtri.dialect.scalar.functions import RULES as REAL_RULES

# --- trigonometric and hyperbolic functions -----------------------------------------------------------------------


def sinh(z: Scalar) -> Scalar:
    along, across = _hyperbolic(z)
    cosine, sine = direction(s.absolute(parts(z)[0]), parts(z)[1])
    return create(along(cosine), across(sine))


def cosh(z: Scalar) -> Scalar:
    along, across = _hyperbolic(z)
    cosine, sine = direction(s.absolute(parts(z)[0]), parts(z)[1])
    return create(across(cosine), along(sine))


def _hyperbolic(z: Scalar) -> tuple[Callable[[Scalar], Scalar], Callable[[Scalar], Scalar]]:
    """Return functions that multiply by the hyperbolic sine of the real part, and by its cosine.

    Where these overflow, both are computed as 2 sinh(a / 2) cosh(a / 2), in two multiplications.
    """
    real = parts(z)[0]
    one, zero, size = literal(real, 1.0), literal(real, 0.0), s.absolute(real)
    is_long = s.compare("gt", size, literal(real, LONGEST[real.dtype.bits]))
    inner = s.select(is_long, s.multiply(size, literal(real, 0.5)), size)
    sign, of_cosh = s.copy_sign(one, real), REAL["cosh"](inner)
    second = s.select(is_long, s.add(of_cosh, of_cosh), one)

    def along(factor: Scalar) -> Scalar:
        still = s.bit_and(s.compare("eq", size, zero), s.is_nan(factor))
        return s.multiply(s.select(still, size, lengthened(factor, REAL["sinh"](inner), second)), sign)

    return along, lambda factor: lengthened(factor, of_cosh, second)


def tanh(z: Scalar) -> Scalar:
    real, imaginary = parts(z)
    one = literal(real, 1.0)
    level, narrow = REAL["tanh"](real), s.divide(one, REAL["cosh"](real))
    slope = s.select(is_lost(real, imaginary), zero_of(imaginary), REAL["tan"](imaginary))
    below = s.add(one, square(s.multiply(level, slope)))
    along = s.divide(s.multiply(level, s.add(one, square(slope))), below)
    across = s.divide(s.multiply(s.multiply(slope, narrow), narrow), below)
    still = s.bit_and(s.compare("eq", real, literal(real, 0.0)), s.is_nan(slope))
    level_axis = s.compare("eq", imaginary, literal(real, 0.0))
    return create(s.select(still, real, along), s.select(level_axis, imaginary, across))


def _rotated(function: Callable[[Scalar], Scalar]) -> Callable[[Scalar], Scalar]:
    """Return z -> f(iz) / i: sin from sinh, tan from tanh, asinh from asin, atan from atanh."""
    return lambda z: over_i(function(times_i(z)))


def _around_one(z: Scalar) -> tuple[Scalar, Scalar]:
    """Return 1 - z and 1 + z with the sign of a zero imaginary part, which decides the side of a branch cut."""
    real, imaginary = parts(z)
    one = literal(real, 1.0)
    return create(s.subtract(one, real), s.negate(imaginary)), create(s.add(one, real), imaginary)


def _unless_finite(z: Scalar, far: Scalar, near: Scalar) -> Scalar:
    return s.select(c.all_parts(s.is_finite)(z), near, far)


def _quarter(sign: Scalar, angle: float = pi / 2) -> Scalar:
    return s.copy_sign(literal(sign, angle), sign)


def asin(z: Scalar) -> Scalar:
    """Return the arc sine; this and the other inverses are Kahan's (1987), as `sqrt`."""
    left, right = (sqrt(side) for side in _around_one(z))
    real = s.atan2(parts(z)[0], parts(s.multiply(left, right))[0])
    near = create(real, REAL["asinh"](parts(s.multiply(conjugate(left), right))[1]))
    return _unless_finite(z, _rotated(_far_asinh)(z), near)


def _far_asinh(z: Scalar) -> Scalar:
    a, b = parts(z)
    nan, infinity = literal(a, float("nan")), literal(a, float("inf"))
    is_long, is_high = s.is_infinite(a), s.is_infinite(b)
    across = s.select(s.is_nan(a), nan, s.select(is_long, _quarter(b, pi / 4), _quarter(b)))
    is_level = s.bit_and(s.is_nan(a), s.compare("eq", b, literal(b, 0.0)))
    on_axis = s.bit_or(s.bit_and(is_long, s.is_finite(b)), is_level)
    size = s.select(s.bit_or(is_long, is_high), s.copy_sign(infinity, a), nan)
    return create(size, s.select(is_high, across, s.select(on_axis, zero_of(b), nan)))


def acos(z: Scalar) -> Scalar:
    left, right = (sqrt(side) for side in _around_one(z))
    angle = s.atan2(parts(left)[0], parts(right)[0])
    near = create(s.add(angle, angle), REAL["asinh"](parts(s.multiply(conjugate(right), left))[1]))
    real, imaginary = parts(_rotated(_far_asinh)(z))
    return _unless_finite(z, create(s.subtract(literal(real, pi / 2), real), s.negate(imaginary)), near)


def acosh(z: Scalar) -> Scalar:
    """Return the inverse hyperbolic cosine; of 0 + NaN i the imaginary part is pi / 2."""
    a, b = parts(z)
    below, above = _around_one(z)
    left, right = sqrt(s.negate(below)), sqrt(above)
    angle = s.atan2(parts(left)[1], parts(right)[0])
    near = create(REAL["asinh"](parts(s.multiply(conjugate(left), right))[0]), s.add(angle, angle))
    is_up = s.bit_and(s.compare("eq", a, literal(a, 0.0)), s.is_nan(b))
    size = s.select(c.any_part(s.is_infinite)(z), literal(a, float("inf")), literal(a, float("nan")))
    return _unless_finite(z, create(size, s.select(is_up, literal(a, pi / 2), s.atan2(b, a))), near)


def atanh(z: Scalar) -> Scalar:
    """Return log((1 + z) / (1 - z)) / 2, for a non-negative real part, which avoids cancellation; for large z it is
    1 / z ± i pi / 2, and near 1 the square of the imaginary part underflows."""
    real, imaginary = parts(z)
    one, a, b = literal(real, 1.0), s.absolute(real), s.absolute(imaginary)
    large, small = s.maximum(a, b), s.minimum(a, b)
    epsilon = EPSILON[real.dtype.bits]
    beside_one = s.bit_and(s.compare("eq", a, one), s.compare("lt", b, literal(b, epsilon**2)))
    distance = s.add(square(s.subtract(one, a)), square(b))
    ratio = s.divide(s.multiply(literal(a, 4.0), a), s.select(beside_one, one, distance))
    size = s.multiply(REAL["log1p"](ratio), literal(a, 0.25))
    beside = s.multiply(s.subtract(literal(a, log(2)), REAL["log"](b)), literal(a, 0.5))
    is_far = s.compare("ge", large, literal(large, 16 / epsilon))
    size = s.select(is_far, parts(c.reciprocal(create(a, b)))[0], s.select(beside_one, beside, size))
    across = s.subtract(s.multiply(s.subtract(one, large), s.add(one, large)), square(small))
    angle = s.multiply(s.atan2(s.add(imaginary, imaginary), across), literal(a, 0.5))
    near = create(s.copy_sign(size, real), s.select(is_far, _quarter(imaginary), angle))
    return _unless_finite(z, _far_atanh(z), near)


def _far_atanh(z: Scalar) -> Scalar:
    """Return the inverse hyperbolic tangent of infinities and NaN."""
    a, b = parts(z)
    nan = literal(a, float("nan"))
    is_still = s.bit_or(c.any_part(s.is_infinite)(z), s.compare("eq", a, literal(a, 0.0)))
    is_across = s.bit_or(s.is_infinite(b), s.bit_and(s.is_infinite(a), s.is_finite(b)))
    return create(s.select(is_still, zero_of(a), nan), s.select(is_across, _quarter(b), nan))


EPSILON = {32: 2.0**-23, 64: 2.0**-52}
"""Machine epsilon by bits of a part."""


def sigmoid(z: Scalar) -> Scalar:
    """Return 1 / (1 + e^-z), or for negative real parts e^z / (1 + e^z): neither overflows."""
    real, imaginary = parts(z)
    is_left = s.compare("lt", real, literal(real, 0.0))
    power = c.exp(create(s.negate(s.absolute(real)), s.select(is_left, imaginary, s.negate(imaginary))))
    one = literal(z, 1 + 0j)
    return c.divide(s.select(is_left, power, one), s.add(one, power))


def rsqrt(z: Scalar) -> Scalar:
    return c.divide(literal(z, 1 + 0j), sqrt(z))


def _number_that(predicate: str) -> Callable[[Scalar, Scalar], Scalar]:
    """Return NumPy's fmax (``ge``) or fmin (``le``), which ignores a NaN operand."""
    return lambda x, y: s.select(s.bit_or(s.compare(predicate, x, y), s.is_nan(y)), x, y)


_SAME_AS_REAL = (
    "add", "subtract", "multiply", "negative", "where", "maximum", "minimum", "cast", "isnan", "square", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal",
)  # fmt: skip
"""Real ops whose rules take complex values as well."""

RULES: Registry[str, Callable[..., Scalar]] = Registry("scalar rule", {
    "divide": c.divide, "reciprocal": c.reciprocal, "power": c.power, "abs": c.absolute, "sign": c.sign,
    "conj": conjugate, "real": lambda z: parts(z)[0], "imag": lambda z: parts(z)[1],
    "isinf": c.any_part(s.is_infinite), "isfinite": c.all_parts(s.is_finite), "round": c.map_parts(REAL["roundeven"]),
    "sqrt": sqrt, "rsqrt": rsqrt, "exp": c.exp, "exp2": c.exp2, "expm1": c.expm1,
    "log": c.log, "log1p": c.log1p, "log2": c.log_of_base(2.0), "log10": c.log_of_base(10.0),
    "fmax": _number_that("ge"), "fmin": _number_that("le"),
    "sinh": sinh, "cosh": cosh, "tanh": tanh, "sin": _rotated(sinh), "cos": lambda z: cosh(times_i(z)),
    "tan": _rotated(tanh), "asin": asin, "acos": acos, "atan": _rotated(atanh), "asinh": _rotated(asin),
    "acosh": acosh, "atanh": atanh, "sigmoid": sigmoid, "silu": lambda z: s.multiply(z, sigmoid(z)),
}, {name: REAL_RULES[name] for name in _SAME_AS_REAL})  # fmt: skip
"""Rules by op for a complex last operand."""
