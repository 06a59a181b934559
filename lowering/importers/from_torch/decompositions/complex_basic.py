"""Operators on complex tensors that torch-mlir does not lower, by their real and imaginary parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten


def _parts(x: Any) -> tuple[Any, Any]:
    if isinstance(x, torch.Tensor):
        return (x.real, x.imag) if x.dtype.is_complex else (x, torch.zeros_like(x))
    number = complex(x)
    return number.real, number.imag


def _number_parts(number: complex, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    real, imaginary = (torch.full((), part, dtype=kind.to_real()) for part in (number.real, number.imag))
    return real, imaginary


def subtracted_from(x: torch.Tensor, number: Any, alpha: Any = 1) -> torch.Tensor:
    """``number - alpha * x``"""
    x = x if alpha == 1 else x * alpha
    return torch.complex(complex(number).real - x.real, complex(number).imag - x.imag)


def _settled(x: Any, kind: torch.dtype) -> Any:
    return x.to(kind) if isinstance(x, torch.Tensor) else x


@decomposes(aten.add.Scalar)
def add(x: Any, y: Any, *, alpha: Any = 1) -> torch.Tensor:
    """``x + alpha * y``"""
    return _by_parts(x, y, lambda a, b, c, d: (a + c, b + d), alpha)


@decomposes(aten.sub.Scalar)
def subtract(x: Any, y: Any, *, alpha: Any = 1) -> torch.Tensor:
    """``x - alpha * y``"""
    return _by_parts(x, y, lambda a, b, c, d: (a - c, b - d), alpha)


@decomposes(aten.mul.Scalar)
def multiply(x: Any, y: Any) -> torch.Tensor:
    """``x * y``"""
    return _by_parts(x, y, lambda a, b, c, d: (a * c - b * d, a * d + b * c))


@decomposes(aten.div.Tensor, aten.div.Scalar)
def divide(x: Any, y: Any) -> torch.Tensor:
    """``x / y``, the divisor scaled so that its square neither overflows nor vanishes."""
    kind = torch.result_type(x, y)
    if not kind.is_complex:
        return NotImplemented
    a, b = _parts(_settled(x, kind))
    c, d = _parts(_settled(y, kind)) if isinstance(y, torch.Tensor) else _number_parts(y, kind)
    scale = torch.where(torch.abs(c) > torch.abs(d), torch.abs(c), torch.abs(d))
    c, d = c / scale, d / scale
    square = c * c + d * d
    return torch.complex((a * c + b * d) / square / scale, (b * c - a * d) / square / scale)


def _by_parts(x: Any, y: Any, rule: Callable[..., Any], alpha: Any = 1) -> torch.Tensor:
    kind = torch.result_type(x, y)
    if not kind.is_complex or isinstance(alpha, complex):
        return NotImplemented
    c, d = _parts(_settled(y, kind))
    if alpha != 1:
        c, d = c * alpha, d * alpha
    a, b = _parts(_settled(x, kind))
    real, imaginary = rule(a, b, c, d)
    return torch.complex(*torch.broadcast_tensors(real, imaginary))


def is_equal(x: Any, y: Any) -> torch.Tensor:
    """Whether both parts are equal."""
    (a, b), (c, d) = _parts(x), _parts(y)
    return (a == c) & (b == d)


def absolute(x: torch.Tensor) -> torch.Tensor:
    """``|x|``"""
    return torch.hypot(x.real, x.imag) if x.dtype.is_complex else NotImplemented


@decomposes(aten.angle.default)
def angle(x: torch.Tensor) -> torch.Tensor:
    """The argument of a complex number; of a real one it is 0 or pi, of NaN itself."""
    if x.dtype.is_complex:
        return torch.atan2(x.imag, x.real)
    turned = torch.where(x < 0, math.pi, 0.0)
    return torch.where(torch.isnan(x), x, turned.to(x.dtype)) if x.dtype.is_floating_point else turned


@decomposes(aten.polar.default)
def polar(size: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """A complex number by its absolute value and its argument."""
    return torch.complex(size * torch.cos(angle), size * torch.sin(angle))


@decomposes(aten._conj.default, aten.conj_physical.default, aten._conj_physical.default)
def conjugate(x: torch.Tensor) -> torch.Tensor:
    """``x`` with the other imaginary part."""
    if not x.dtype.is_complex:
        return x
    # torch takes the parts of what is yet to be conjugated from its conjugate.
    x = x.clone() if x.is_conj() else x
    return torch.complex(x.real, -x.imag)


@decomposes(torch.ops.prims.convert_element_type.default)
def converted(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """From, to, or between complex numbers."""
    if not x.dtype.is_complex and not dtype.is_complex:
        return NotImplemented
    real, imaginary = _parts(x)
    if dtype == torch.bool:
        return (real != 0) | (imaginary != 0)
    if not dtype.is_complex:
        return real.to(dtype)
    kind = dtype.to_real()
    return torch.complex(real.to(kind), imaginary.to(kind))


def total(x: torch.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The sum over some axes."""
    if not x.dtype.is_complex:
        return NotImplemented
    x = x if dtype is None else x.to(dtype)
    return torch.complex(x.real.sum(dim, keepdim), x.imag.sum(dim, keepdim))


@decomposes(aten.neg.default)
def negative(x: torch.Tensor) -> torch.Tensor:
    """``-x``; torch-mlir negates integers in float32."""
    if x.dtype.is_complex:
        return torch.complex(-x.real, -x.imag)
    return NotImplemented if x.dtype.is_floating_point else torch.zeros((), dtype=x.dtype, device=x.device) - x


@decomposes(aten._neg_view.default)
def negative_view(x: torch.Tensor) -> torch.Tensor:
    """What torch leaves to be negated: the imaginary part of a conjugate."""
    return torch.neg(x)
