"""Define Bessel, modified Bessel and Airy functions of float64.

I, J and Y are means over a circle, which converge exponentially (Abramowitz and Stegun 9.1.18, 9.6.16), Y with
Neumann's series 9.1.88 and 9.1.89 summed under the mean; far from 0 they are asymptotic expansions (9.2.5, 9.7.1). K
is a series (9.6.13), a trapezoidal sum of 9.6.24 or 9.7.2, Ai a series (10.4.2), an expansion (10.4.60) or K (10.4.14).
"""

from __future__ import annotations

import math
from types import ModuleType

from mlirtri.lowering.special_functions.definitions import LARGE, POINTS, Array, modified_first

FAR = 25.0
"""The largest argument for which `POINTS` suffice for J and Y."""
_NEUMANN = range(1, 26)
"""Terms of Neumann's series: J of orders above 50 is below 1e-13 for arguments up to `FAR`."""
_ANGLES = tuple((point + 0.5) * math.pi / (2 * POINTS) for point in range(POINTS))
_SINES = tuple(map(math.sin, _ANGLES))
_NEUMANN_SUMS = (
    tuple(math.fsum((-1) ** k / k * math.cos(2 * k * angle) for k in _NEUMANN) for angle in _ANGLES),
    tuple(
        math.fsum((-1) ** k * (k + 0.5) / (k * (k + 1)) * math.sin((2 * k + 1) * angle) for k in _NEUMANN)
        for angle in _ANGLES
    ),
)
"""Of Y of order 0 and 1 the sum of Neumann's series at each angle."""
STEP = 0.125
"""The step of the trapezoidal sum for K, of `STEPS` points."""
STEPS = 34
_EULER = 0.57721566490153286061
_DIGAMMAS = tuple(
    tuple(
        (
            2 * math.fsum(1 / i for i in range(1, k + 1)) - 2 * _EULER + 1 / (k + 1)
            if order
            else math.fsum(1 / i for i in range(1, k + 1)) - _EULER
        )
        / (math.factorial(k) * math.factorial(k + order))
        for k in range(16)
    )
    for order in (0, 1)
)
"""Of K of order 0 and 1 the coefficients psi(k + 1), or psi(k + 1) + psi(k + 2), over factorials."""


def _means_over_circle(xp: ModuleType, near: Array, order: int) -> tuple[Array, Array]:
    """Return J of order 0 or 1, and the sum of Neumann's series for Y of that order."""
    total, neumann = xp.zeros_like(near), xp.zeros_like(near)
    for point in range(POINTS):
        sine, terms = _SINES[point], _NEUMANN_SUMS[order][point]
        value = xp.sin(near * sine) if order else xp.cos(near * sine)
        total = total + (value * sine if order else value)
        neumann = neumann + value * terms
    return total / POINTS, neumann / POINTS


def _hankel(xp: ModuleType, far: Array, order: int) -> tuple[Array, Array]:
    """Return P and Q of Hankel's expansions."""
    even, odd = xp.ones_like(far), xp.zeros_like(far)
    term, sign = xp.ones_like(far), 1.0
    for k in range(1, 20, 2):
        term = term * ((4 * order - (2 * k - 1) ** 2) / (8.0 * k)) / far
        odd = odd + sign * term
        sign = -sign
        term = term * ((4 * order - (2 * k + 1) ** 2) / (8.0 * (k + 1))) / far
        even = even + sign * term
    return even, odd


def first_kind(xp: ModuleType, x: Array, order: int) -> Array:
    """Return J of order 0 or 1."""
    size = xp.abs(x)
    near, far = xp.where(size > FAR, FAR, size), xp.where(size > FAR, size, FAR)
    even, odd = _hankel(xp, far, order)
    cosine, sine = _cosine_and_sine(xp, far, order)
    large = xp.sqrt(2 / (math.pi * far)) * (even * cosine - odd * sine)
    small, _ = _means_over_circle(xp, near, order)
    result = xp.where(size > FAR, large, small)
    return xp.where(xp.isnan(x), x, xp.where(x < 0, -result, result) if order else result)


def _cosine_and_sine(xp: ModuleType, x: Array, order: int) -> tuple[Array, Array]:
    """Return cosine and sine of ``x - (2 * order + 1) * pi / 4``, without rounding the difference."""
    cosine, sine = xp.cos(x), xp.sin(x)
    both = (sine - cosine, -sine - cosine) if order else (cosine + sine, sine - cosine)
    return both[0] * math.sqrt(0.5), both[1] * math.sqrt(0.5)


