"""The scalar rule of every op of the table that takes complex numbers: one element in, one out.

Here are circular and hyperbolic functions and their inverses, by their formulas in real functions of the parts;
the rest is `dialect.complex_arithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi

from mlirtri.dialect import complex_arithmetic as c
from mlirtri.dialect import scalar as s
from mlirtri.dialect.complex_arithmetic import REAL, SAFE, conjugate, literal, over_i, product, sqrt, square, times_i
from mlirtri.dialect.scalar import Scalar, create, parts
from mlirtri.dialect.scalar_functions import RULES as REAL_RULES

# --- circular and hyperbolic functions -----------------------------------------------------------------------------


def sinh(z: Scalar) -> Scalar:
    real, imaginary = parts(z)
    return create(
        product(REAL["cos"](imaginary), REAL["sinh"](real)), product(REAL["cosh"](real), REAL["sin"](imaginary))
    )


def cosh(z: Scalar) -> Scalar:
    real, imaginary = parts(z)
    across = s.multiply(REAL["sinh"](real), REAL["sin"](imaginary))
    no_turn = s.bit_or(s.compare("eq", real, literal(real, 0.0)), s.compare("eq", imaginary, literal(real, 0.0)))
    signed_zero = s.copy_sign(literal(real, 0.0), s.multiply(s.copy_sign(literal(real, 1.0), real), imaginary))
    return create(
        s.multiply(REAL["cosh"](real), REAL["cos"](imaginary)), s.select(no_turn, signed_zero, across)
    )  # fmt: skip


def tanh(z: Scalar) -> Scalar:
    """Kahan's formula; where cosh would overflow the real part is ±1 and the imaginary one all but 0."""
    real, imaginary = parts(z)
    one, four = literal(real, 1.0), literal(real, 4.0)
    flat = s.compare("gt", s.absolute(real), literal(real, 20.0))
    inner = s.select(flat, one, real)
    slope = REAL["tan"](imaginary)
    beta = s.add(one, square(slope))
    of_sinh = REAL["sinh"](inner)
    rho = REAL["sqrt"](s.add(one, square(of_sinh)))
    below = s.add(one, s.multiply(beta, square(of_sinh)))
    near = create(s.divide(s.multiply(beta, s.multiply(rho, of_sinh)), below), s.divide(slope, below))
    fading = REAL["exp"](s.multiply(s.absolute(real), literal(real, -2.0)))
    turn = s.multiply(REAL["sin"](imaginary), REAL["cos"](imaginary))
    far = create(s.copy_sign(one, real), s.multiply(s.multiply(four, turn), fading))
    return s.select(flat, far, near)


def _turned(function: Callable[[Scalar], Scalar]) -> Callable[[Scalar], Scalar]:
    """sin z is sinh(iz) / i, and likewise for tan, asinh (from asin) and atan."""
    return lambda z: over_i(function(times_i(z)))


def _around_one(z: Scalar) -> tuple[Scalar, Scalar]:
    """1 - z and 1 + z, which keep the sign of an imaginary part of 0: it chooses the side of a branch cut."""
    real, imaginary = parts(z)
    one = literal(real, 1.0)
    return create(s.subtract(one, real), s.negate(imaginary)), create(s.add(one, real), imaginary)


def asin(z: Scalar) -> Scalar:
    """This and the other inverses: Kahan 1987, as in `sqrt`."""
    left, right = (sqrt(side) for side in _around_one(z))
    real = s.atan2(parts(z)[0], parts(s.multiply(left, right))[0])
    return create(real, REAL["asinh"](parts(s.multiply(conjugate(left), right))[1]))


def acos(z: Scalar) -> Scalar:
    left, right = (sqrt(side) for side in _around_one(z))
    angle = s.atan2(parts(left)[0], parts(right)[0])
    return create(s.add(angle, angle), REAL["asinh"](parts(s.multiply(conjugate(right), left))[1]))


def acosh(z: Scalar) -> Scalar:
    before, after = _around_one(z)
    left, right = sqrt(s.negate(before)), sqrt(after)
    angle = s.atan2(parts(left)[1], parts(right)[0])
    return create(REAL["asinh"](parts(s.multiply(conjugate(left), right))[0]), s.add(angle, angle))


def atanh(z: Scalar) -> Scalar:
    """log((1 + z) / (1 - z)) / 2, for a positive real part, where nothing cancels; far out it is ±i pi / 2."""
    real, imaginary = parts(z)
    one, size = literal(real, 1.0), s.absolute(real)
    rest = s.subtract(one, size)
    distance = s.add(square(rest), square(imaginary))
    length = REAL["log1p"](s.divide(s.multiply(literal(real, 4.0), size), distance))
    across = s.subtract(s.multiply(rest, s.add(one, size)), square(imaginary))
    angle = s.atan2(s.add(imaginary, imaginary), across)
    is_far = s.compare("ge", s.maximum(size, s.absolute(imaginary)), literal(real, 2.0 ** SAFE[real.dtype.bits]))
    length = s.select(is_far, literal(real, 0.0), s.multiply(length, literal(real, 0.25)))
    angle = s.select(is_far, s.copy_sign(literal(real, pi / 2), imaginary), s.multiply(angle, literal(real, 0.5)))
    return create(s.copy_sign(length, real), angle)


def sigmoid(z: Scalar) -> Scalar:
    return c.reciprocal(s.add(literal(z, 1 + 0j), c.exp(s.negate(z))))


def _number_that(predicate: str) -> Callable[[Scalar, Scalar], Scalar]:
    """NumPy's fmax (``ge``) or fmin (``le``): the one that wins, or the one that is no NaN."""
    return lambda x, y: s.select(s.bit_or(s.compare(predicate, x, y), s.is_nan(y)), x, y)


_SAME_AS_REAL = (
    "add", "subtract", "multiply", "negative", "where", "maximum", "minimum", "cast", "isnan", "square", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal",
)  # fmt: skip
"""The algebra itself tells the kinds apart."""

RULES: dict[str, Callable[..., Scalar]] = {
    **{name: REAL_RULES[name] for name in _SAME_AS_REAL},
    "divide": c.divide, "reciprocal": c.reciprocal, "power": c.power, "abs": c.absolute, "sign": c.sign,
    "conj": conjugate, "real": lambda z: parts(z)[0], "imag": lambda z: parts(z)[1],
    "isinf": c.any_part(s.is_infinite), "isfinite": c.all_parts(s.is_finite), "round": c.each_part(REAL["roundeven"]),
    "sqrt": sqrt, "rsqrt": lambda z: c.reciprocal(sqrt(z)), "exp": c.exp, "exp2": c.exp2, "expm1": c.expm1,
    "log": c.log, "log1p": c.log1p, "log2": c.log_of_base(2.0), "log10": c.log_of_base(10.0),
    "fmax": _number_that("ge"), "fmin": _number_that("le"),
    "sinh": sinh, "cosh": cosh, "tanh": tanh, "sin": _turned(sinh), "cos": lambda z: cosh(times_i(z)),
    "tan": _turned(tanh), "asin": asin, "acos": acos, "atan": _turned(atanh), "asinh": _turned(asin),
    "acosh": acosh, "atanh": atanh, "sigmoid": sigmoid, "silu": lambda z: s.multiply(z, sigmoid(z)),
}  # fmt: skip
"""By op of the table, for those whose last operand is complex."""
