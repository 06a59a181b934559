"""Special functions, which torch-mlir has no lowering for, by series and recurrences.

Floats of 32 bits and fewer are computed in float64. Sources of the formulas: Abramowitz and Stegun, chapters 6, 7 and
9; C. Lanczos, A precision approximation of the gamma function (1964); C. Chiarella and A. Reichel, On the evaluation of
integrals related to the error function (1968).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
Rule = Callable[[torch.Tensor], torch.Tensor]

_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
"""For the parameter 7."""
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""The numbers B(2k) / 2k, in turn."""
_POINTS = 32
"""On a quarter of a circle: enough for arguments up to `_LARGE`."""
_LARGE = 30.0


def in_float64(rule: Rule) -> Rule:
    """The function of a tensor of any dtype, in the dtype that torch gives it."""

    def compute(x: torch.Tensor) -> torch.Tensor:
        kind = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
        return rule(x.to(torch.float64)).to(kind)

    return compute


def log_gamma(x: torch.Tensor) -> torch.Tensor:
    """The logarithm of the gamma function's absolute value."""
    reflected = torch.where(x < 0.5, 1 - x, x) - 1
    shifted = reflected + 7.5
    total = torch.full_like(x, _LANCZOS[0])
    for at, coefficient in enumerate(_LANCZOS[1:], 1):
        total = total + coefficient / (reflected + at)
    right = 0.5 * math.log(2 * math.pi) + (reflected + 0.5) * torch.log(shifted) - shifted + torch.log(total)
    part = x - torch.floor(x)
    sine = torch.sin(math.pi * torch.where(part > 0.5, 1 - part, part))
    found = torch.where(x < 0.5, math.log(math.pi) - torch.log(sine) - right, right)
    found = torch.where((x <= 0) & (part == 0), math.inf, found)
    return torch.where(torch.isinf(x), math.inf, found)


def digamma(x: torch.Tensor) -> torch.Tensor:
    """The derivative of the logarithm of the gamma function."""
    y = torch.where(x < 0, 1 - x, x)
    steps = torch.zeros_like(x)
    for _ in range(10):
        steps = torch.where(y < 10, steps - 1 / y, steps)
        y = torch.where(y < 10, y + 1, y)
    inverse, series = 1 / (y * y), torch.zeros_like(x)
    for number in reversed(_BERNOULLI):
        series = (series + number) * inverse
    right = steps + torch.log(y) - 0.5 / y - series
    left = right - math.pi / torch.tan(math.pi * (x - torch.trunc(x)))
    found = torch.where(x < 0, left, right)
    found = torch.where((x < 0) & (x == torch.trunc(x)), math.nan, found)
    return torch.where(x == 0, torch.copysign(torch.full_like(x, math.inf), -x), found)


def bessel_i0(x: torch.Tensor) -> torch.Tensor:
    """The modified Bessel function of order 0: a mean over a circle, and its expansion for large arguments."""
    size = torch.abs(x)
    near = torch.where(size > _LARGE, _LARGE, size)
    total = torch.zeros_like(x)
    for at in range(_POINTS):
        total = total + torch.cosh(near * math.cos((at + 0.5) * math.pi / (2 * _POINTS)))
    far = torch.where(size > _LARGE, size, _LARGE)
    term, series = torch.ones_like(x), torch.ones_like(x)
    for at in range(1, 16):
        term = term * ((2 * at - 1) ** 2 / (8.0 * at)) / far
        series = series + term
    # The power in two steps, where it overflows later.
    half = torch.exp(far / 2)
    large = half * (half * (series / torch.sqrt(2 * math.pi * far)))
    return torch.where(torch.isnan(x), x, torch.where(size > _LARGE, large, total / _POINTS))


def inverse_error_function(x: torch.Tensor) -> torch.Tensor:
    """By the inverse of the complement."""
    size = torch.abs(x)
    return torch.where(size > 1, math.nan, torch.copysign(_inverse(size, 1 - size), x))


def inverse_complement(x: torch.Tensor) -> torch.Tensor:
    """The inverse of 1 - erf, from 0 to 1."""
    return torch.where((x < 0) | (x > 1), math.nan, _inverse(1 - x, x))


def _inverse(size: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
    """Of ``size = 1 - rest``, by Newton's steps, far from 0 on the complement, from Winitzki's first guess."""
    logarithm = torch.log(rest * (2 - rest))
    middle = 2 / (math.pi * 0.147) + logarithm / 2
    guess = torch.sqrt(torch.sqrt(middle * middle - logarithm / 0.147) - middle)
    for _ in range(3):
        slope = 2 / math.sqrt(math.pi) * torch.exp(-guess * guess)
        step = (size - torch.erf(guess)) / slope
        found = complement(guess)
        # Far from 0 on the logarithm, which is nearly a parabola.
        far = torch.log(found / torch.where(rest > 0.5, 1.0, rest)) * found / slope
        guess = guess + torch.where(rest > 0.5, step / (1 + guess * step), far)
    return torch.where(rest == 0, math.inf, torch.where(size == 0, 0.0, guess))


def complement(x: torch.Tensor) -> torch.Tensor:
    """1 - erf(x): a sum over the points of a grid, which is exact but for a pole; near 0 the difference."""
    size = torch.abs(x)
    far = torch.where(size > 0.5, size, 0.5)
    square = far * far
    total = 1 / square
    for at in range(1, 14):
        total = total + 2 * math.exp(-at * at / 4) / (at * at / 4 + square)
    pole = torch.where(far < 6, 2 / (torch.exp(4 * math.pi * torch.minimum(far, _of(6.0, far))) - 1), 0.0)
    tail = far * torch.exp(-square) / (2 * math.pi) * total - pole
    tail = torch.where(torch.isinf(far), 0.0, tail)
    right = torch.where(size > 0.5, tail, 1 - torch.erf(size))
    return torch.where(torch.isnan(x), x, torch.where(x < 0, 2 - right, right))


def _of(number: float, like: torch.Tensor) -> torch.Tensor:
    return torch.full((), number, dtype=like.dtype, device=like.device)


decomposes(aten.lgamma.default)(in_float64(log_gamma))
decomposes(aten.digamma.default)(in_float64(digamma))
decomposes(aten.i0.default)(in_float64(bessel_i0))
decomposes(aten.erfinv.default)(in_float64(inverse_error_function))
decomposes(aten.erfc.default)(in_float64(complement))
decomposes(aten.special_erfc.default)(in_float64(complement))
