"""Special functions of NumPy and torch in the kernel language, and functions of the bits of a float.

Python never runs them. Series are computed in float64 and rounded once. Sources: Abramowitz and Stegun 6.3.18, 9.6.16
and 9.7.1; C. Lanczos, A precision approximation of the gamma function (1964); M. Wichura, Algorithm AS 241 (1988).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse

# --- bits ------------------------------------------------------------------------------------------------------------


def frexp(x):
    x = _floats(x)
    # A subnormal number is scaled, so that its exponent is in the bits.
    wide = x.astype(np.float64)
    is_small = np.abs(wide) < 2.0**-1000
    scaled = np.where(is_small, wide * 2.0**60, wide)
    bits = scaled.view(np.int64)
    exponent = ((bits >> 52) & 0x7FF) - np.where(is_small, 1082, 1022)
    mantissa = ((bits & -0x7FF0000000000001) | (1022 << 52)).view(np.float64)
    is_kept = (wide == 0) | ~np.isfinite(wide)
    return np.where(is_kept, wide, mantissa).astype(x.dtype), np.where(is_kept, 0, exponent).astype(np.int32)


def nextafter(x1, x2):
    like = _floats(np.add(x1, x2))
    a, b = np.zeros_like(like) + x1, np.zeros_like(like) + x2
    bits = a.view(_whole(like))
    step = np.where((b > a) == (a > 0), 1, -1)
    moved = (bits + step.astype(bits.dtype)).view(like.dtype)
    smallest = np.ones_like(bits).view(like.dtype)
    moved = np.where(a == 0, np.copysign(smallest, b), moved)
    return np.where(np.isnan(a) | np.isnan(b), a + b, np.where(a == b, b, moved))


def spacing(x):
    x = _floats(x)
    size = np.abs(x)
    bits = size.view(_whole(x))
    gap = (bits + np.ones_like(bits)).view(x.dtype) - size
    if x.dtype.itemsize == 2:
        # NumPy's distance of halves is positive, and that to 0 of negative powers of two.
        is_power = (x < 0) & ((bits & 0x3FF) == 0) & (bits >= 0x800)
        gap = np.where(is_power, gap / 2, np.where(x == -65504, 32, gap))
    else:
        gap = np.where(x < 0, -gap, gap)
    return np.where(np.isfinite(x), gap, np.nan).astype(x.dtype)


def _floats(x):
    x = np.asarray(x)
    if x.dtype.is_complex:
        refuse("it takes real numbers")
    if x.dtype.name == "bfloat16":
        refuse("it takes float16, float32 and float64")
    return x if x.dtype.is_float else x.astype(np.float64)


def _whole(x):
    return {2: np.int16, 4: np.int32, 8: np.int64}[x.dtype.itemsize]


# --- series ----------------------------------------------------------------------------------------------------------


def i0(x):
    x = np.asarray(x)
    if x.dtype.is_complex:
        refuse("numpy.i0 takes real numbers")
    return _bessel_i0(np.abs(x.astype(np.float64))).astype(x.dtype if x.dtype.is_float else np.float64)


def _bessel_i0(size):
    """Return I of order 0: a mean over a quarter of a circle, beyond 30 an asymptotic expansion."""
    near = np.minimum(size, 30.0)
    total = 0.0
    for k in range(32):
        total = total + np.cosh(near * math.cos((k + 0.5) * math.pi / 64))
    far = np.maximum(size, 30.0)
    term, series = 1.0, 1.0
    for k in range(1, 16):
        term = term * ((2 * k - 1) ** 2 / (8.0 * k)) / far
        series = series + term
    # The exponential in two factors, which overflow later.
    half = np.exp(far / 2)
    return np.where(
        np.isnan(size), size, np.where(size > 30.0, half * (half * (series / np.sqrt(2 * math.pi * far))), total / 32)
    )


def torch_i0(input):
    return _in_float64(input, lambda x: _bessel_i0(np.abs(x)))


def digamma(input):
    return _in_float64(input, _digamma)


def lgamma(input):
    return _in_float64(input, _lgamma)


def erfinv(input):
    return _in_float64(input, _erfinv)


def _in_float64(input, function):
    if input.dtype.is_complex:
        refuse("it takes real numbers")
    return function(input.astype(np.float64)).astype(input.dtype if input.dtype.is_float else np.float32)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""The Bernoulli numbers B(2k), from k = 1."""