def second_kind(xp: ModuleType, x: Array, order: int) -> Array:
    """Return Y of order 0 or 1: minus infinity at 0, NaN below."""
    near, far = xp.where((x > FAR) | (x <= 0), FAR, x), xp.where(x > FAR, x, FAR)
    bessel, neumann = _means_over_circle(xp, near, order)
    small = (2 / math.pi) * (xp.log(near / 2) + (_EULER - order)) * bessel - (4 / math.pi) * neumann
    if order:
        first, _ = _means_over_circle(xp, near, 0)
        small = small - 2 / (math.pi * near) * first
    even, odd = _hankel(xp, far, order)
    cosine, sine = _cosine_and_sine(xp, far, order)
    large = xp.sqrt(2 / (math.pi * far)) * (even * sine + odd * cosine)
    result = xp.where(x > FAR, large, small)
    return xp.where(x > 0, result, xp.where(x == 0, -math.inf, math.nan))


def modified_second(xp: ModuleType, x: Array, order: int, is_scaled: bool) -> Array:
    """Return K of order 0 or 1, scaled by ``exp(x)`` if asked for: infinity at 0, NaN below."""
    near = xp.where((x > 2) | (x <= 0), 2.0, x)
    far = xp.where(x > 2, x, 2.0)
    square, small = near * near / 4, xp.zeros_like(x)
    for k in range(15, -1, -1):
        small = small * square + _DIGAMMAS[order][k]
    logarithm = xp.log(near / 2) * modified_first(xp, near, order, False)
    small = 1 / near + logarithm - near / 4 * small if order else small - logarithm
    large = _decaying(xp, far, float(order))
    if is_scaled:
        small = small * xp.exp(near)
    else:
        large = large * xp.exp(-far)
    result = xp.where(x > 2, large, small)
    return xp.where(x > 0, result, xp.where(x == 0, math.inf, math.nan))


def _decaying(xp: ModuleType, x: Array, order: float) -> Array:
    """Return ``exp(x) * K(x)`` of real `order`, for x from 2: above `LARGE` by the asymptotic expansion."""
    near, far = xp.where(x > LARGE, LARGE, x), xp.where(x > LARGE, x, LARGE)
    total = xp.full_like(x, 0.5)
    for k in range(1, STEPS):
        total = total + xp.exp(near * (1 - math.cosh(k * STEP))) * math.cosh(order * k * STEP)
    term, series = xp.ones_like(x), xp.ones_like(x)
    for k in range(1, 16):
        term = term * ((4 * order * order - (2 * k - 1) ** 2) / (8.0 * k)) / far
        series = series + term
    return xp.where(x > LARGE, xp.sqrt(math.pi / (2 * far)) * series, total * STEP)


def spherical(xp: ModuleType, x: Array) -> Array:
    """Return ``sin(x) / x``."""
    size = xp.abs(x)
    ratio = xp.sin(x) / xp.where(size == 0, 1.0, x)
    return xp.where(xp.isinf(x), 0.0, xp.where(size < 1e-4, 1 - x * x / 6, ratio))


def airy(xp: ModuleType, x: Array) -> Array:
    """Return Ai: a series between -8 and 2, else K of order 1/3 or the expansion for negative arguments."""
    near = xp.where((x > 2) | (x < -8), 0.0, x)
    cube = near * near * near
    first, second = xp.ones_like(x), xp.ones_like(x)
    for k in range(35, 0, -1):
        first = 1 + first * cube / ((3 * k - 1) * 3 * k)
        second = 1 + second * cube / (3 * k * (3 * k + 1))
    small = _AIRY_AT_0 * first + _AIRY_SLOPE_AT_0 * near * second
    right = xp.where(x > 2, x, 2.0)
    power = right * xp.sqrt(right) * (2 / 3)
    decaying = xp.sqrt(right / 3) / math.pi * _decaying(xp, power, 1 / 3) * xp.exp(-power)
    left = xp.where(x < -8, -x, 8.0)
    result = xp.where(x > 2, decaying, xp.where(x < -8, _airy_oscillating(xp, left), small))
    return xp.where(xp.isnan(x) | xp.isinf(x), math.nan, result)


_AIRY_AT_0 = 3 ** (-2 / 3) / math.gamma(2 / 3)
_AIRY_SLOPE_AT_0 = -(3 ** (-1 / 3)) / math.gamma(1 / 3)


def _airy_oscillating(xp: ModuleType, x: Array) -> Array:
    """Return Ai of ``-x`` for x from 8."""
    power = x * xp.sqrt(x) * (2 / 3)
    term, even, odd, sign = xp.ones_like(x), xp.ones_like(x), xp.zeros_like(x), 1.0
    for k in range(1, 16, 2):
        term = term * ((6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216.0 * k * (2 * k - 1))) / power
        odd = odd + sign * term
        sign = -sign
        term = term * ((6 * k + 1) * (6 * k + 3) * (6 * k + 5) / (216.0 * (k + 1) * (2 * k + 1))) / power
        even = even + sign * term
    angle = power + math.pi / 4
    return (xp.sin(angle) * even - xp.cos(angle) * odd) / (math.sqrt(math.pi) * xp.sqrt(xp.sqrt(x)))
