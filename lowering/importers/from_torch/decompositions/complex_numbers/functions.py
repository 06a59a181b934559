"""Decompose elementary functions and reductions of complex tensors into functions of their parts.

Roots and inverse functions follow W. Kahan, Branch cuts for complex elementary functions (1987), so that branch cuts
are eager's; infinities and NaN follow annex G of C99. Every rule takes complex tensors only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import (
    Axes,
    Operand,
    Operator,
    Results,
    Scalar,
    decomposes_complex,
)

aten = torch.ops.aten
Tensor = torch.Tensor
Rule = Callable[..., Any]


@decomposes_complex(aten.sqrt.default)
def sqrt(z: Tensor) -> Tensor:
    """Return the square root with a non-negative real part."""
    a, b = z.real, z.imag
    half = torch.sqrt(torch.hypot(a, b) / 2 + torch.abs(a) / 2)
    other = torch.where(half == 0, b, b / (2 * half))
    real, imaginary = torch.where(a >= 0, half, torch.abs(other)), torch.where(a >= 0, other, torch.copysign(half, b))
    return torch.complex(torch.where(torch.isinf(b), torch.abs(b), real), torch.where(torch.isinf(b), b, imaginary))


@decomposes_complex(aten.log.default)
def log(z: Tensor) -> Tensor:
    """Return the logarithm; near the unit circle ``|z|² - 1`` is computed from the parts, of complex64 in float64."""
    a, b = torch.abs(z.real).double(), torch.abs(z.imag).double()
    large, small = torch.maximum(a, b), torch.minimum(a, b)
    excess = (large - 1) * (large + 1) + small * small
    is_near = torch.abs(excess) < 0.5
    near = (torch.log1p(torch.where(is_near, excess, 0.0)) / 2).to(z.real.dtype)
    return torch.complex(
        torch.where(is_near, near, torch.log(torch.hypot(z.real, z.imag))), torch.atan2(z.imag, z.real)
    )


@decomposes_complex(aten.log1p.default)
def log1p(z: Tensor) -> Tensor:
    """Return ``log(1 + z)``; where a part is not below 1, the logarithm of the absolute value, as squares overflow."""
    a, b = z.real, z.imag
    is_near = (torch.abs(a) < 1) & (torch.abs(b) < 1)
    near = torch.log1p(torch.where(is_near, a * (2 + a) + b * b, 0.0)) / 2
    return torch.complex(torch.where(is_near, near, torch.log(torch.hypot(1 + a, b))), torch.atan2(b, 1 + a))


@decomposes_complex(aten.sigmoid.default)
def sigmoid(z: Tensor) -> Tensor:
    """Return ``1 / (1 + e**-z)``, or ``e**z / (1 + e**z)`` for negative real parts: neither overflows."""
    is_negative = z.real < 0
    power = torch.exp(torch.complex(-torch.abs(z.real), torch.where(is_negative, z.imag, -z.imag)))
    above = torch.complex(torch.where(is_negative, power.real, 1.0), torch.where(is_negative, power.imag, 0.0))
    return above / (1 + power)


@decomposes_complex(aten.exp.default)
def exp(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    size, root = torch.exp(a), torch.exp(a / 2)
    cosine, sine = _cosine_and_sine(a, b)
    return torch.complex(_scale_without_overflow(size, root, cosine), _scale_without_overflow(size, root, sine))


def _zero(sign: Tensor) -> Tensor:
    """Return 0 with the sign of `sign`. TVM takes 0 and -0 as one literal and folds a select between them."""
    return 1 / torch.copysign(torch.full_like(sign, math.inf), sign)


def _cosine_and_sine(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cosine and sine of `b`; where `a` is infinite and `b` is not finite, constants with the right sign."""
    is_far = torch.isinf(a) & ~torch.isfinite(b)
    side = torch.where(a > 0, math.nan, torch.copysign(torch.ones_like(b), b))
    return torch.where(is_far, 1.0, torch.cos(b)), torch.where(is_far, side, torch.sin(b))


