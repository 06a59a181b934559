"""Special functions as series, and functions of the bits of a float, over the functions of NumPy and torch.

Sources: Abramowitz and Stegun 6.3.18, 9.6.16 and 9.7.1; C. Lanczos, A precision approximation of the gamma function
(1964); M. Wichura, Algorithm AS 241 (1988); R. Keys, IEEE Trans. ASSP 29 (1981).
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, TypeAlias

Array: TypeAlias = Any
"""A tensor of a kernel or of a trace, or NumPy's array where a kernel computes with constants."""

# --- gamma -----------------------------------------------------------------------------------------------------------

LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
"""Coefficients of the Lanczos approximation with g = 7."""
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
    854513 / 138, -236364091 / 2730,
)  # fmt: skip
"""The Bernoulli numbers B(2k), from k = 1."""


EULER_MACLAURIN = tuple(number / math.factorial(2 * k) for k, number in enumerate(BERNOULLI, 1))
"""B(2k) / (2k)!, from k = 1."""


def lgamma(xp: ModuleType, x: Array) -> Array:
    """Return the logarithm of the absolute value of the gamma function, of float64."""
    reflected = xp.where(x < 0.5, 1 - x, x) - 1
    shifted = reflected + 7.5
    total = xp.full_like(x, LANCZOS[0])
    for k in range(1, 9):
        total = total + LANCZOS[k] / (reflected + k)
    right = 0.5 * math.log(2 * math.pi) + (reflected + 0.5) * xp.log(shifted) - shifted + xp.log(total)
    # Of the magnitude, as the floor of a tiny negative number is -1.
    part = xp.abs(x) - xp.floor(xp.abs(x))
    sine = xp.sin(math.pi * xp.where(part > 0.5, 1 - part, part))
    result = xp.where(x < 0.5, math.log(math.pi) - xp.log(sine) - right, right)
    result = xp.where((x == 1) | (x == 2), 0.0, result)
    return xp.where(xp.isinf(x) | ((x <= 0) & (part == 0)), math.inf, result)


def digamma(xp: ModuleType, x: Array) -> Array:
    """Return the derivative of the logarithm of the gamma function, of float64."""
    y = xp.where(x < 0, 1 - x, x)
    steps = xp.zeros_like(x)
    for _ in range(10):
        steps = xp.where(y < 10, steps - 1 / y, steps)
        y = xp.where(y < 10, y + 1, y)
    inverse, series = 1 / (y * y), xp.zeros_like(x)
    for k in range(7, 0, -1):
        series = (series + BERNOULLI[k - 1] / (2 * k)) * inverse
    right = steps + xp.log(y) - 0.5 / y - series
    left = right - math.pi / xp.tan(math.pi * (x - xp.trunc(x)))
    result = xp.where(x < 0, xp.where(x == xp.trunc(x), math.nan, left), right)
    return xp.where(x == 0, xp.copysign(xp.full_like(x, math.inf), -x), result)


def zeta_completed(s: Array, total: Array, argument: Array) -> Array:
    """Return Hurwitz's zeta function of `s`, from its first terms and the argument of the next one, at least 9."""
    power = argument**-s
    total = total + argument * power / (s - 1) + power / 2
    factor = power * s / argument
    for k in range(1, 13):
        total = total + factor * EULER_MACLAURIN[k - 1]
        factor = factor * ((s + (2 * k - 1)) / argument) * ((s + 2 * k) / argument)
    return total


# --- the normal distribution -----------------------------------------------------------------------------------------

_CENTRE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
_TAIL = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
_FAR_TAIL = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip
"""Numerators and denominators of the three ranges of AS 241, lowest powers first."""


