"""Elementary functions and reductions of complex tensors, by the functions of their real and imaginary parts.

Roots and inverse functions are Kahan's ("Branch cuts for complex elementary functions", 1987), so that their branch
cuts are where eager has them. Every rule is of complex tensors alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
Tensor = torch.Tensor
Rule = Callable[..., Any]


def sqrt(z: Tensor) -> Tensor:
    """The root with a real part that is not negative."""
    a, b = z.real, z.imag
    half = torch.sqrt(torch.hypot(a, b) / 2 + torch.abs(a) / 2)
    other = torch.where(half == 0, b, b / (2 * half))
    real, imaginary = torch.where(a >= 0, half, torch.abs(other)), torch.where(a >= 0, other, torch.copysign(half, b))
    return torch.complex(torch.where(torch.isinf(b), torch.abs(b), real), torch.where(torch.isinf(b), b, imaginary))


def log(z: Tensor) -> Tensor:
    return torch.complex(torch.log(torch.hypot(z.real, z.imag)), torch.atan2(z.imag, z.real))


def log1p(z: Tensor) -> Tensor:
    """Far from zero the logarithm of ``1 + z``, as squares overflow there."""
    a, b = z.real, z.imag
    is_near = (torch.abs(a) < 1) & (torch.abs(b) < 1)
    near = torch.log1p(torch.where(is_near, a * (2 + a) + b * b, 0.0)) / 2
    return torch.complex(torch.where(is_near, near, torch.log(torch.hypot(1 + a, b))), torch.atan2(b, 1 + a))


def sigmoid(z: Tensor) -> Tensor:
    """``1 / (1 + e**-z)``, or of negative real parts ``e**z / (1 + e**z)``: neither overflows."""
    is_negative = z.real < 0
    power = torch.exp(torch.complex(-torch.abs(z.real), torch.where(is_negative, z.imag, -z.imag)))
    above = torch.complex(torch.where(is_negative, power.real, 1.0), torch.where(is_negative, power.imag, 0.0))
    return above / (1 + power)


def expm1(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    half = torch.sin(b / 2)
    return torch.complex(torch.expm1(a) * torch.cos(b) - 2 * half * half, torch.exp(a) * torch.sin(b))


def sinh(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    return torch.complex(torch.sinh(a) * torch.cos(b), torch.cosh(a) * torch.sin(b))


def cosh(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    return torch.complex(torch.cosh(a) * torch.cos(b), torch.sinh(a) * torch.sin(b))


def tanh(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    level, slope, narrow = torch.tanh(a), torch.tan(b), 1 / torch.cosh(a)
    below = 1 + (level * slope) ** 2
    return torch.complex(level * (1 + slope * slope) / below, slope * narrow * narrow / below)


def asinh(z: Tensor) -> Tensor:
    return _turned_back(asin(_turned(z)))


def asin(z: Tensor) -> Tensor:
    below, above = sqrt(torch.complex(1 - z.real, -z.imag)), sqrt(torch.complex(1 + z.real, z.imag))
    real = torch.atan2(z.real, below.real * above.real - below.imag * above.imag)
    quarter = torch.copysign(torch.full_like(real, math.pi / 2), z.real)
    real = torch.where(torch.isinf(z.real), quarter, real)
    return torch.complex(real, torch.asinh(below.real * above.imag - below.imag * above.real))


def acos(z: Tensor) -> Tensor:
    below, above = sqrt(torch.complex(1 - z.real, -z.imag)), sqrt(torch.complex(1 + z.real, z.imag))
    imaginary = torch.asinh(above.real * below.imag - above.imag * below.real)
    return torch.complex(2 * torch.atan2(below.real, above.real), imaginary)


def acosh(z: Tensor) -> Tensor:
    below, above = sqrt(torch.complex(z.real - 1, z.imag)), sqrt(torch.complex(z.real + 1, z.imag))
    real = torch.asinh(below.real * above.real + below.imag * above.imag)
    return torch.complex(real, 2 * torch.atan2(below.imag, above.real))


def atanh(z: Tensor) -> Tensor:
    a, b = z.real, z.imag
    is_far = torch.isinf(a) | torch.isinf(b)
    real = torch.log1p(4 * a / ((1 - a) ** 2 + b * b)) / 4
    imaginary = torch.atan2(2 * b, (1 - a) * (1 + a) - b * b) / 2
    quarter = torch.copysign(torch.full_like(b, math.pi / 2), b)
    return torch.complex(torch.where(is_far, 0.0, real), torch.where(is_far, quarter, imaginary))


def of_turned(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """``-i f(i z)``, as sin is of sinh."""
    return lambda z: _turned_back(function(_turned(z)))


def _turned(z: Tensor) -> Tensor:
    return torch.complex(-z.imag, z.real)


def _turned_back(z: Tensor) -> Tensor:
    return torch.complex(z.imag, -z.real)


def power(z: Any, exponent: Any) -> Tensor:
    """``z ** exponent``; small whole exponents are products."""
    kind = torch.result_type(z, exponent)
    if isinstance(exponent, float) and exponent == 0.5:
        return sqrt(z)
    if type(exponent) in (int, float) and exponent in (0, 1, 2, 3, -1, -2):
        return _whole_power(z, int(exponent))
    base, exponent = _of_kind(z, kind), _of_kind(exponent, kind)
    found = torch.exp(log(base) * exponent)
    at_zero = torch.where(exponent == 0, 1.0, 0.0).to(found.real.dtype)
    is_zero = (base == 0) & (exponent.real >= 0)
    return torch.complex(torch.where(is_zero, at_zero, found.real), torch.where(is_zero, 0.0, found.imag))


def _whole_power(z: Tensor, exponent: int) -> Tensor:
    found = torch.ones_like(z)
    for _ in range(abs(exponent)):
        found = found * z
    return 1 / found if exponent < 0 else found


def _of_kind(z: Any, kind: torch.dtype) -> Tensor:
    if isinstance(z, Tensor):
        return z.to(kind)
    number = complex(z)
    real, imaginary = (torch.full((), part, dtype=kind.to_real()) for part in (number.real, number.imag))
    return torch.complex(real, imaginary)


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


def variance(z: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    """That of both parts together."""
    return sum(aten.var.correction(part, dim, correction=correction, keepdim=keepdim) for part in _parts(z))  # type: ignore[return-value]


def either(test: Any) -> Rule:
    """Whether one of the parts is so."""
    return lambda z: test(z.real) | test(z.imag)


def _parts(z: Tensor) -> tuple[Tensor, Tensor]:
    return z.real, z.imag


FUNCTIONS: dict[Any, Rule] = {
    aten.sqrt.default: sqrt,
    aten.rsqrt.default: lambda z: 1 / sqrt(z),
    aten.reciprocal.default: lambda z: torch.ones_like(z) / z,
    aten.square.default: lambda z: z * z,
    aten.log.default: log,
    aten.log2.default: lambda z: log(z) / math.log(2),
    aten.log10.default: lambda z: log(z) / math.log(10),
    aten.log1p.default: log1p,
    aten.expm1.default: expm1,
    aten.exp2.default: lambda z: torch.exp(z * math.log(2)),
    aten.sigmoid.default: sigmoid,
    aten.sinh.default: sinh,
    aten.cosh.default: cosh,
    aten.tanh.default: tanh,
    aten.sin.default: of_turned(sinh),
    aten.cos.default: lambda z: cosh(_turned(z)),
    aten.tan.default: of_turned(tanh),
    aten.asin.default: asin,
    aten.acos.default: acos,
    aten.atan.default: of_turned(atanh),
    aten.asinh.default: asinh,
    aten.acosh.default: acosh,
    aten.atanh.default: atanh,
    aten.pow.Tensor_Scalar: power,
    aten.pow.Tensor_Tensor: power,
    aten.pow.Scalar: power,
    aten.isnan.default: either(torch.isnan),
    aten.isinf.default: either(torch.isinf),
    aten.mean.default: of_parts(aten.mean.default),
    aten.sum.default: of_parts(aten.sum.default),
    aten.cumsum.default: of_parts(aten.cumsum.default),
    aten.prod.default: lambda z, *, dtype=None: product(z, dtype=dtype),
    aten.prod.dim_int: product,
    aten.var.correction: variance,
    aten.linalg_vector_norm.default: of_sizes(aten.linalg_vector_norm.default),
    aten.norm.ScalarOpt_dim: of_sizes(aten.norm.ScalarOpt_dim),
}


def with_complex(table: dict[Any, Rule]) -> dict[Any, Rule]:
    """`table` with these rules before its own."""
    return {**table, **{operator: _first(rule, table.get(operator)) for operator, rule in FUNCTIONS.items()}}


def _first(rule: Rule, otherwise: Rule | None) -> Rule:
    def apply(*arguments: Any, **options: Any) -> Any:
        if any(isinstance(each, Tensor) and each.dtype.is_complex for each in arguments[:2]):
            return rule(*arguments, **options)
        return NotImplemented if otherwise is None else otherwise(*arguments, **options)

    return apply
