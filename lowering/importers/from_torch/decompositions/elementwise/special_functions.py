"""Decompose special functions into series, continued fractions and recurrences, computed in float64 and rounded once.

Those that kernels have too are in `lowering/special_functions`. Sources of the others: Abramowitz and Stegun, chapters
6, 7, 9 and 23; C. Chiarella and A. Reichel, On the evaluation of integrals related to the error function (1968).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Operand, counted_loop, decomposes, while_loop
from mlirtri.lowering.special_functions import definitions

aten = torch.ops.aten
Tensor = torch.Tensor


def in_float64(rule: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the rule that computes in float64 and rounds to the operand's dtype, or the default one of integers."""

    def compute(x: Tensor) -> Tensor:
        kind = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
        return rule(x.to(torch.float64)).to(kind)

    return compute


def ndtri(p: Tensor) -> Tensor:
    """Return the quantile of the normal distribution."""
    return definitions.normal_quantile(torch, p - 0.5, torch.where(p > 0.5, 1 - p, p))


def xlog1py(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x * log1p(y)``, and 0 where x is 0."""
    return definitions.times_logarithm(torch, x, y, torch.log1p(y))


def in_float64_binary(rule: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Operand, Operand], Tensor]:
    """Return the rule of two operands, one of which may be a Python number, computed in float64."""

    def compute(x: Operand, y: Operand) -> Tensor:
        kind = torch.result_type(x, y)
        kind = kind if kind.is_floating_point else torch.get_default_dtype()
        device = (x if isinstance(x, Tensor) else y).device
        x, y = (
            each if isinstance(each, Tensor) else torch.full((), each, dtype=kind, device=device) for each in (x, y)
        )
        return rule(x.to(torch.float64), y.to(torch.float64)).to(kind)

    return compute


def log_of_sum(power: Callable[[Tensor], Tensor], base: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the rule of `logaddexp` or `logaddexp2`, which gives NaN where an operand is; torch-mlir loses it."""

    def rule(x: Tensor, y: Tensor) -> Tensor:
        if x.is_complex() or y.is_complex():
            return NotImplemented
        kind = torch.result_type(x, y)
        x, y = (operand.to(torch.float64 if kind == torch.float64 else torch.float32) for operand in (x, y))
        larger = torch.maximum(x, y) + torch.log1p(power(-(x - y).abs())) / math.log(base)
        # Of two infinities of one sign the difference is NaN.
        return torch.where(x == y, x + math.log(2, base), larger).to(kind)

    return rule


decomposes(aten.logaddexp.default)(log_of_sum(torch.exp, math.e))
decomposes(aten.logaddexp2.default)(log_of_sum(torch.exp2, 2.0))


def zeta(s: Tensor, q: Tensor) -> Tensor:
    """Return Hurwitz's zeta function by Euler-Maclaurin summation, starting where the terms decrease."""
    is_known = (s > 1) & ((q > 0) | ((q != torch.floor(q)) & (s == torch.floor(s))))
    argument = torch.where(is_known, q, 10.0)
    start, s_everywhere = (torch.zeros_like(argument), argument), s.expand(argument.shape).contiguous()
    total, argument = counted_loop(_zeta_condition, _zeta_term, start, (s_everywhere,))
    total = definitions.zeta_completed(s, total, argument)
    pole = torch.where((s == 1) | ((s > 1) & (q <= 0) & (q == torch.floor(q))), math.inf, math.nan)
    return torch.where(is_known, total, pole)


def _zeta_condition(count: Tensor, total: Tensor, argument: Tensor, s: Tensor) -> Tensor:
    return (count < 9) | (argument <= 9).any()


def _zeta_term(count: Tensor, total: Tensor, argument: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    is_summed = (count < 9) | (argument <= 9)
    return torch.where(is_summed, total + argument**-s, total), torch.where(is_summed, argument + 1, argument)


@decomposes(aten.polygamma.default)
def polygamma(order: int, x: Tensor) -> Tensor:
    """Return the polygamma function: the derivative of order `order` of digamma."""
    if order == 0:
        return in_float64(partial(definitions.digamma, torch))(x)
    if order == 1:
        return trigamma(x)
    factor = float(math.factorial(order)) if order <= 170 else math.inf
    factor = factor if order % 2 else -factor
    return in_float64(lambda x: zeta(torch.full_like(x, order + 1), x) * factor)(x)


def trigamma(x: Tensor) -> Tensor:
    """Return the derivative of digamma, reflected in float32 or float64: eager's poles are where its sine is 0."""
    kind = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
    x = x if x.dtype == torch.float64 else x.float()
    is_left = x < 0.5
    right = torch.where(is_left, 1 - x, x)
    result = in_float64(lambda y: zeta(torch.full_like(y, 2.0), y))(right)
    result = torch.where(right == math.inf, 0.0, result)
    sine = torch.sin(x * math.pi)
    return torch.where(is_left, (math.pi * math.pi) / (sine * sine) - result, result).to(kind)


decomposes(aten.lgamma.default)(in_float64(partial(definitions.lgamma, torch)))
decomposes(aten.digamma.default)(in_float64(partial(definitions.digamma, torch)))
decomposes(aten.erfinv.default)(in_float64(partial(definitions.erfinv, torch)))
decomposes(aten.erfc.default)(in_float64(partial(definitions.erfc, torch)))
decomposes(aten.special_erfc.default)(in_float64(partial(definitions.erfc, torch)))
decomposes(aten.special_erfcx.default)(in_float64(partial(definitions.erfcx, torch)))
decomposes(aten.special_log_ndtr.default)(in_float64(partial(definitions.log_ndtr, torch)))
decomposes(aten.special_ndtri.default)(in_float64(ndtri))
decomposes(aten.special_entr.default)(in_float64(partial(definitions.entr, torch)))
decomposes(aten.special_xlog1py.default)(in_float64_binary(xlog1py))
decomposes(aten.special_xlog1py.other_scalar)(in_float64_binary(xlog1py))
decomposes(aten.special_xlog1py.self_scalar)(in_float64_binary(xlog1py))
decomposes(aten.special_zeta.default)(in_float64_binary(zeta))
decomposes(aten.special_zeta.other_scalar)(in_float64_binary(zeta))
decomposes(aten.special_zeta.self_scalar)(in_float64_binary(zeta))


GAMMA_TERMS = 20000
"""The largest number of terms of an incomplete gamma function."""


def _gamma_parts(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the lower and upper regularized incomplete gamma functions in float64, and where the lower is exact.

    The lower one is a series where ``x < a + 1``, the upper one a continued fraction elsewhere (NIST Digital Library of
    Mathematical Functions, 8.7.1 and 8.9.2), by the algorithm of Lentz.
    """
    is_plain = (a > 0) & (x > 0) & torch.isfinite(a) & torch.isfinite(x)
    a, x = torch.where(is_plain, a, 1.0), torch.where(is_plain, x, 1.0)
    is_lower = x < a + 1
    factor = torch.exp(a * torch.log(x) - x - torch.lgamma(a))
    lower = factor * _gamma_series(a, torch.where(is_lower, x, 0.0))
    upper = factor * _gamma_fraction(a, torch.where(is_lower, a + 2, x))
    return torch.where(is_lower, lower, 1 - upper), torch.where(is_lower, 1 - lower, upper), is_plain


def _gamma_series(a: Tensor, x: Tensor) -> Tensor:
    def is_open(k: Tensor, term: Tensor, total: Tensor, a: Tensor, x: Tensor) -> Tensor:
        return (k < GAMMA_TERMS) & (term > total * 1e-17).any()

    def add(k: Tensor, term: Tensor, total: Tensor, a: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        term = term * x / (a + k)
        return k + 1, term, total + term

    first = 1 / a
    return while_loop(is_open, add, (torch.ones((), dtype=torch.float64, device=a.device), first, first), (a, x))[2]


def _gamma_fraction(a: Tensor, x: Tensor) -> Tensor:
    def is_open(k: Tensor, value: Tensor, ratio: Tensor, c: Tensor, d: Tensor, a: Tensor, x: Tensor) -> Tensor:
        return (k < GAMMA_TERMS) & (torch.abs(ratio - 1) > 1e-16).any()

    def step(k: Tensor, value: Tensor, ratio: Tensor, c: Tensor, d: Tensor, a: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        numerator, denominator = k * (a - k), x - a + 1 + 2 * k
        d = 1 / (denominator + numerator * d)
        c = denominator + numerator / c
        return k + 1, value * c * d, c * d, c, d

    first = 1 / (x - a + 1)
    start = torch.ones((), dtype=torch.float64, device=a.device), first, first * 0 + 2, first * 0 + 1e300, first
    return while_loop(is_open, step, start, (a, x))[1]


def incomplete_gamma(is_upper: bool) -> Callable[..., Tensor]:
    """Return the rule of `igamma` or `igammac`, in float64, with eager's limits."""

    def apply(a: Tensor, x: Tensor) -> Tensor:
        kind = torch.promote_types(a.dtype, x.dtype)
        a, x = torch.broadcast_tensors(a.double(), x.double())
        lower, upper, is_plain = _gamma_parts(a, x)
        limit = torch.where(torch.isinf(x), 1.0, math.nan)
        limit = torch.where(torch.isinf(a), torch.where(torch.isinf(x), math.nan, 0.0), limit)
        limit = torch.where(a == 0, torch.where(x > 0, 1.0, math.nan), torch.where(x == 0, 0.0, limit))
        limit = torch.where((a < 0) | (x < 0), math.nan, limit)
        result = torch.where(is_plain, upper, 1 - limit) if is_upper else torch.where(is_plain, lower, limit)
        return result.to(kind)

    return apply


decomposes(aten.igamma.default)(incomplete_gamma(False))
decomposes(aten.igammac.default)(incomplete_gamma(True))