def normal_quantile(xp: ModuleType, centred: Array, tail: Array) -> Array:
    """Return the quantile of the normal distribution at ``p``, of float64.

    `centred` is ``p - 1/2``, and `tail` the smaller one of ``p`` and ``1 - p``: near 0 and 1 it has the digits that
    the other loses.
    """
    near = centred * _ratio(xp, 0.180625 - centred * centred, _CENTRE)
    root = xp.sqrt(-xp.log(xp.where(tail > 0, tail, 0.5)))
    far = xp.where(root <= 5, _ratio(xp, root - 1.6, _TAIL), _ratio(xp, root - 5, _FAR_TAIL))
    far = xp.where(tail > 0, far, xp.where(tail == 0, math.inf, math.nan))
    return xp.where(xp.abs(centred) <= 0.425, near, xp.copysign(far, centred))


def _ratio(xp: ModuleType, r: Array, coefficients: Any) -> Array:
    sums = [_polynomial(xp, r, part) for part in coefficients]
    return sums[0] / sums[1]


def _polynomial(xp: ModuleType, r: Array, coefficients: Any) -> Array:
    total = xp.zeros_like(r)
    for k in range(len(coefficients) - 1, -1, -1):
        total = total * r + coefficients[k]
    return total


def erfinv(xp: ModuleType, x: Array) -> Array:
    """Return the inverse of erf: the normal quantile of ``(x + 1) / 2`` over the root of 2."""
    return normal_quantile(xp, x / 2, (1 - xp.abs(x)) / 2) / math.sqrt(2)


NEAR_ERF = tuple(2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(16))
"""Coefficients of ``erf(x) / x`` by powers of the square, for up to 1/2."""


def erfc(xp: ModuleType, x: Array) -> Array:
    """Return 1 - erf(x), of float64: a trapezoidal sum minus the pole's residue, and the difference near 0."""
    size = xp.abs(x)
    far = xp.where(size > 0.5, size, 0.5)
    square = far * far
    total = 1 / square
    for k in range(1, 14):
        total = total + 2 * math.exp(-k * k / 4) / (k * k / 4 + square)
    pole = xp.where(far < 6, 2 / (xp.exp(4 * math.pi * xp.clip(far, None, 6.0)) - 1), 0.0)
    tail = far * xp.exp(-square) / (2 * math.pi) * total - pole
    tail = xp.where(xp.isinf(far), 0.0, tail)
    near = xp.where(size > 0.5, 0.5, size)
    right = xp.where(size > 0.5, tail, 1 - near * _polynomial(xp, near * near, NEAR_ERF))
    return xp.where(xp.isnan(x), x, xp.where(x < 0, 2 - right, right))


def erfcx(xp: ModuleType, x: Array) -> Array:
    """Return ``exp(x * x) * erfc(x)``, for large arguments by a continued fraction."""
    near = xp.clip(x, -27.0, 5.0)
    far = xp.where(x > 5, x, 5.0)
    inverse = 0.5 / far / far
    series = xp.ones_like(x)
    for k in range(23, 0, -1):
        # Evaluate the continued fraction from its end.
        series = 1 + (k * inverse) / series
    result = xp.where(x > 5, 1 / (far * series * math.sqrt(math.pi)), xp.exp(near * near) * erfc(xp, near))
    return xp.where(xp.isnan(x), x, xp.where(x < -26.7, math.inf, result))


def log_ndtr(xp: ModuleType, x: Array) -> Array:
    """Return the logarithm of the normal distribution's probability of at most x."""
    scaled = x * -math.sqrt(0.5)
    left = xp.log(erfcx(xp, xp.where(x < -1, scaled, 1.0)) / 2) - scaled * scaled
    return xp.where(x < -1, left, xp.log1p(erfc(xp, -scaled) * -0.5))


# --- products by logarithms ------------------------------------------------------------------------------------------


def entr(xp: ModuleType, x: Array) -> Array:
    """Return ``-x * log(x)``, 0 of 0 and minus infinity below."""
    entropy = -(x * xp.log(xp.where(x > 0, x, 1.0)))  # an unsigned x has no negative
    return xp.where(xp.isnan(x), x, xp.where(x < 0, -math.inf, xp.where(x == 0, 0.0, entropy)))


