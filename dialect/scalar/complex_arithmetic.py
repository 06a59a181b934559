"""Arithmetic, roots, exponentials and logarithms of one complex element, written with real operations on its parts.

Division is Smith's algorithm (Communications of the ACM 5(8), 1962) and powers are NumPy's; square roots, absolute
values and logarithms have no intermediate overflow. Infinities, NaN and signs of zero follow C99's annex G, as NumPy
and torch do.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log as logarithm

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.bindings.mlir import math
from mlirtri.dialect.scalar import algebra as s
from mlirtri.dialect.scalar.algebra import Scalar, create, parts

REAL = {name: s.unary(getattr(math, name)) for name in (
    "asinh", "cos", "cosh", "exp", "expm1", "log", "log1p", "roundeven", "sin", "sinh", "sqrt", "tan", "tanh",
)}  # fmt: skip


def literal(x: Scalar, value: complex | float) -> Scalar:
    """Create a literal of the dtype of x, real or complex."""
    return s.constant(value, x.dtype)


def square(x: Scalar) -> Scalar:
    return s.multiply(x, x)


def zero_of(sign: Scalar) -> Scalar:
    """Return 0 with the sign of `sign`. No literal: TVM merges 0 and -0, and drops a select between them."""
    return s.divide(literal(sign, 1.0), s.copy_sign(literal(sign, float("inf")), sign))


def map_parts(function: Callable[[Scalar], Scalar]) -> Callable[[Scalar], Scalar]:
    """Return the rule that applies `function` to both parts."""
    return lambda z: create(*(function(part) for part in parts(z)))


def any_part(function: Callable[[Scalar], Scalar]) -> Callable[[Scalar], Scalar]:
    return lambda z: s.bit_or(*(function(part) for part in parts(z)))


def all_parts(function: Callable[[Scalar], Scalar]) -> Callable[[Scalar], Scalar]:
    return lambda z: s.bit_and(*(function(part) for part in parts(z)))


def conjugate(z: Scalar) -> Scalar:
    real, imaginary = parts(z)
    return create(real, s.negate(imaginary))


def scaled(z: Scalar, factor: Scalar) -> Scalar:
    real, imaginary = parts(z)
    return create(s.multiply(real, factor), s.multiply(imaginary, factor))


def times_i(z: Scalar) -> Scalar:
    real, imaginary = parts(z)
    return create(s.negate(imaginary), real)


def over_i(z: Scalar) -> Scalar:
    real, imaginary = parts(z)
    return create(imaginary, s.negate(real))


# --- absolute value ------------------------------------------------------------------------------------------------

SAFE, _DOWN, _UP = {32: 60, 64: 500}, {32: 80, 64: 600}, {32: 100, 64: 600}
"""By bits of a part: values outside these powers of two are scaled, so that squares neither overflow nor vanish."""


def scaling(real: Scalar, imaginary: Scalar, root: int) -> tuple[Scalar, Scalar]:
    """Return a power of two that keeps squares in range, and its inverse (the root of that for `root` 2)."""
    bits = real.dtype.bits
    large = s.maximum(s.absolute(real), s.absolute(imaginary))
    too_large = s.compare("gt", large, literal(real, 2.0 ** SAFE[bits]))
    too_small = s.compare("lt", large, literal(real, 2.0 ** -SAFE[bits]))

    def choose(of_large: float, of_small: float) -> Scalar:
        small = s.select(too_small, literal(real, of_small), literal(real, 1.0))
        return s.select(too_large, literal(real, of_large), small)

    down, up = _DOWN[bits], _UP[bits]
    return choose(2.0**-down, 2.0**up), choose(2.0 ** (down // root), 2.0 ** -(up // root))


def _length(real: Scalar, imaginary: Scalar) -> Scalar:
    return REAL["sqrt"](s.add(square(real), square(imaginary)))


def absolute(z: Scalar) -> Scalar:
    """Return |z|; infinite if a part is, even when the other is NaN."""
    real, imaginary = parts(z)
    scale, back = scaling(real, imaginary, root=1)
    length = s.multiply(_length(s.multiply(real, scale), s.multiply(imaginary, scale)), back)
    return s.select(any_part(s.is_infinite)(z), literal(real, float("inf")), length)


def sign(z: Scalar) -> Scalar:
    """Return z / |z|, and 0 of 0, as in NumPy 2; for one infinite part ±1 or ±i, for two NaN."""
    real, imaginary = parts(z)
    zero, size = literal(real, 0.0), absolute(z)
    along = [s.select(s.is_infinite(part), s.sign(part), zero) for part in (real, imaginary)]
    both = all_parts(s.is_infinite)(z)
    along = [s.select(both, literal(real, float("nan")), part) for part in along]
    infinite, is_zero = s.is_infinite(size), s.compare("eq", size, zero)
    result = [
        s.select(infinite, axis, s.select(is_zero, zero, s.divide(part, size)))
        for axis, part in zip(along, (real, imaginary), strict=True)
    ]
    return create(*result)


# --- arithmetic ----------------------------------------------------------------------------------------------------


def divide(x: Scalar, y: Scalar) -> Scalar:
    """Divide by Smith's algorithm; for a zero divisor of either sign, divide each part by +0."""
    (a, b), (c, d) = parts(x), parts(y)
    by_real = s.compare("ge", s.absolute(c), s.absolute(d))
    large, small = s.select(by_real, c, d), s.select(by_real, d, c)
    first, second = s.select(by_real, a, b), s.select(by_real, b, a)
    ratio = s.divide(small, large)
    scale = s.divide(literal(a, 1.0), s.add(large, s.multiply(small, ratio)))
    real = s.multiply(s.add(first, s.multiply(second, ratio)), scale)
    across = s.multiply(first, ratio)
    imaginary = s.multiply(s.select(by_real, s.subtract(second, across), s.subtract(across, second)), scale)
    nothing, infinity = s.compare("eq", y, literal(y, 0j)), literal(a, float("inf"))
    by_zero = s.multiply(a, infinity), s.multiply(b, infinity)
    return create(s.select(nothing, by_zero[0], real), s.select(nothing, by_zero[1], imaginary))


