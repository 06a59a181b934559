"""Decompose powers and reductions of complex tensors. Every rule takes complex tensors only.

Elementary functions stay in the trace: `repairs.py` lowers them by the scalar rules that kernels have, too.
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


@decomposes_complex(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def power(z: Operand, exponent: Operand) -> Results:
    """Return ``z ** exponent``: a square root, products for small integers, else a power of tensors of one type."""
    if isinstance(exponent, float) and exponent == 0.5:
        return torch.sqrt(z)
    if type(exponent) in (int, float) and exponent in (0, 1, 2, 3, -1, -2):
        return _integer_power(z, int(exponent))
    kind = torch.result_type(z, exponent)
    operands = [_as_dtype(operand, kind) for operand in (z, exponent)]
    if operands[0] is z and operands[1] is exponent and z.shape == exponent.shape:
        return NotImplemented
    return torch.pow(*torch.broadcast_tensors(*operands))


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
        parts = (part if dtype is None else part.to(dtype.to_real()) for part in (z.real, z.imag))
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
    return sum(aten.var.correction(part, dim, correction=correction, keepdim=keepdim) for part in (z.real, z.imag))  # type: ignore[return-value]


def either_part(test: Any) -> Rule:
    """Return the predicate that is true where `test` is for either part."""
    return lambda z: test(z.real) | test(z.imag)


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
    return torch.complex(*(torch.where(size == 0, 0.0, part / size) for part in (z.real, z.imag)))


decomposes_complex(aten.rsqrt.default)(lambda z: reciprocal(torch.sqrt(z)))
decomposes_complex(aten.square.default)(lambda z: z * z)
decomposes_complex(aten.ldexp.Tensor)(lambda z, exponent: z * torch.pow(2.0, exponent))
decomposes_complex(aten.isnan.default)(either_part(torch.isnan))
decomposes_complex(aten.isinf.default)(either_part(torch.isinf))
decomposes_complex(aten.isfinite.default)(lambda z: torch.isfinite(z.real) & torch.isfinite(z.imag))
decomposes_complex(aten.mean.default)(on_both_parts(aten.mean.default))
decomposes_complex(aten.sum.default)(on_both_parts(aten.sum.default))
decomposes_complex(aten.cumsum.default)(on_both_parts(aten.cumsum.default))
decomposes_complex(aten.prod.default)(lambda z, *, dtype=None: product(z, dtype=dtype))
decomposes_complex(aten.linalg_vector_norm.default)(on_absolute_values(aten.linalg_vector_norm.default))
decomposes_complex(aten.norm.ScalarOpt_dim)(on_absolute_values(aten.norm.ScalarOpt_dim))