def _digamma(x):
    y = np.where(x < 0, 1 - x, x)
    steps = np.zeros_like(x)
    for _ in range(10):
        steps = np.where(y < 10, steps - 1 / y, steps)
        y = np.where(y < 10, y + 1, y)
    inverse, series = 1 / (y * y), np.zeros_like(x)
    for k in range(7, 0, -1):
        series = (series + _BERNOULLI[k - 1] / (2 * k)) * inverse
    right = steps + np.log(y) - 0.5 / y - series
    left = right - math.pi / np.tan(math.pi * (x - np.trunc(x)))
    result = np.where(x < 0, np.where(x == np.trunc(x), np.nan, left), right)
    return np.where(x == 0, np.copysign(np.inf, -x), result)


_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
"""Coefficients of the Lanczos approximation with g = 7."""


def _lgamma(x):
    reflected = np.where(x < 0.5, 1 - x, x) - 1
    shifted = reflected + 7.5
    total = np.zeros_like(x) + _LANCZOS[0]
    for k in range(1, 9):
        total = total + _LANCZOS[k] / (reflected + k)
    right = 0.5 * math.log(2 * math.pi) + (reflected + 0.5) * np.log(shifted) - shifted + np.log(total)
    part = x - np.floor(x)
    sine = np.sin(math.pi * np.where(part > 0.5, 1 - part, part))
    result = np.where(x < 0.5, math.log(math.pi) - np.log(sine) - right, right)
    result = np.where((x == 1) | (x == 2), 0.0, result)
    return np.where(np.isinf(x) | ((x <= 0) & (part == 0)), np.inf, result)


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


def _erfinv(x):
    """Return the inverse of erf, which is the normal quantile of ``(x + 1) / 2`` over the root of 2."""
    half, rest = x / 2, (1 - np.abs(x)) / 2
    near = half * _ratio(0.180625 - half * half, _CENTRE)
    root = np.sqrt(-np.log(np.where(rest > 0, rest, 0.5)))
    tail = np.where(root <= 5, _ratio(root - 1.6, _TAIL), _ratio(root - 5, _FAR_TAIL))
    tail = np.where(rest > 0, tail, np.where(rest == 0, np.inf, np.nan))
    return np.where(np.abs(half) <= 0.425, near, np.copysign(tail, x)) / math.sqrt(2)


def _ratio(r, coefficients):
    sums = [_polynomial(r, part) for part in coefficients]
    return sums[0] / sums[1]


def _polynomial(r, coefficients):
    total = np.zeros_like(r)
    for k in range(len(coefficients) - 1, -1, -1):
        total = total * r + coefficients[k]
    return total


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "numpy.frexp": frexp, "numpy.nextafter": nextafter, "numpy.spacing": spacing, "numpy.i0": i0,
    "torch.frexp": frexp, "torch.nextafter": nextafter, "torch.i0": torch_i0, "torch.special.i0": torch_i0,
    "torch.digamma": digamma, "torch.special.digamma": digamma, "torch.special.psi": digamma,
    "torch.lgamma": lgamma, "torch.special.gammaln": lgamma,
    "torch.erfinv": erfinv, "torch.special.erfinv": erfinv,
}  # fmt: skip
METHODS = {"digamma": digamma, "lgamma": lgamma, "erfinv": erfinv, "i0": torch_i0, "nextafter": nextafter}
"""Methods of torch's tensors."""
