"""Elementary functions and reductions of complex tensors, by the functions of their real and imaginary parts.

Roots and inverse functions are Kahan's ("Branch cuts for complex elementary functions", 1987), so that their branch
cuts are where eager has them; infinities and NaN are those of C99's annex G. Every rule is of complex tensors alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes_complex

aten = torch.ops.aten
Tensor = torch.Tensor
Rule = Callable[..., Any]


@decomposes_complex(aten.sqrt.default)
def sqrt(z: Tensor) -> Tensor:
    """The root with a real part that is not negative."""
    a, b = z.real, z.imag
    half = torch.sqrt(torch.hypot(a, b) / 2 + torch.abs(a) / 2)
    other = torch.where(half == 0, b, b / (2 * half))
    real, imaginary = torch.where(a >= 0, half, torch.abs(other)), torch.where(a >= 0, other, torch.copysign(half, b))
    return torch.complex(torch.where(torch.isinf(b), torch.abs(b), real), torch.where(torch.isinf(b), b, imaginary))


@decomposes_complex(aten.log.default)
def log(z: Tensor) -> Tensor:
    """Near the unit circle ``|z|² - 1`` is taken from the parts, of float32 in float64."""
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
    """Far from zero the logarithm of ``1 + z``, as squares overflow there."""
    a, b = z.real, z.imag
    is_near = (torch.abs(a) < 1) & (torch.abs(b) < 1)
    near = torch.log1p(torch.where(is_near, a * (2 + a) + b * b, 0.0)) / 2
    return torch.complex(torch.where(is_near, near, torch.log(torch.hypot(1 + a, b))), torch.atan2(b, 1 + a))


@decomposes_complex(aten.sigmoid.default)
def sigmoid(z: Tensor) -> Tensor:
    """``1 / (1 + e**-z)``, or of negative real parts ``e**z / (1 + e**z)``: neither overflows."""
    is_negative = z.real < 0
    power = torch.exp(torch.complex(-torch.abs(z.real), torch.where(is_negative, z.imag, -z.imag)))
    above = torch.complex(torch.where(is_negative, power.real, 1.0), torch.where(is_negative, power.imag, 0.0))
    return above / (1 + power)


@decomposes_complex(aten.exp.default)
def exp(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    size, root = torch.exp(a), torch.exp(a / 2)
    cosine, sine = _direction(a, b)
    return torch.complex(_lengthened(size, root, cosine), _lengthened(size, root, sine))


def _zero(sign: Tensor) -> Tensor:
    """0 with that sign. TVM takes 0 and -0 for the same literal, and a choice between them for none."""
    return 1 / torch.copysign(torch.full_like(sign, math.inf), sign)


def _direction(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of `b`; beside an infinite `a` those that are not known do not matter."""
    is_far = torch.isinf(a) & ~torch.isfinite(b)
    side = torch.where(a > 0, math.nan, torch.copysign(torch.ones_like(b), b))
    return torch.where(is_far, 1.0, torch.cos(b)), torch.where(is_far, side, torch.sin(b))


def _still(factor: Tensor) -> Tensor:
    """``0 * factor``, also of what is not known."""
    return torch.where(torch.isnan(factor), 0.0, 0 * factor)


def _lengthened(size: Tensor, root: Tensor, factor: Tensor) -> Tensor:
    """``size * factor``, in two steps where the size alone overflows; an exact zero wins over infinity and NaN."""
    found = torch.where(torch.isinf(size), root * factor * root, size * factor)
    return torch.where(factor == 0, factor, found)