def _zero_times(factor: Tensor) -> Tensor:
    return torch.where(torch.isnan(factor), 0.0, 0 * factor)


def _scale_without_overflow(size: Tensor, root: Tensor, factor: Tensor) -> Tensor:
    """Return ``size * factor``, in two steps where `size` overflows; an exact zero stays zero."""
    result = torch.where(torch.isinf(size), root * factor * root, size * factor)
    return torch.where(factor == 0, factor, result)


@decomposes_complex(aten.expm1.default)
def expm1(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    half = torch.sin(b / 2)
    return torch.complex(torch.expm1(a) * torch.cos(b) - 2 * half * half, torch.exp(a) * torch.sin(b))


@decomposes_complex(aten.sinh.default)
def sinh(z: Tensor) -> Tensor:
    along, across = _hyperbolic(z)
    cosine, sine = _cosine_and_sine(torch.abs(z.real), z.imag)
    return torch.complex(along(cosine), across(sine))


@decomposes_complex(aten.cosh.default)
def cosh(z: Tensor) -> Tensor:
    along, across = _hyperbolic(z)
    cosine, sine = _cosine_and_sine(torch.abs(z.real), z.imag)
    return torch.complex(across(cosine), along(sine))


def _hyperbolic(z: Tensor) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    size = torch.abs(z.real)
    body = torch.copysign(torch.ones_like(size), z.real)
    root = torch.exp(size / 2) * math.sqrt(0.5)
    return (
        lambda factor: (
            torch.where(size == 0, _zero_times(factor), _scale_without_overflow(torch.sinh(size), root, factor)) * body
        ),
        lambda factor: _scale_without_overflow(torch.cosh(size), root, factor),
    )


@decomposes_complex(aten.tanh.default)
def tanh(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    level, narrow = torch.tanh(a), 1 / torch.cosh(a)
    slope = torch.where(torch.isinf(a) & ~torch.isfinite(b), _zero(b), torch.tan(b))
    below = 1 + (level * slope) ** 2
    real, imaginary = level * (1 + slope * slope) / below, slope * narrow * narrow / below
    return torch.complex(torch.where((a == 0) & torch.isnan(slope), a, real), torch.where(b == 0, b, imaginary))


@decomposes_complex(aten.asinh.default)
def asinh(z: Tensor) -> Tensor:
    return _times_minus_i(asin(_times_i(z)))


@decomposes_complex(aten.asin.default)
def asin(z: Tensor) -> Tensor:
    below, above = sqrt(torch.complex(1 - z.real, -z.imag)), sqrt(torch.complex(1 + z.real, z.imag))
    real = torch.atan2(z.real, below.real * above.real - below.imag * above.imag)
    near = torch.complex(real, torch.asinh(below.real * above.imag - below.imag * above.real))
    return _select_finite(z, _times_minus_i(_asinh_of_nonfinite(_times_i(z))), near)


def _select_finite(z: Tensor, far: Tensor, near: Tensor) -> Tensor:
    is_finite = torch.isfinite(z.real) & torch.isfinite(z.imag)
    return torch.complex(torch.where(is_finite, near.real, far.real), torch.where(is_finite, near.imag, far.imag))


def _asinh_of_nonfinite(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    quarter = torch.copysign(torch.where(torch.isinf(a), math.pi / 4, torch.full_like(b, math.pi / 2)), b)
    on_axis = torch.isinf(a) & torch.isfinite(b) | torch.isnan(a) & (b == 0)
    angle = torch.where(on_axis, _zero(b), math.nan)
    across = torch.where(torch.isnan(a), math.nan, quarter)
    is_known = torch.isinf(a) | torch.isinf(b)
    size = torch.where(is_known, torch.copysign(torch.full_like(a, math.inf), a), math.nan)
    return torch.complex(size, torch.where(torch.isinf(b), across, angle))


@decomposes_complex(aten.acos.default)
def acos(z: Tensor) -> Tensor:
    below, above = sqrt(torch.complex(1 - z.real, -z.imag)), sqrt(torch.complex(1 + z.real, z.imag))
    imaginary = torch.asinh(above.real * below.imag - above.imag * below.real)
    near = torch.complex(2 * torch.atan2(below.real, above.real), imaginary)
    far = _times_minus_i(_asinh_of_nonfinite(_times_i(z)))
    return _select_finite(z, torch.complex(math.pi / 2 - far.real, -far.imag), near)


@decomposes_complex(aten.acosh.default)
def acosh(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    below, above = sqrt(torch.complex(a - 1, b)), sqrt(torch.complex(a + 1, b))
    real = torch.asinh(below.real * above.real + below.imag * above.imag)
    # With a NaN part the angle is defined only where the real part is 0.
    angle = torch.where((a == 0) & torch.isnan(b), math.pi / 2, torch.atan2(b, a))
    is_known = torch.isinf(a) | torch.isinf(b)
    far = torch.complex(torch.where(is_known, torch.full_like(a, math.inf), math.nan), angle)
    return _select_finite(z, far, torch.complex(real, 2 * torch.atan2(below.imag, above.real)))


@decomposes_complex(aten.atanh.default)
def atanh(z: Tensor) -> Tensor:
    """Return atanh, for a positive real part: nothing cancels. Near 1 the squared imaginary part underflows."""
    a, b = torch.abs(z.real), torch.abs(z.imag)
    bounds = torch.finfo(a.dtype)
    is_far = (a >= 16 / bounds.eps) | (b >= 16 / bounds.eps)
    is_beside_one = (a == 1) & (b < bounds.eps**2)
    distance = (1 - a) ** 2 + b * b
    size = torch.log1p(4 * a / torch.where(is_beside_one, 1.0, distance)) / 4
    size = torch.where(is_beside_one, (math.log(2) - torch.log(b)) / 2, size)
    longest = torch.maximum(a, b)
    # For large |z| atanh(z) is 1 / z.
    ratio, other = a / longest, b / longest
    size = torch.where(is_far, ratio / (ratio * ratio + other * other) / longest, size)
    large, small = torch.maximum(a, b), torch.minimum(a, b)
    angle = torch.atan2(2 * z.imag, (1 - large) * (1 + large) - small * small) / 2
    quarter = torch.copysign(torch.full_like(b, math.pi / 2), z.imag)
    near = torch.complex(torch.copysign(size, z.real), torch.where(is_far, quarter, angle))
    return _select_finite(z, _atanh_of_nonfinite(z), near)


def _atanh_of_nonfinite(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    is_still = torch.isinf(a) | torch.isinf(b) | (a == 0)
    real = torch.where(is_still, _zero(a), math.nan)
    is_across = torch.isinf(b) | torch.isinf(a) & torch.isfinite(b)
    quarter = torch.copysign(torch.full_like(b, math.pi / 2), b)
    return torch.complex(real, torch.where(is_across, quarter, math.nan))


def rotated_by_i(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the function ``-i f(i z)``: sin of sinh, tan of tanh, atan of atanh."""
    return lambda z: _times_minus_i(function(_times_i(z)))


def _times_i(z: Tensor) -> Tensor:
    return torch.complex(-z.imag, z.real)


def _times_minus_i(z: Tensor) -> Tensor:
    return torch.complex(z.imag, -z.real)


@decomposes_complex(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def power(z: Operand, exponent: Operand) -> Tensor:
    """Return ``z ** exponent``; small integer exponents are multiplications."""
    kind = torch.result_type(z, exponent)
    if isinstance(exponent, float) and exponent == 0.5:
        return sqrt(z)
    if type(exponent) in (int, float) and exponent in (0, 1, 2, 3, -1, -2):
        return _integer_power(z, int(exponent))
    base, exponent = _as_dtype(z, kind), _as_dtype(exponent, kind)
    result = exp(_product(log(base), exponent))
    at_zero = torch.where(exponent == 0, 1.0, 0.0).to(result.real.dtype)
    is_zero = (base == 0) & (exponent.real >= 0)
    return torch.complex(torch.where(is_zero, at_zero, result.real), torch.where(is_zero, 0.0, result.imag))


def _integer_power(z: Tensor, exponent: int) -> Tensor:
    if exponent == 0:
        return torch.ones_like(z)
    result = z
    for _ in range(abs(exponent) - 1):
        result = result * z
    return reciprocal(result) if exponent < 0 else result


@decomposes_complex(aten.reciprocal.default)
def reciprocal(z: Tensor) -> Tensor:
    """Return ``1 / z`` by Smith's algorithm (Communications of the ACM 5(8), 1962); of 0 it is real infinity."""
    a, b = z.real, z.imag
    by_real = torch.abs(a) >= torch.abs(b)
    large, small = torch.where(by_real, a, b), torch.where(by_real, b, a)
    ratio = small / large
    scale = 1 / (large + small * ratio)
    # `0 + x` and `0 - x` are never -0.
    real, imaginary = torch.where(by_real, 1.0, 0 + ratio) * scale, torch.where(by_real, 0 - ratio, -1.0) * scale
    is_zero = (a == 0) & (b == 0)
    return torch.complex(torch.where(is_zero, math.inf, real), torch.where(is_zero, math.nan, imaginary))


def _product(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x * y``, infinite where a factor is; NaN parts of an infinite factor count as 0 (C99, annex G)."""
    is_endless = [torch.isinf(z.real) | torch.isinf(z.imag) for z in (x, y)]
    (a, b), (c, d) = (_parts(z) for z in (x, y))
    real, imaginary = a * c - b * d, a * d + b * c
    is_lost = torch.isnan(real) & torch.isnan(imaginary) & (is_endless[0] | is_endless[1])
    (a, b), (c, d) = (_boxed(z, endless) for z, endless in zip((x, y), is_endless, strict=True))
    return torch.complex(
        torch.where(is_lost, math.inf * (a * c - b * d), real),
        torch.where(is_lost, math.inf * (a * d + b * c), imaginary),
    )


def _boxed(z: Tensor, is_endless: Tensor) -> tuple[Tensor, Tensor]:
    finite = [torch.where(torch.isnan(part), _zero(part), part) for part in _parts(z)]
    units = [torch.copysign(torch.isinf(part).to(part.dtype), part) for part in _parts(z)]
    real, imaginary = (torch.where(is_endless, unit, part) for unit, part in zip(units, finite, strict=True))
    return real, imaginary


def _as_dtype(z: Operand, kind: torch.dtype) -> Tensor:
    if isinstance(z, Tensor):
        return z.to(kind)
    number = complex(z)
    real, imaginary = (torch.full((), part, dtype=kind.to_real()) for part in (number.real, number.imag))
    return torch.complex(real, imaginary)


@decomposes_complex(aten.prod.dim_int)
def product(z: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Results:
    """Return the product along axis `dim` by repeated halving, or of all elements."""
    z = z if dtype is None else z.to(dtype)
    along, axis = (z.flatten(), 0) if dim is None else (z, dim)
    count = along.shape[axis]
    if not isinstance(count, int):
        return NotImplemented
    if count == 0:
        return torch.ones_like(along.sum(axis, keepdim))
    while count > 1:
        half = count // 2
        result = along.narrow(axis, 0, half) * along.narrow(axis, half, half)
        along = torch.cat([result, along.narrow(axis, count - 1, 1)], axis) if count % 2 else result
        count = along.shape[axis]
    return along if keepdim and dim is not None else along.squeeze(axis)


def on_both_parts(operator: Operator) -> Rule:
    """Return the rule that applies `operator`, a linear reduction, to both parts."""

    def apply(z: Tensor, *arguments: Any, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
        if dtype is not None and not dtype.is_complex:
            return operator(z != 0 if dtype == torch.bool else z.to(dtype), *arguments, dtype=dtype, **options)
        parts = (part if dtype is None else part.to(dtype.to_real()) for part in _parts(z))
        return torch.complex(*(operator(part, *arguments, **options) for part in parts))

    return apply


def on_absolute_values(operator: Operator) -> Rule:
    """Return the rule that applies `operator`, a norm, to the absolute values."""

    def apply(z: Tensor, *arguments: Any, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
        real = {} if dtype is None else {"dtype": dtype.to_real()}
        return operator(torch.abs(z), *arguments, **options, **real)

    return apply


@decomposes_complex(aten.var.correction)
def variance(z: Tensor, dim: Axes = None, *, correction: Scalar = None, keepdim: bool = False) -> Tensor:
    """Return the variance, which is the sum of both parts' variances."""
    return sum(aten.var.correction(part, dim, correction=correction, keepdim=keepdim) for part in _parts(z))  # type: ignore[return-value]


def either_part(test: Any) -> Rule:
    """Return the predicate that is true where `test` is for either part."""
    return lambda z: test(z.real) | test(z.imag)


def _scaled(z: Tensor, factor: float) -> Tensor:
    return torch.complex(z.real * factor, z.imag * factor)


@decomposes_complex(aten.logaddexp.default)
def logaddexp(z: Tensor, other: Tensor) -> Tensor:
    """Return ``log(exp(z) + exp(other))``, with the exponential of the difference to the one of larger real part."""
    is_smaller = z.real < other.real
    small, large = torch.where(is_smaller, z, other), torch.where(is_smaller, other, z)
    is_endless = torch.isinf(large.real) & (small.real == large.real)
    endless = torch.where(large.real < 0, large, torch.log(torch.exp(small) + torch.exp(large)))
    result = torch.where(is_endless, endless, torch.log1p(torch.exp(small - large)) + large)
    is_nan = torch.isnan(z) | torch.isnan(other)
    return torch.complex(torch.where(is_nan, math.nan, result.real), torch.where(is_nan, math.nan, result.imag))


@decomposes_complex(aten.sgn.default)
def sign(z: Tensor) -> Tensor:
    """Return ``z / |z|``, and 0 for 0."""
    size = torch.abs(z)
    return torch.complex(*(torch.where(size == 0, 0.0, part / size) for part in _parts(z)))


def _parts(z: Tensor) -> tuple[Tensor, Tensor]:
    return z.real, z.imag


decomposes_complex(aten.rsqrt.default)(lambda z: reciprocal(sqrt(z)))
decomposes_complex(aten.square.default)(lambda z: z * z)
decomposes_complex(aten.ldexp.Tensor)(lambda z, exponent: z * torch.pow(2.0, exponent))
decomposes_complex(aten.log2.default)(lambda z: _scaled(log(z), 1 / math.log(2)))
decomposes_complex(aten.log10.default)(lambda z: _scaled(log(z), 1 / math.log(10)))
decomposes_complex(aten.exp2.default)(lambda z: exp(_scaled(z, math.log(2))))
decomposes_complex(aten.sin.default)(rotated_by_i(sinh))
decomposes_complex(aten.cos.default)(lambda z: cosh(_times_i(z)))
decomposes_complex(aten.tan.default)(rotated_by_i(tanh))
decomposes_complex(aten.atan.default)(rotated_by_i(atanh))
decomposes_complex(aten.isnan.default)(either_part(torch.isnan))
decomposes_complex(aten.isinf.default)(either_part(torch.isinf))
decomposes_complex(aten.isfinite.default)(lambda z: torch.isfinite(z.real) & torch.isfinite(z.imag))
decomposes_complex(aten.mean.default)(on_both_parts(aten.mean.default))
decomposes_complex(aten.sum.default)(on_both_parts(aten.sum.default))
decomposes_complex(aten.cumsum.default)(on_both_parts(aten.cumsum.default))
decomposes_complex(aten.prod.default)(lambda z, *, dtype=None: product(z, dtype=dtype))
decomposes_complex(aten.linalg_vector_norm.default)(on_absolute_values(aten.linalg_vector_norm.default))
decomposes_complex(aten.norm.ScalarOpt_dim)(on_absolute_values(aten.norm.ScalarOpt_dim))