def reciprocal(z: Scalar) -> Scalar:
    """Return 1 / z by NumPy's loop: Smith's algorithm without its products by 0 and 1."""
    c, d = parts(z)
    one = literal(c, 1.0)
    by_real = s.compare("ge", s.absolute(c), s.absolute(d))
    large, small = s.select(by_real, c, d), s.select(by_real, d, c)
    ratio = s.divide(small, large)
    size = s.add(large, s.multiply(small, ratio))
    long, short = s.divide(one, size), s.divide(ratio, size)
    return create(s.select(by_real, long, short), s.negate(s.select(by_real, short, long)))


def power(x: Scalar, y: Scalar) -> Scalar:
    """Return x**y as `npy_cpow`: small integer exponents by squaring, else exp(y log x); x^0 is 1, 0^y 0 or NaN."""
    c, d = parts(y)
    zero, one, nan = literal(x, 0j), literal(x, 1 + 0j), literal(x, complex("nan+nanj"))
    is_small = s.compare("lt", s.absolute(c), literal(c, 100.0))
    number = s.cast(s.select(is_small, c, literal(c, 0.0)), DTYPES["int32"])
    is_whole = s.bit_and(s.compare("eq", s.cast(number, c.dtype), c), s.compare("eq", d, literal(d, 0.0)))
    is_integer = s.bit_and(is_small, is_whole)
    result = s.select(is_integer, _integer_power(x, number), exp(_endless_product(y, log(x))))
    of_zero = s.select(s.compare("gt", c, literal(c, 0.0)), zero, nan)
    result = s.select(s.compare("eq", x, zero), of_zero, result)
    return s.select(s.compare("eq", y, zero), one, result)


