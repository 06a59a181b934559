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


def digamma(input):
    return _rounded(definitions.digamma(np, _wide(input)), input)


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
    return _rounded(_zeta(n + 1.0, _wide(input)) * factor, input)


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


def mvlgamma(input, p):
    if p < 1:
        refuse("p is 1 or more")
    x = _wide(input)
    total = x * 0 + 0.25 * p * (p - 1) * math.log(math.pi)
    for i in range(p):
        total = total + definitions.lgamma(np, x - 0.5 * i)
    return _rounded(total, input)


def _quantile(p):
    return definitions.normal_quantile(np, p - 0.5, np.where(p > 0.5, 1 - p, p))


def _wide(input):
    if input.dtype.is_complex:
        refuse("it takes real numbers")
    return input.astype(np.float64)


def _rounded(result, input):
    return result.astype(input.dtype if input.dtype.is_float else np.float32)


_OF_TENSORS: dict[str, Callable[..., Any]] = {
    "i0": lambda input: _rounded(_bessel_i0(_wide(input)), input),
    "i0e": lambda input: _rounded(definitions.modified_first(np, _wide(input), 0, True), input),
    "i1": lambda input: _rounded(definitions.modified_first(np, _wide(input), 1, False), input),
    "i1e": lambda input: _rounded(definitions.modified_first(np, _wide(input), 1, True), input),
    "digamma": digamma,
    "lgamma": lambda input: _rounded(definitions.lgamma(np, _wide(input)), input),
    "erfinv": lambda input: _rounded(definitions.erfinv(np, _wide(input)), input),
    "erfc": lambda input: _rounded(definitions.erfc(np, _wide(input)), input),
    "erfcx": lambda input: _rounded(definitions.erfcx(np, _wide(input)), input),
    "ndtr": lambda input: _rounded(definitions.erfc(np, _wide(input) * -math.sqrt(0.5)) / 2, input),
    "log_ndtr": lambda input: _rounded(definitions.log_ndtr(np, _wide(input)), input),
    "ndtri": lambda input: _rounded(_quantile(_wide(input)), input),
    "polygamma": polygamma,
    "multigammaln": mvlgamma,
    "zeta": zeta,
    "gammainc": gammainc,
    "gammaincc": gammaincc,
    "bessel_j0": lambda input: _rounded(bessel.first_kind(np, _wide(input), 0), input),
    "bessel_j1": lambda input: _rounded(bessel.first_kind(np, _wide(input), 1), input),
    "bessel_y0": lambda input: _rounded(bessel.second_kind(np, _wide(input), 0), input),
    "bessel_y1": lambda input: _rounded(bessel.second_kind(np, _wide(input), 1), input),
    "modified_bessel_k0": lambda input: _rounded(bessel.modified_second(np, _wide(input), 0, False), input),
    "modified_bessel_k1": lambda input: _rounded(bessel.modified_second(np, _wide(input), 1, False), input),
    "scaled_modified_bessel_k0": lambda x: _rounded(bessel.modified_second(np, _wide(x), 0, True), x),
    "scaled_modified_bessel_k1": lambda x: _rounded(bessel.modified_second(np, _wide(x), 1, True), x),
    "spherical_bessel_j0": lambda x: _rounded(bessel.spherical(np, _wide(x)), x),
    "airy_ai": lambda x: _rounded(bessel.airy(np, _wide(x)), x),
    "round": lambda input, *, decimals=0: np.round(input, decimals),
}
"""Functions of `torch.special` by name."""
_OF_TORCH = ("i0", "digamma", "lgamma", "erfinv", "polygamma", "erfc")
"""Those that are functions and methods of torch as well."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch.special.modified_bessel_i0": _OF_TENSORS["i0"], "torch.special.modified_bessel_i1": _OF_TENSORS["i1"],
    "numpy.frexp": frexp, "numpy.nextafter": nextafter, "numpy.spacing": spacing, "numpy.i0": i0,
    "torch.igamma": gammainc, "torch.igammac": gammaincc,
    "torch.frexp": frexp, "torch.nextafter": nextafter, "torch.mvlgamma": mvlgamma,
    "torch.special.psi": digamma, "torch.special.gammaln": _OF_TENSORS["lgamma"],
    **{f"torch.special.{name}": function for name, function in _OF_TENSORS.items() if name != "lgamma"},
    **{f"torch.{name}": _OF_TENSORS[name] for name in _OF_TORCH},
}  # fmt: skip
METHODS = {
    "igamma": gammainc, "igammac": gammaincc, "nextafter": nextafter, "mvlgamma": mvlgamma, "frexp": frexp,
    **{name: _OF_TENSORS[name] for name in _OF_TORCH},
    "polygamma": lambda input, n: polygamma(n, input),
}  # fmt: skip
"""Methods of torch's tensors."""
