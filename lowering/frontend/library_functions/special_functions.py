"""Special functions of NumPy and torch in the kernel language, and functions of the bits of a float.

Python never runs them. They are computed in float64 and rounded once, by the definitions of
`lowering/special_functions`, which imported programs share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse
from mlirtri.lowering.special_functions import bessel, definitions

# --- bits ------------------------------------------------------------------------------------------------------------


def frexp(x):
    x = _floats(x)
    mantissa, exponent = definitions.frexp(np, x, _whole(x), {2: 10, 4: 23, 8: 52}[x.dtype.itemsize])
    return mantissa, exponent.astype(np.int32)


def nextafter(x1, x2):
    # Zeros are negative, as 0.0 + -0.0 is 0.0.
    zeros = np.full_like(_floats(np.add(x1, x2)), -0.0)
    return definitions.nextafter(np, zeros + x1, zeros + x2, _whole(zeros))


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
    return _bessel_i0(x.astype(np.float64)).astype(x.dtype if x.dtype.is_float else np.float64)


def _bessel_i0(x):
    return definitions.modified_first(np, x, 0, False)


def torch_i0(input):
    return _in_float64(input, _bessel_i0)


def digamma(input):
    return _in_float64(input, lambda x: definitions.digamma(np, x))


def lgamma(input):
    return _in_float64(input, lambda x: definitions.lgamma(np, x))


def erfinv(input):
    return _in_float64(input, lambda x: definitions.erfinv(np, x))


def polygamma(n, input):
    if n < 0:
        refuse("polygamma is the derivative of an order n of at least 0")
    if n == 0:
        return digamma(input)
    if n == 1:
        return _trigamma(input)
    factor = 1.0 if n % 2 else -1.0
    for k in tuple(range(2, n + 1)):
        factor = factor * k
    return _in_float64(input, lambda x: _zeta(n + 1.0, x) * factor)


def polygamma_of(input, n):
    return polygamma(n, input)


def _trigamma(input):
    """Return the derivative of digamma, reflected in the tensor's own float dtype, as eager's is."""
    x = input if input.dtype == np.float64 else input.astype(np.float32)
    is_left = x < 0.5
    right = np.where(is_left, 1 - x, x)
    result = np.where(np.isinf(right), 0.0, _zeta(2.0, right.astype(np.float64)).astype(x.dtype))
    sine = np.sin(x * np.pi)
    return np.where(is_left, (np.pi * np.pi) / (sine * sine) - result, result).astype(
        input.dtype if input.dtype.is_float else np.float32
    )


def zeta(input, other):
    s, q = np.broadcast_arrays(input, other)
    kind = np.add(input, other).dtype
    s, q = s.astype(np.float64), q.astype(np.float64)
    is_known = (s > 1) & ((q > 0) | ((q != np.floor(q)) & (s == np.floor(s))))
    result = _zeta(np.where(is_known, s, 2.0), np.where(is_known, q, 10.0))
    # The limits of the powers, as in eager.
    infinite = float("inf")
    result = np.where(np.isinf(s), np.where(q < 1, infinite, np.where(q == 1, 1.0, float("nan"))), result)
    is_pole = (s == 1) | (~(s < 1) & (q <= 0) & (q == np.floor(q)))
    return np.where(is_known, result, np.where(is_pole, infinite, float("nan"))).astype(
        kind if kind.is_float else np.float32
    )


def gammainc(input, other):
    return _incomplete_gamma(input, other, False)


def gammaincc(input, other):
    return _incomplete_gamma(input, other, True)


def _incomplete_gamma(input, other, is_upper):
    """Return the regularized incomplete gamma function: a series below a + 1, a continued fraction above, by Lentz."""
    kind = np.add(input, other).dtype
    if not kind.is_float:
        refuse("it takes floats")
    first, second = np.broadcast_arrays(input, other)
    a, x = first.astype(np.float64), second.astype(np.float64)
    is_plain = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    p, y = np.where(is_plain, a, 1.0), np.where(is_plain, x, 1.0)
    is_lower = y < p + 1
    factor = np.exp(p * np.log(y) - y - definitions.lgamma(np, p))
    lower = factor * _gamma_series(p, np.where(is_lower, y, 0.0))
    upper = factor * _gamma_fraction(p, np.where(is_lower, p + 2, y))
    value = np.where(is_lower, 1 - lower, upper) if is_upper else np.where(is_lower, lower, 1 - upper)
    limit = np.where(np.isinf(x), 1.0, float("nan"))
    limit = np.where(np.isinf(a), np.where(np.isinf(x), float("nan"), 0.0), limit)
    limit = np.where(a == 0, np.where(x > 0, 1.0, float("nan")), np.where(x == 0, 0.0, limit))
    limit = np.where((a < 0) | (x < 0), float("nan"), limit)
    return np.where(is_plain, value, 1 - limit if is_upper else limit).astype(kind)


def _gamma_series(a, x):
    term, k = 1 / a, 1.0
    total = term
    while k < 20000 and np.any(term > total * 1e-17):
        term = term * x / (a + k)
        total, k = total + term, k + 1
    return total


def _gamma_fraction(a, x):
    d = 1 / (x - a + 1)
    value, c, ratio, k = d, d * 0 + 1e300, d * 0 + 2, 1.0
    while k < 20000 and np.any(np.abs(ratio - 1) > 1e-16):
        numerator, denominator = k * (a - k), x - a + 1 + 2 * k
        d = 1 / (denominator + numerator * d)
        c = denominator + numerator / c
        ratio = c * d
        value, k = value * ratio, k + 1
    return value


def _zeta(s, q):
    """Return Hurwitz's zeta function of a number above 1, starting where the terms decrease."""
    is_known = (q > 0) | (q != np.floor(q))
    argument = np.where(is_known, q, 10.0)
    total = np.zeros_like(argument)
    for _ in range(9):
        total, argument = total + argument**-s, argument + 1
    while np.any(argument <= 9):
        is_low = argument <= 9
        total = np.where(is_low, total + argument**-s, total)
        argument = np.where(is_low, argument + 1, argument)
    return np.where(is_known, definitions.zeta_completed(s, total, argument), float("inf"))