def _integer_power(x: Scalar, number: Scalar) -> Scalar:
    """Return x to an integer exponent of at most seven bits, by repeated squaring."""
    size, zero = s.absolute(number), s.constant(0, number.dtype)
    result, factor = literal(x, 1 + 0j), x
    for bit in range(7):
        is_set = s.compare("ne", s.bit_and(size, s.constant(1 << bit, size.dtype)), zero)
        result = s.select(is_set, s.multiply(result, factor), result)
        factor = square(factor)
    # Products by 1 + 0i lose infinite parts.
    result = s.select(s.compare("eq", number, s.constant(1, number.dtype)), x, result)
    return s.select(s.compare("lt", number, zero), divide(literal(x, 1 + 0j), result), result)


def _endless_product(x: Scalar, y: Scalar) -> Scalar:
    """Return x y; infinite where one is, with NaN parts beside it counted as 0 (C99, G.5.1)."""
    plain = s.multiply(x, y)
    infinite = [any_part(s.is_infinite)(z) for z in (x, y)]
    lost = s.bit_and(all_parts(s.is_nan)(plain), s.bit_or(*infinite))
    boxed = s.multiply(*(_boxed(z, is_infinite) for z, is_infinite in zip((x, y), infinite, strict=True)))
    return s.select(lost, scaled(boxed, literal(parts(x)[0], float("inf"))), plain)


def _boxed(z: Scalar, endless: Scalar) -> Scalar:
    """Return ±1 or ±0 per part of an infinite value; of other values, the value with 0 for NaN."""

    def box(part: Scalar) -> Scalar:
        zero, one = zero_of(part), s.copy_sign(literal(part, 1.0), part)
        number = s.select(s.is_nan(part), zero, part)
        return s.select(endless, s.select(s.is_infinite(part), one, zero), number)

    return map_parts(box)(z)


def sqrt(z: Scalar) -> Scalar:
    """Return the root with a non-negative real part, without cancellation: W. Kahan, "Branch cuts for complex
    elementary functions", 1987."""
    real, imaginary = parts(z)
    scale, back = scaling(real, imaginary, root=2)
    a, b = s.multiply(real, scale), s.multiply(imaginary, scale)
    length = s.select(s.is_infinite(a), s.absolute(a), _length(a, b))
    long = REAL["sqrt"](s.multiply(s.add(s.absolute(a), length), literal(a, 0.5)))
    short = s.divide(s.absolute(b), s.add(long, long))
    right = s.bit_or(s.compare("ge", a, literal(a, 0.0)), s.is_nan(a))
    real_root = s.multiply(s.select(right, long, short), back)
    imaginary_root = s.copy_sign(s.multiply(s.select(right, short, long), back), imaginary)
    is_zero = s.compare("eq", long, literal(a, 0.0))
    infinite = s.is_infinite(imaginary)
    real_root = s.select(is_zero, literal(a, 0.0), s.select(infinite, s.absolute(imaginary), real_root))
    return create(real_root, s.select(s.bit_or(is_zero, infinite), imaginary, imaginary_root))


# --- exponentials and logarithms -----------------------------------------------------------------------------------


LONGEST = {32: 88.0, 64: 709.0}
"""By bits of a part: the largest argument whose exponential is finite."""


def is_lost(size: Scalar, angle: Scalar) -> Scalar:
    """Return whether an infinite modulus has an angle that is infinite or NaN."""
    return s.bit_and(s.is_infinite(size), s.logical_not(s.is_finite(angle)))


def direction(size: Scalar, angle: Scalar) -> tuple[Scalar, Scalar]:
    """Return cosine and sine of an angle; defined also beside an infinite modulus, as in C99's annex G."""
    one, nan = literal(angle, 1.0), literal(angle, float("nan"))
    lost = is_lost(size, angle)
    side = s.select(s.compare("gt", size, literal(size, 0.0)), nan, s.copy_sign(one, angle))
    return s.select(lost, one, REAL["cos"](angle)), s.select(lost, side, REAL["sin"](angle))


