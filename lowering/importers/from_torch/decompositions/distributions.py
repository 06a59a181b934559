"""Special functions of probability distributions, which torch-mlir has no lowering for.

They are computed in float64. Sources of the formulas: Abramowitz and Stegun, chapters 7, 9 and 23, and those that
`torch_special.py` names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop_op

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes
from mlirtri.lowering.importers.from_torch.decompositions.special import (
    complement,
    digamma,
    in_float64,
    inverse_complement,
)

aten = torch.ops.aten
Tensor = torch.Tensor

_POINTS = 32
_LARGE = 30.0
"""Up to here the points on a quarter of a circle are enough."""
_BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
    854513 / 138,
    -236364091 / 2730,
)
"""The numbers B(2k), in turn."""


def _bessel(x: Tensor, order: int, is_scaled: bool) -> Tensor:
    """The modified Bessel function of order 0 or 1, a mean over a circle, times ``exp(-|x|)`` if it `is_scaled`."""
    size = torch.abs(x)
    near = torch.where(size > _LARGE, _LARGE, size)
    total = torch.zeros_like(x)
    for at in range(_POINTS):
        cosine = math.cos((at + 0.5) * math.pi / (2 * _POINTS))
        total = total + (torch.sinh(near * cosine) * cosine if order else torch.cosh(near * cosine))
    far = torch.where(size > _LARGE, size, _LARGE)
    term, series = torch.ones_like(x), torch.ones_like(x)
    for at in range(1, 16):
        term = term * (((2 * at - 1) ** 2 - 4 * order) / (8.0 * at)) / far
        series = series + term
    small, large = total / _POINTS, series / torch.sqrt(2 * math.pi * far)
    if is_scaled:
        small = small * torch.exp(-near)
    else:
        # The power in two steps, where it overflows later.
        half = torch.exp(far / 2)
        large = half * (half * large)
    found = torch.where(size > _LARGE, large, small)
    return torch.where(torch.isnan(x), x, torch.where(x < 0, -found, found) if order else found)


def scaled_complement(x: Tensor) -> Tensor:
    """``exp(x * x) * erfc(x)``; far out its expansion."""
    near = torch.clamp(x, -27.0, 5.0)
    far = torch.where(x > 5, x, 5.0)
    inverse = 0.5 / far / far
    series = torch.ones_like(x)
    for at in reversed(range(1, 24)):
        # A continued fraction, from its end.
        series = 1 + (at * inverse) / series
    found = torch.where(x > 5, 1 / (far * series * math.sqrt(math.pi)), torch.exp(near * near) * complement(near))
    return torch.where(torch.isnan(x), x, torch.where(x < -26.7, math.inf, found))


def normal_logarithm(x: Tensor) -> Tensor:
    """The logarithm of the normal distribution's integral."""
    turned = x * -math.sqrt(0.5)
    left = torch.log(scaled_complement(torch.where(x < -1, turned, 1.0)) / 2) - turned * turned
    return torch.where(x < -1, left, torch.log1p(complement(-turned) * -0.5))


def normal_inverse(p: Tensor) -> Tensor:
    """The inverse of the normal distribution's integral."""
    tail = torch.where(p > 0.5, 1 - p, p)
    found = math.sqrt(2) * inverse_complement(2 * tail)
    return torch.where(p < 0.5, -found, found)


def entropy(x: Tensor) -> Tensor:
    """``-x * log(x)``"""
    inside = -x * torch.log(torch.where(x > 0, x, 1.0))
    return torch.where(torch.isnan(x), x, torch.where(x < 0, -math.inf, torch.where(x == 0, 0.0, inside)))


def x_log1p_y(x: Tensor, y: Tensor) -> Tensor:
    """``x * log1p(y)``, and 0 where x is."""
    return torch.where(torch.isnan(y), y, torch.where(x == 0, 0.0, x * torch.log1p(y)))


def of_two(rule: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Tensor]:
    """The function of two tensors, or of a tensor and a number, of any dtypes."""

    def compute(x: Any, y: Any) -> Tensor:
        kind = torch.result_type(x, y)
        kind = kind if kind.is_floating_point else torch.get_default_dtype()
        tensor = x if isinstance(x, Tensor) else y
        x, y = (
            (each if isinstance(each, Tensor) else torch.full((), each, device=tensor.device)).to(torch.float64)
            for each in (x, y)
        )
        return rule(x, y).to(kind)

    return compute


def zeta(s: Tensor, q: Tensor) -> Tensor:
    """Hurwitz's zeta function by the sum of Euler and Maclaurin, which begins where the terms fall."""
    is_known = (s > 1) & ((q > 0) | ((q != torch.floor(q)) & (s == torch.floor(s))))
    at = torch.where(is_known, q, 10.0)
    start = (torch.zeros((), dtype=torch.int64, device=q.device), torch.zeros_like(at), at)
    _, total, at = while_loop_op(_goes_on, _with_term, start, (s.expand(at.shape).contiguous(),))
    power = at**-s
    total = total + at * power / (s - 1) + power / 2
    factor = power * s / at
    for number, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + factor * (bernoulli / math.factorial(2 * number))
        factor = factor * ((s + (2 * number - 1)) / at) * ((s + 2 * number) / at)
    pole = torch.where((s == 1) | ((s > 1) & (q <= 0) & (q == torch.floor(q))), math.inf, math.nan)
    return torch.where(is_known, total, pole)


def _goes_on(count: Tensor, total: Tensor, at: Tensor, s: Tensor) -> Tensor:
    return (count < 9) | (at <= 9).any()


def _with_term(count: Tensor, total: Tensor, at: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    is_summed = (count < 9) | (at <= 9)
    return count + 1, torch.where(is_summed, total + at**-s, total), torch.where(is_summed, at + 1, at)


@decomposes(aten.polygamma.default)
def polygamma(order: int, x: Tensor) -> Tensor:
    """The derivative of order `order` of the digamma function."""
    if order == 0:
        return in_float64(digamma)(x)
    factor = float(math.factorial(order)) if order <= 170 else math.inf
    factor = factor if order % 2 else -factor
    result = in_float64(lambda x: zeta(torch.full_like(x, order + 1), x) * factor)(x)
    return torch.where(x == math.inf, 0.0, result).to(result.dtype) if order == 1 else result


decomposes(aten.special_i0e.default)(in_float64(lambda x: _bessel(x, 0, True)))
decomposes(aten.special_i1.default)(in_float64(lambda x: _bessel(x, 1, False)))
decomposes(aten.special_i1e.default)(in_float64(lambda x: _bessel(x, 1, True)))
decomposes(aten.special_erfcx.default)(in_float64(scaled_complement))
decomposes(aten.special_log_ndtr.default)(in_float64(normal_logarithm))
decomposes(aten.special_ndtri.default)(in_float64(normal_inverse))
decomposes(aten.special_entr.default)(in_float64(entropy))
decomposes(aten.special_xlog1py.default)(of_two(x_log1p_y))
decomposes(aten.special_xlog1py.other_scalar)(of_two(x_log1p_y))
decomposes(aten.special_xlog1py.self_scalar)(of_two(x_log1p_y))
decomposes(aten.special_zeta.default)(of_two(zeta))
decomposes(aten.special_zeta.other_scalar)(of_two(zeta))
decomposes(aten.special_zeta.self_scalar)(of_two(zeta))