def times_logarithm(xp: ModuleType, x: Array, y: Array, logarithm: Array) -> Array:
    """Return ``x * logarithm``, which is one of `y`: 0 where x is 0, NaN where y is."""
    return xp.where(xp.isnan(y), y, xp.where(x == 0, 0.0, x * logarithm))


# --- Bessel functions ------------------------------------------------------------------------------------------------

POINTS = 32
"""Points on a quarter of the circle."""
LARGE = 30.0
"""The largest argument for which `POINTS` suffice."""


def modified_first(xp: ModuleType, x: Array, order: int, is_scaled: bool) -> Array:
    """Return the modified Bessel function I of order 0 or 1, scaled by ``exp(-|x|)`` if asked for, of float64.

    It is a mean over a quarter of a circle, beyond `LARGE` an asymptotic expansion.
    """
    size = xp.abs(x)
    near, total = xp.clip(size, None, LARGE), 0.0
    for k in range(POINTS):
        cosine = math.cos((k + 0.5) * math.pi / (2 * POINTS))
        total = total + (xp.sinh(near * cosine) * cosine if order else xp.cosh(near * cosine))
    far = xp.clip(size, LARGE, None)
    term, series = 1.0, 1.0
    for k in range(1, 16):
        term = term * (((2 * k - 1) ** 2 - 4 * order) / (8.0 * k)) / far
        series = series + term
    small, large = total / POINTS, series / xp.sqrt(2 * math.pi * far)
    if is_scaled:
        small = small * xp.exp(-near)
    else:
        # Split the exponential into two factors, which overflow later.
        half = xp.exp(far / 2)
        large = half * (half * large)
    result = xp.where(size > LARGE, large, small)
    return xp.where(x < 0, -result, result) if order else result


# --- bits ------------------------------------------------------------------------------------------------------------


def frexp(xp: ModuleType, x: Array, whole: object, digits: int) -> tuple[Array, Array]:
    """Return mantissa and exponent; `whole` is the integer dtype of the width of x, `digits` its bits of mantissa.

    The exponent has the dtype `whole`.
    """
    mask = (1 << (8 * x.dtype.itemsize - 1 - digits)) - 1
    # A subnormal number is scaled, so that its exponent is in the bits.
    is_small = xp.abs(x) < 2.0 ** (1 - mask // 2)
    bits = xp.where(is_small, x * 2.0 ** (digits + 1), x).view(whole)
    exponent = ((bits >> digits) & mask) - (mask // 2 - 1) - xp.where(is_small, digits + 1, 0)
    mantissa = ((bits & ~(mask << digits)) | ((mask // 2 - 1) << digits)).view(x.dtype)
    is_kept = (x == 0) | ~xp.isfinite(x)
    return xp.where(is_kept, x, mantissa), xp.where(is_kept, 0, exponent)


def nextafter(xp: ModuleType, x: Array, y: Array, whole: object) -> Array:
    """Return the float next to x in the direction of y, of one shape: floats of one sign are ordered like their bits.

    `whole` is the integer dtype of the width of x.
    """
    bits = x.view(whole)
    beside = xp.where((y > x) == (x > 0), bits + 1, bits - 1).view(x.dtype)
    smallest = xp.ones_like(bits).view(x.dtype)
    beside = xp.where(x == 0, xp.copysign(smallest, y), beside)
    return xp.where(xp.isnan(x) | xp.isnan(y), x + y, xp.where(x == y, y, beside))


# --- filters ---------------------------------------------------------------------------------------------------------


def keys_filter(xp: ModuleType, x: Array, a: float) -> Array:
    """Return Keys' cubic filter with the slope `a` at 1."""
    x = xp.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return xp.where(x < 1, near, xp.where(x < 2, far, 0.0))