@decomposes_complex(aten.expm1.default)
def expm1(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    half = torch.sin(b / 2)
    return torch.complex(torch.expm1(a) * torch.cos(b) - 2 * half * half, torch.exp(a) * torch.sin(b))


@decomposes_complex(aten.sinh.default)
def sinh(z: Tensor) -> Tensor:
    along, across = _hyperbolic(z)
    cosine, sine = _direction(torch.abs(z.real), z.imag)
    return torch.complex(along(cosine), across(sine))


@decomposes_complex(aten.cosh.default)
def cosh(z: Tensor) -> Tensor:
    along, across = _hyperbolic(z)
    cosine, sine = _direction(torch.abs(z.real), z.imag)
    return torch.complex(across(cosine), along(sine))


def _hyperbolic(z: Tensor) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """What multiplies by the hyperbolic sine of the real part, and by its cosine."""
    size = torch.abs(z.real)
    turn = torch.copysign(torch.ones_like(size), z.real)
    root = torch.exp(size / 2) * math.sqrt(0.5)
    return (
        lambda factor: torch.where(size == 0, _still(factor), _lengthened(torch.sinh(size), root, factor)) * turn,
        lambda factor: _lengthened(torch.cosh(size), root, factor),
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
    return _turned_back(asin(_turned(z)))


@decomposes_complex(aten.asin.default)
def asin(z: Tensor) -> Tensor:
    below, above = sqrt(torch.complex(1 - z.real, -z.imag)), sqrt(torch.complex(1 + z.real, z.imag))
    real = torch.atan2(z.real, below.real * above.real - below.imag * above.imag)
    near = torch.complex(real, torch.asinh(below.real * above.imag - below.imag * above.real))
    return _unless_finite(z, _turned_back(_far_asinh(_turned(z))), near)


def _unless_finite(z: Tensor, far: Tensor, near: Tensor) -> Tensor:
    is_finite = torch.isfinite(z.real) & torch.isfinite(z.imag)
    return torch.complex(torch.where(is_finite, near.real, far.real), torch.where(is_finite, near.imag, far.imag))


def _far_asinh(z: Tensor) -> Tensor:
    """C99's annex G, of infinities and NaN."""
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
    far = _turned_back(_far_asinh(_turned(z)))
    return _unless_finite(z, torch.complex(math.pi / 2 - far.real, -far.imag), near)


@decomposes_complex(aten.acosh.default)
def acosh(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    below, above = sqrt(torch.complex(a - 1, b)), sqrt(torch.complex(a + 1, b))
    real = torch.asinh(below.real * above.real + below.imag * above.imag)
    # What has no size has a direction only where its real part is 0.
    angle = torch.where((a == 0) & torch.isnan(b), math.pi / 2, torch.atan2(b, a))
    is_known = torch.isinf(a) | torch.isinf(b)
    far = torch.complex(torch.where(is_known, torch.full_like(a, math.inf), math.nan), angle)
    return _unless_finite(z, far, torch.complex(real, 2 * torch.atan2(below.imag, above.real)))


@decomposes_complex(aten.atanh.default)
def atanh(z: Tensor) -> Tensor:
    """Of a positive real part, where nothing cancels; beside 1 the square of the imaginary part vanishes."""
    a, b = torch.abs(z.real), torch.abs(z.imag)
    bounds = torch.finfo(a.dtype)
    is_far = (a >= 16 / bounds.eps) | (b >= 16 / bounds.eps)
    is_beside_one = (a == 1) & (b < bounds.eps**2)
    distance = (1 - a) ** 2 + b * b
    size = torch.log1p(4 * a / torch.where(is_beside_one, 1.0, distance)) / 4
    size = torch.where(is_beside_one, (math.log(2) - torch.log(b)) / 2, size)
    longest = torch.maximum(a, b)
    # Far out it is the real part of 1 / z.
    ratio, other = a / longest, b / longest
    size = torch.where(is_far, ratio / (ratio * ratio + other * other) / longest, size)
    large, small = torch.maximum(a, b), torch.minimum(a, b)
    angle = torch.atan2(2 * z.imag, (1 - large) * (1 + large) - small * small) / 2
    quarter = torch.copysign(torch.full_like(b, math.pi / 2), z.imag)
    near = torch.complex(torch.copysign(size, z.real), torch.where(is_far, quarter, angle))
    return _unless_finite(z, _far_atanh(z), near)


def _far_atanh(z: Tensor) -> Tensor:
    """C99's annex G, of infinities and NaN."""
    a, b = z.real, z.imag
    is_still = torch.isinf(a) | torch.isinf(b) | (a == 0)
    real = torch.where(is_still, _zero(a), math.nan)
    is_across = torch.isinf(b) | torch.isinf(a) & torch.isfinite(b)
    quarter = torch.copysign(torch.full_like(b, math.pi / 2), b)
    return torch.complex(real, torch.where(is_across, quarter, math.nan))


def of_turned(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """``-i f(i z)``, as sin is of sinh."""
    return lambda z: _turned_back(function(_turned(z)))


def _turned(z: Tensor) -> Tensor:
    return torch.complex(-z.imag, z.real)


def _turned_back(z: Tensor) -> Tensor:
    return torch.complex(z.imag, -z.real)


@decomposes_complex(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def power(z: Any, exponent: Any) -> Tensor:
    """``z ** exponent``; small whole exponents are products."""
    kind = torch.result_type(z, exponent)
    if isinstance(exponent, float) and exponent == 0.5:
        return sqrt(z)
    if type(exponent) in (int, float) and exponent in (0, 1, 2, 3, -1, -2):
        return _whole_power(z, int(exponent))
    base, exponent = _of_kind(z, kind), _of_kind(exponent, kind)
    found = exp(_product(log(base), exponent))
    at_zero = torch.where(exponent == 0, 1.0, 0.0).to(found.real.dtype)
    is_zero = (base == 0) & (exponent.real >= 0)
    return torch.complex(torch.where(is_zero, at_zero, found.real), torch.where(is_zero, 0.0, found.imag))


def _whole_power(z: Tensor, exponent: int) -> Tensor:
    if exponent == 0:
        return torch.ones_like(z)
    found = z
    for _ in range(abs(exponent) - 1):
        found = found * z
    return reciprocal(found) if exponent < 0 else found


@decomposes_complex(aten.reciprocal.default)
def reciprocal(z: Tensor) -> Tensor:
    """Smith's algorithm (Communications of the ACM 5(8), 1962); of zero it is infinite along the real axis."""
    a, b = z.real, z.imag
    by_real = torch.abs(a) >= torch.abs(b)
    large, small = torch.where(by_real, a, b), torch.where(by_real, b, a)
    ratio = small / large
    scale = 1 / (large + small * ratio)
    # Differences from 0, which are never -0.
    real, imaginary = torch.where(by_real, 1.0, 0 + ratio) * scale, torch.where(by_real, 0 - ratio, -1.0) * scale
    is_zero = (a == 0) & (b == 0)
    return torch.complex(torch.where(is_zero, math.inf, real), torch.where(is_zero, math.nan, imaginary))


def _product(x: Tensor, y: Tensor) -> Tensor:
    """``x * y``, infinite where one of them is, as C99's annex G has it: a part that is not known is 0 beside it."""
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
    """The direction of what is infinite; of others what is no NaN."""
    known = [torch.where(torch.isnan(part), _zero(part), part) for part in _parts(z)]
    units = [torch.copysign(torch.isinf(part).to(part.dtype), part) for part in _parts(z)]
    real, imaginary = (torch.where(is_endless, unit, part) for unit, part in zip(units, known, strict=True))
    return real, imaginary


def _of_kind(z: Any, kind: torch.dtype) -> Tensor:
    if isinstance(z, Tensor):
        return z.to(kind)
    number = complex(z)
    real, imaginary = (torch.full((), part, dtype=kind.to_real()) for part in (number.real, number.imag))
    return torch.complex(real, imaginary)


@decomposes_complex(aten.prod.dim_int)
def product(z: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """The product along an axis, by halves, or of all."""
    z = z if dtype is None else z.to(dtype)
    along, axis = (z.flatten(), 0) if dim is None else (z, dim)
    count = along.shape[axis]
    if not isinstance(count, int):
        return NotImplemented
    if count == 0:
        return torch.ones_like(along.sum(axis, keepdim))
    while count > 1:
        half = count // 2
        found = along.narrow(axis, 0, half) * along.narrow(axis, half, half)
        along = torch.cat([found, along.narrow(axis, count - 1, 1)], axis) if count % 2 else found
        count = along.shape[axis]
    return along if keepdim and dim is not None else along.squeeze(axis)


def of_parts(operator: Any) -> Rule:
    """A sum of some kind, of each part."""
    return lambda z, *arguments, dtype=None, **options: torch.complex(
        *(operator(part if dtype is None else part.to(dtype.to_real()), *arguments, **options) for part in _parts(z))
    )


def of_sizes(operator: Any) -> Rule:
    """A norm, which asks for absolute values alone."""
    return lambda z, *arguments, **options: operator(torch.abs(z), *arguments, **options)


@decomposes_complex(aten.var.correction)
def variance(z: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    """That of both parts together."""
    return sum(aten.var.correction(part, dim, correction=correction, keepdim=keepdim) for part in _parts(z))  # type: ignore[return-value]


def either(test: Any) -> Rule:
    """Whether one of the parts is so."""
    return lambda z: test(z.real) | test(z.imag)


def _scaled(z: Tensor, factor: float) -> Tensor:
    return torch.complex(z.real * factor, z.imag * factor)


@decomposes_complex(aten.sgn.default)
def sign(z: Tensor) -> Tensor:
    """``z / |z|``, and 0 of 0."""
    size = torch.abs(z)
    return torch.complex(*(torch.where(size == 0, 0.0, part / size) for part in _parts(z)))


def _parts(z: Tensor) -> tuple[Tensor, Tensor]:
    return z.real, z.imag


decomposes_complex(aten.rsqrt.default)(lambda z: reciprocal(sqrt(z)))
decomposes_complex(aten.square.default)(lambda z: z * z)
decomposes_complex(aten.log2.default)(lambda z: _scaled(log(z), 1 / math.log(2)))
decomposes_complex(aten.log10.default)(lambda z: _scaled(log(z), 1 / math.log(10)))
decomposes_complex(aten.exp2.default)(lambda z: exp(_scaled(z, math.log(2))))
decomposes_complex(aten.sin.default)(of_turned(sinh))
decomposes_complex(aten.cos.default)(lambda z: cosh(_turned(z)))
decomposes_complex(aten.tan.default)(of_turned(tanh))
decomposes_complex(aten.atan.default)(of_turned(atanh))
decomposes_complex(aten.isnan.default)(either(torch.isnan))
decomposes_complex(aten.isinf.default)(either(torch.isinf))
decomposes_complex(aten.isfinite.default)(lambda z: torch.isfinite(z.real) & torch.isfinite(z.imag))
decomposes_complex(aten.mean.default)(of_parts(aten.mean.default))
decomposes_complex(aten.sum.default)(of_parts(aten.sum.default))
decomposes_complex(aten.cumsum.default)(of_parts(aten.cumsum.default))
decomposes_complex(aten.prod.default)(lambda z, *, dtype=None: product(z, dtype=dtype))
decomposes_complex(aten.linalg_vector_norm.default)(of_sizes(aten.linalg_vector_norm.default))
decomposes_complex(aten.norm.ScalarOpt_dim)(of_sizes(aten.norm.ScalarOpt_dim))