def lengthened(factor: Scalar, size: Scalar, second: Scalar) -> Scalar:
    """Return factor * size * again, in that order; 0 where the factor is exactly 0, also beside infinity and NaN."""
    product = s.multiply(s.multiply(factor, size), second)
    return s.select(s.compare("eq", factor, literal(factor, 0.0)), factor, product)


def exp(z: Scalar) -> Scalar:
    """Return e**z; where exp(a) overflows, multiply twice by exp(a / 2)."""
    real, imaginary = parts(z)
    is_long = s.compare("gt", real, literal(real, LONGEST[real.dtype.bits]))
    size = REAL["exp"](s.select(is_long, s.multiply(real, literal(real, 0.5)), real))
    second = s.select(is_long, size, literal(real, 1.0))
    return create(*(lengthened(factor, size, second) for factor in direction(real, imaginary)))


def expm1(z: Scalar) -> Scalar:
    """Return exp(a) cos(b) - 1 as expm1(a) cos(b) - 2 sin²(b / 2)."""
    real, imaginary = parts(z)
    half = REAL["sin"](s.multiply(imaginary, literal(real, 0.5)))
    of_real = s.subtract(
        s.multiply(REAL["expm1"](real), REAL["cos"](imaginary)), s.multiply(literal(real, 2.0), square(half))
    )
    return create(of_real, s.multiply(REAL["exp"](real), REAL["sin"](imaginary)))


def log(z: Scalar) -> Scalar:
    """Return log |z| + i arg z; near the unit circle from |z|² - 1, elsewhere from the ratio of the parts."""
    real, imaginary = parts(z)
    first, second = s.absolute(real), s.absolute(imaginary)
    large, small = s.maximum(first, second), s.minimum(first, second)
    half = literal(real, 0.5)
    ratio = s.divide(small, large)
    far = s.add(REAL["log"](large), s.multiply(half, REAL["log1p"](square(ratio))))
    excess = _square_of_length_minus_one(large, small)
    near = s.multiply(half, REAL["log1p"](excess))
    is_near = s.compare("lt", s.absolute(excess), half)
    # The ratio is NaN for 0 and for infinities.
    extreme = s.bit_or(s.compare("eq", large, literal(real, 0.0)), any_part(s.is_infinite)(z))
    at_extreme = s.select(any_part(s.is_infinite)(z), literal(real, float("inf")), REAL["log"](large))
    size = s.select(extreme, at_extreme, s.select(is_near, near, far))
    return create(size, s.atan2(imaginary, real))


def _square_of_length_minus_one(large: Scalar, small: Scalar) -> Scalar:
    """Return large² + small² - 1, of fp32 computed in fp64: near the unit circle most digits cancel."""
    wide = DTYPES["float64"]
    a, b = s.cast(large, wide), s.cast(small, wide)
    one = literal(a, 1.0)
    return s.cast(s.add(s.multiply(s.subtract(a, one), s.add(a, one)), square(b)), large.dtype)


def log1p(z: Scalar) -> Scalar:
    """Return log(1 + z), accurate for small z."""
    real, imaginary = parts(z)
    one, half = literal(real, 1.0), literal(real, 0.5)
    shifted = s.add(real, one)
    excess = s.add(s.multiply(real, s.add(shifted, one)), square(imaginary))
    is_small = s.compare("lt", s.absolute(excess), half)
    far, angle = parts(log(create(shifted, imaginary)))
    return create(s.select(is_small, s.multiply(half, REAL["log1p"](excess)), far), angle)


def log_of_base(base: float) -> Callable[[Scalar], Scalar]:
    return lambda z: scaled(log(z), literal(parts(z)[0], 1 / logarithm(base)))


def exp2(z: Scalar) -> Scalar:
    return exp(scaled(z, literal(parts(z)[0], logarithm(2))))