def erfc(input):
    return _in_float64(input, lambda x: definitions.erfc(np, x))


def erfcx(input):
    return _in_float64(input, lambda x: definitions.erfcx(np, x))


def ndtr(input):
    return _in_float64(input, lambda x: definitions.erfc(np, x * -math.sqrt(0.5)) / 2)


def log_ndtr(input):
    return _in_float64(input, lambda x: definitions.log_ndtr(np, x))


def ndtri(input):
    return _in_float64(input, lambda p: definitions.normal_quantile(np, p - 0.5, np.where(p > 0.5, 1 - p, p)))


def i0e(input):
    return _in_float64(input, lambda x: definitions.modified_first(np, x, 0, True))


def i1(input):
    return _in_float64(input, lambda x: definitions.modified_first(np, x, 1, False))


def i1e(input):
    return _in_float64(input, lambda x: definitions.modified_first(np, x, 1, True))


def mvlgamma(input, p):
    constant = 0.25 * p * (p - 1) * math.log(math.pi)
    total = input.astype(np.float64) * 0 + constant
    for i in range(p):
        total = total + definitions.lgamma(np, input.astype(np.float64) - 0.5 * i)
    return total.astype(input.dtype if input.dtype.is_float else np.float32)


def special_round(input, *, decimals=0):
    return np.round(input, decimals)


def _in_float64(input, function):
    if input.dtype.is_complex:
        refuse("it takes real numbers")
    return function(input.astype(np.float64)).astype(input.dtype if input.dtype.is_float else np.float32)


def bessel_j0(input):
    return _in_float64(input, lambda x: bessel.first_kind(np, x, 0))


def bessel_j1(input):
    return _in_float64(input, lambda x: bessel.first_kind(np, x, 1))


def bessel_y0(input):
    return _in_float64(input, lambda x: bessel.second_kind(np, x, 0))


def bessel_y1(input):
    return _in_float64(input, lambda x: bessel.second_kind(np, x, 1))


def modified_bessel_k0(input):
    return _in_float64(input, lambda x: bessel.modified_second(np, x, 0, False))


def modified_bessel_k1(input):
    return _in_float64(input, lambda x: bessel.modified_second(np, x, 1, False))


def scaled_modified_bessel_k0(x):
    return _in_float64(x, lambda x: bessel.modified_second(np, x, 0, True))


def scaled_modified_bessel_k1(x):
    return _in_float64(x, lambda x: bessel.modified_second(np, x, 1, True))


def spherical_bessel_j0(x):
    return _in_float64(x, lambda x: bessel.spherical(np, x))


def airy_ai(x):
    return _in_float64(x, lambda x: bessel.airy(np, x))


_BESSEL = (
    bessel_j0, bessel_j1, bessel_y0, bessel_y1, modified_bessel_k0, modified_bessel_k1, scaled_modified_bessel_k0,
    scaled_modified_bessel_k1, spherical_bessel_j0, airy_ai,
)  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"torch.special.{function.__name__}": function for function in _BESSEL},
    "torch.special.modified_bessel_i0": torch_i0, "torch.special.modified_bessel_i1": i1,
    "numpy.frexp": frexp, "numpy.nextafter": nextafter, "numpy.spacing": spacing, "numpy.i0": i0,
    "torch.special.zeta": zeta, "torch.igamma": gammainc, "torch.special.gammainc": gammainc,
    "torch.igammac": gammaincc, "torch.special.gammaincc": gammaincc,
    "torch.frexp": frexp, "torch.nextafter": nextafter, "torch.i0": torch_i0, "torch.special.i0": torch_i0,
    "torch.digamma": digamma, "torch.special.digamma": digamma, "torch.special.psi": digamma,
    "torch.lgamma": lgamma, "torch.special.gammaln": lgamma,
    "torch.erfinv": erfinv, "torch.special.erfinv": erfinv,
    "torch.polygamma": polygamma, "torch.special.polygamma": polygamma,
    "torch.erfc": erfc, "torch.special.erfc": erfc, "torch.special.erfcx": erfcx, "torch.special.ndtr": ndtr,
    "torch.special.log_ndtr": log_ndtr, "torch.special.ndtri": ndtri, "torch.special.i0e": i0e,
    "torch.special.i1": i1, "torch.special.i1e": i1e, "torch.mvlgamma": mvlgamma,
    "torch.special.multigammaln": mvlgamma, "torch.special.round": special_round,
}  # fmt: skip
METHODS = {
    "digamma": digamma, "lgamma": lgamma, "erfinv": erfinv, "i0": torch_i0, "nextafter": nextafter,
    "igamma": gammainc, "igammac": gammaincc,
    "polygamma": polygamma_of, "erfc": erfc, "mvlgamma": mvlgamma, "frexp": frexp,
}  # fmt: skip
"""Methods of torch's tensors."""
