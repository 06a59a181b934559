"""Decompose Bessel, modified Bessel and Airy functions, computed in float64 and rounded once.

I, J and Y are means over a circle, which converge exponentially (Abramowitz and Stegun 9.1.18, 9.6.16), Y with
Neumann's series 9.1.88 and 9.1.89 summed under the mean; far from 0 they are asymptotic expansions (9.2.5, 9.7.1). K
is a series (9.6.13), a trapezoidal sum of 9.6.24 or 9.7.2, Ai a series (10.4.2), an expansion (10.4.60) or K (10.4.14).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import decomposes
from mlirtri.lowering.importers.from_torch.decompositions.elementwise.special_functions import in_float64
from mlirtri.lowering.special_functions.definitions import LARGE, POINTS, modified_first

aten = torch.ops.aten
Tensor = torch.Tensor

FAR = 25.0
"""The largest argument for which `POINTS` suffice for J and Y."""
NEUMANN_TERMS = 26
"""Terms of Neumann's series: J of orders above 50 is below 1e-13 for arguments up to `FAR`."""
STEP = 0.125
"""The step of the trapezoidal sum for K, of `STEPS` points."""
STEPS = 34


def _means_over_circle(near: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Return J of order 0 or 1, and the sum of Neumann's series for Y of that order."""
    total, neumann = torch.zeros_like(near), torch.zeros_like(near)
    for point in range(POINTS):
        angle = (point + 0.5) * math.pi / (2 * POINTS)
        sine = math.sin(angle)
        if order:
            value = torch.sin(near * sine)
            total = total + value * sine
            terms = ((-1) ** k * (k + 0.5) / (k * (k + 1)) * math.sin((2 * k + 1) * angle) for k in _NEUMANN)
        else:
            value = torch.cos(near * sine)
            total = total + value
            terms = ((-1) ** k / k * math.cos(2 * k * angle) for k in _NEUMANN)
        neumann = neumann + value * math.fsum(terms)
    return total / POINTS, neumann / POINTS


_NEUMANN = range(1, NEUMANN_TERMS)


def _hankel(far: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Return P and Q of Hankel's expansions."""
    even, odd = torch.ones_like(far), torch.zeros_like(far)
    term = torch.ones_like(far)
    for k in range(1, 20):
        term = term * ((4 * order - (2 * k - 1) ** 2) / (8.0 * k)) / far
        sign = -1 if k % 4 in (2, 3) else 1
        even, odd = (even, odd + sign * term) if k % 2 else (even + sign * term, odd)
    return even, odd


def first_kind(x: Tensor, order: int) -> Tensor:
    """Return J of order 0 or 1."""
    size = torch.abs(x)
    near, far = torch.where(size > FAR, FAR, size), torch.where(size > FAR, size, FAR)
    even, odd = _hankel(far, order)
    cosine, sine = _cosine_and_sine(far, order)
    large = torch.sqrt(2 / (math.pi * far)) * (even * cosine - odd * sine)
    result = torch.where(size > FAR, large, _means_over_circle(near, order)[0])
    return torch.where(torch.isnan(x), x, torch.where(x < 0, -result, result) if order else result)


def _cosine_and_sine(x: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of ``x - (2 * order + 1) * pi / 4``, without rounding the difference."""
    cosine, sine = torch.cos(x), torch.sin(x)
    both = (sine - cosine, -sine - cosine) if order else (cosine + sine, sine - cosine)
    return both[0] * math.sqrt(0.5), both[1] * math.sqrt(0.5)


def second_kind(x: Tensor, order: int) -> Tensor:
    """Return Y of order 0 or 1: minus infinity at 0, NaN below."""
    near, far = torch.where((x > FAR) | (x <= 0), FAR, x), torch.where(x > FAR, x, FAR)
    bessel, neumann = _means_over_circle(near, order)
    small = (2 / math.pi) * (torch.log(near / 2) + (_EULER - order)) * bessel - (4 / math.pi) * neumann
    small = small - 2 / (math.pi * near) * _means_over_circle(near, 0)[0] if order else small
    even, odd = _hankel(far, order)
    cosine, sine = _cosine_and_sine(far, order)
    large = torch.sqrt(2 / (math.pi * far)) * (even * sine + odd * cosine)
    result = torch.where(x > FAR, large, small)
    return torch.where(x > 0, result, torch.where(x == 0, -math.inf, math.nan))


_EULER = 0.57721566490153286061


def modified_second(x: Tensor, order: int, is_scaled: bool) -> Tensor:
    """Return K of order 0 or 1, scaled by ``exp(x)`` if asked for: infinity at 0, NaN below."""
    near = torch.where((x > 2) | (x <= 0), 2.0, x)
    far = torch.where(x > 2, x, 2.0)
    square, small = near * near / 4, torch.zeros_like(x)
    for k in reversed(range(16)):
        small = small * square + _digammas(k, order) / (math.factorial(k) * math.factorial(k + order))
    logarithm = torch.log(near / 2) * modified_first(torch, near, order, False)
    small = 1 / near + logarithm - near / 4 * small if order else small - logarithm
    large = _decaying(far, float(order))
    small, large = (small * torch.exp(near), large) if is_scaled else (small, large * torch.exp(-far))
    result = torch.where(x > 2, large, small)
    return torch.where(x > 0, result, torch.where(x == 0, math.inf, math.nan))


def _digammas(k: int, order: int) -> float:
    """Return psi(k + 1), for order 1 psi(k + 1) + psi(k + 2)."""
    first = math.fsum(1 / i for i in range(1, k + 1)) - _EULER
    return 2 * first + 1 / (k + 1) if order else first


def _decaying(x: Tensor, order: float) -> Tensor:
    """Return ``exp(x) * K(x)`` of real `order`, for x from 2: above `LARGE` by the asymptotic expansion."""
    near, far = torch.where(x > LARGE, LARGE, x), torch.where(x > LARGE, x, LARGE)
    total = torch.full_like(x, 0.5)
    for k in range(1, STEPS):
        total = total + torch.exp(near * (1 - math.cosh(k * STEP))) * math.cosh(order * k * STEP)
    term, series = torch.ones_like(x), torch.ones_like(x)
    for k in range(1, 16):
        term = term * ((4 * order * order - (2 * k - 1) ** 2) / (8.0 * k)) / far
        series = series + term
    return torch.where(x > LARGE, torch.sqrt(math.pi / (2 * far)) * series, total * STEP)


def spherical(x: Tensor) -> Tensor:
    """Return ``sin(x) / x``."""
    size = torch.abs(x)
    ratio = torch.sin(x) / torch.where(size == 0, 1.0, x)
    return torch.where(torch.isinf(x), 0.0, torch.where(size < 1e-4, 1 - x * x / 6, ratio))


def airy(x: Tensor) -> Tensor:
    """Return Ai: a series between -8 and 2, else K of order 1/3 or the expansion for negative arguments."""
    near = torch.where((x > 2) | (x < -8), 0.0, x)
    cube = near * near * near
    first, second = torch.ones_like(x), torch.ones_like(x)
    for k in reversed(range(1, 36)):
        first = 1 + first * cube / ((3 * k - 1) * 3 * k)
        second = 1 + second * cube / (3 * k * (3 * k + 1))
    small = _AIRY_AT_0 * first + _AIRY_SLOPE_AT_0 * near * second
    right = torch.where(x > 2, x, 2.0)
    power = right * torch.sqrt(right) * (2 / 3)
    decaying = torch.sqrt(right / 3) / math.pi * _decaying(power, 1 / 3) * torch.exp(-power)
    left = torch.where(x < -8, -x, 8.0)
    result = torch.where(x > 2, decaying, torch.where(x < -8, _airy_oscillating(left), small))
    return torch.where(torch.isnan(x) | torch.isinf(x), math.nan, result)


_AIRY_AT_0 = 3 ** (-2 / 3) / math.gamma(2 / 3)
_AIRY_SLOPE_AT_0 = -(3 ** (-1 / 3)) / math.gamma(1 / 3)


def _airy_oscillating(x: Tensor) -> Tensor:
    """Return Ai of ``-x`` for x from 8."""
    power = x * torch.sqrt(x) * (2 / 3)
    term, even, odd = torch.ones_like(x), torch.ones_like(x), torch.zeros_like(x)
    for k in range(1, 16):
        term = term * ((6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216.0 * k * (2 * k - 1))) / power
        sign = -1 if k % 4 in (2, 3) else 1
        even, odd = (even, odd + sign * term) if k % 2 else (even + sign * term, odd)
    angle = power + math.pi / 4
    return (torch.sin(angle) * even - torch.cos(angle) * odd) / (math.sqrt(math.pi) * torch.sqrt(torch.sqrt(x)))


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "i0": lambda x: modified_first(torch, x, 0, False),
    "special_i0e": lambda x: modified_first(torch, x, 0, True),
    "special_i1": lambda x: modified_first(torch, x, 1, False),
    "special_i1e": lambda x: modified_first(torch, x, 1, True),
    "special_modified_bessel_i0": lambda x: modified_first(torch, x, 0, False),
    "special_modified_bessel_i1": lambda x: modified_first(torch, x, 1, False),
    "special_modified_bessel_k0": lambda x: modified_second(x, 0, False),
    "special_modified_bessel_k1": lambda x: modified_second(x, 1, False),
    "special_scaled_modified_bessel_k0": lambda x: modified_second(x, 0, True),
    "special_scaled_modified_bessel_k1": lambda x: modified_second(x, 1, True),
    "special_bessel_j0": lambda x: first_kind(x, 0),
    "special_bessel_j1": lambda x: first_kind(x, 1),
    "special_bessel_y0": lambda x: second_kind(x, 0),
    "special_bessel_y1": lambda x: second_kind(x, 1),
    "special_spherical_bessel_j0": spherical,
    "special_airy_ai": airy,
}
for _name, _function in FUNCTIONS.items():
    decomposes(getattr(aten, _name).default)(in_float64(_function))
