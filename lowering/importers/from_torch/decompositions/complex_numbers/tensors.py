"""Decompose arithmetic, creation and movement of complex tensors into real and imaginary parts.

torch-mlir has no complex constants and lowers few operators on complex tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from mlirtri.lowering.importers.from_torch.decomposition_rules import (
    Axes,
    Operand,
    Operator,
    Results,
    Rule,
    Scalar,
    creates_complex,
    decomposes,
    decomposes_complex,
)

aten = torch.ops.aten
Tensor = torch.Tensor


def parts_of(x: Operand) -> tuple[Operand, Operand]:
    if isinstance(x, Tensor):
        return (x.real, x.imag) if x.dtype.is_complex else (x, torch.zeros_like(x))
    number = complex(x)
    return number.real, number.imag


def _number_parts(number: complex, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    real, imaginary = (torch.full((), part, dtype=kind.to_real()) for part in (number.real, number.imag))
    return real, imaginary


def is_half(x: Operand) -> bool:
    return isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16)


def _is_half_beside_number(x: Operand, y: Operand) -> bool:
    """Return whether eager takes y as float32 beside x: a float, or a float32 tensor of rank 0."""
    if not is_half(x):
        return False
    return type(y) is float or (isinstance(y, Tensor) and y.dim() == 0 < x.dim() and y.dtype == torch.float32)


def rsub_complex(x: Tensor, number: Scalar, alpha: Scalar = 1) -> Tensor:
    """Return ``number - alpha * x``."""
    x = x if alpha == 1 else x * alpha
    return torch.complex(complex(number).real - x.real, complex(number).imag - x.imag)


def _as_dtype(x: Operand, kind: torch.dtype) -> Results:
    return x.to(kind) if isinstance(x, Tensor) else x


def add(x: Operand, y: Operand, *, alpha: Scalar = 1) -> Tensor:
    return _by_parts(x, y, lambda a, b, c, d: (a + c, b + d), alpha)


def subtract(x: Operand, y: Operand, *, alpha: Scalar = 1) -> Tensor:
    return _by_parts(x, y, lambda a, b, c, d: (a - c, b - d), alpha)


def multiply(x: Operand, y: Operand) -> Tensor:
    """Return ``x * y``; eager takes a number beside float16 or bfloat16 as float32, torch-mlir rounds it."""
    if _is_half_beside_number(x, y):
        return (x.float() * y).to(x.dtype)
    return _by_parts(x, y, lambda a, b, c, d: (a * c - b * d, a * d + b * c))


@decomposes(aten.div.Tensor, aten.div.Scalar)
def divide(x: Operand, y: Operand) -> Tensor:
    """Return ``x / y``, with the divisor scaled so that its square neither overflows nor underflows."""
    kind = torch.result_type(x, y)
    if _is_half_beside_number(x, y):
        return (x.float() / y).to(x.dtype)
    if not kind.is_complex:
        return NotImplemented
    a, b = parts_of(_as_dtype(x, kind))
    c, d = parts_of(_as_dtype(y, kind)) if isinstance(y, Tensor) else _number_parts(y, kind)
    scale = torch.where(torch.abs(c) > torch.abs(d), torch.abs(c), torch.abs(d))
    c, d = c / scale, d / scale
    square = c * c + d * d
    return torch.complex((a * c + b * d) / square / scale, (b * c - a * d) / square / scale)


def _by_parts(x: Operand, y: Operand, rule: Callable[..., Any], alpha: Scalar = 1) -> Tensor:
    kind = torch.result_type(x, y)
    if not kind.is_complex or isinstance(alpha, complex):
        return NotImplemented
    c, d = parts_of(_as_dtype(y, kind))
    if alpha != 1:
        c, d = c * alpha, d * alpha
    a, b = parts_of(_as_dtype(x, kind))
    real, imaginary = rule(a, b, c, d)
    return torch.complex(*torch.broadcast_tensors(real, imaginary))


def is_equal(x: Operand, y: Operand) -> Tensor:
    (a, b), (c, d) = parts_of(x), parts_of(y)
    return (a == c) & (b == d)


@decomposes(aten.abs.default)
def absolute(x: Tensor) -> Tensor:
    """Return ``|x|``; torch-mlir takes unsigned integers as signed."""
    if not x.dtype.is_signed:
        return x.clone()
    return torch.hypot(x.real, x.imag) if x.dtype.is_complex else NotImplemented


@decomposes(aten.angle.default)
def angle(x: Tensor) -> Tensor:
    """Return the argument of a complex number; 0 or pi of a real one, NaN of NaN."""
    if x.dtype.is_complex:
        return torch.atan2(x.imag, x.real)
    argument = torch.where(x < 0, math.pi, 0.0)
    return torch.where(torch.isnan(x), x, argument.to(x.dtype)) if x.dtype.is_floating_point else argument


@decomposes(aten.polar.default)
def polar(size: Tensor, angle: Tensor) -> Tensor:
    return torch.complex(size * torch.cos(angle), size * torch.sin(angle))


@decomposes(aten._conj.default, aten.conj_physical.default, aten._conj_physical.default)
def conjugate(x: Tensor) -> Tensor:
    if not x.dtype.is_complex:
        return x
    # torch reads the parts of a lazy conjugate from the tensor that it conjugates.
    x = x.clone() if x.is_conj() else x
    return torch.complex(x.real, -x.imag)


@decomposes(torch.ops.prims.convert_element_type.default)
def convert_element_type(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert from, to or between complex dtypes."""
    if not x.dtype.is_complex and not dtype.is_complex:
        return NotImplemented
    real, imaginary = parts_of(x)
    if dtype == torch.bool:
        return (real != 0) | (imaginary != 0)
    if not dtype.is_complex:
        return real.to(dtype)
    kind = dtype.to_real()
    return torch.complex(real.to(kind), imaginary.to(kind))


def sum_of_complex(x: Tensor, dim: Axes = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    if not x.dtype.is_complex:
        return NotImplemented
    x = x if dtype is None else x.to(dtype)
    return torch.complex(x.real.sum(dim, keepdim), x.imag.sum(dim, keepdim))


@decomposes(aten.neg.default)
def negate(x: Tensor) -> Tensor:
    """Return ``-x``; torch-mlir negates integers in float32."""
    if x.dtype.is_complex:
        return torch.complex(-x.real, -x.imag)
    return NotImplemented if x.dtype.is_floating_point else torch.zeros((), dtype=x.dtype, device=x.device) - x


@decomposes(aten._neg_view.default)
def negate_view(x: Tensor) -> Tensor:
    """Materialise a lazy negation: the imaginary part of a conjugate."""
    return torch.neg(x)


def by_parts(operator: Operator, number: int | None) -> Rule:
    """Return the rule of `operator` on both parts; argument `number`, if not None, is an element and may be real."""

    def apply(*arguments: Any, **options: Any) -> Results:
        if not arguments[0].dtype.is_complex:
            return NotImplemented
        if number is not None:
            value = arguments[number] if number < len(arguments) else 0
            arguments = (*arguments[:number], value if isinstance(value, Tensor) else complex(value))
        kind = arguments[0].dtype.to_real()
        parts = (
            pytree.tree_map(lambda value, position=position: _part(value, position, kind), arguments)
            for position in range(2)
        )
        return torch.complex(*(operator(*part, **options) for part in parts))

    return apply


def _part(operand: Any, position: int, kind: torch.dtype) -> Results:
    if type(operand) is complex:
        return (operand.real, operand.imag)[position]
    if not isinstance(operand, Tensor) or not (operand.dtype.is_complex or operand.dtype.is_floating_point):
        return operand
    return parts_of(operand)[position].to(kind)


def filled_by_parts(operator: Operator, number: int | None) -> Rule:
    """Return the rule of a complex tensor filled with argument `number`; for None, with `operator`'s own value."""

    def apply(*arguments: Any, dtype: torch.dtype | None = None, **options: Any) -> Results:
        first = arguments[0]
        value = 0 if number is None else arguments[number]
        kind = dtype or (first.dtype if isinstance(first, Tensor) else None)
        is_complex = kind.is_complex if kind else type(value) is complex
        if not is_complex:
            return NotImplemented
        kind = (kind or torch.get_default_dtype().to_complex()).to_real()
        if number is None:
            part = operator(*arguments, dtype=kind, **options)
            return torch.complex(part, torch.zeros_like(part))
        parts = (complex(value).real, complex(value).imag)
        fill = ((*arguments[:number], part, *arguments[number + 1 :]) for part in parts)
        return torch.complex(*(operator(*operand, dtype=kind, **options) for operand in fill))

    return apply


@decomposes(aten.where.self)
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return `torch.where` with at least one complex value operand."""
    kind = torch.result_type(x, y)
    if not kind.is_complex:
        return NotImplemented
    (a, b), (c, d) = ([part.to(kind.to_real()) for part in parts_of(operand)] for operand in (x, y))
    return torch.complex(torch.where(condition, a, c), torch.where(condition, b, d))


def any_or_all(operator: Operator) -> Rule:
    """Return the rule of `any` or `all`: an element is true if it is not 0."""
    return lambda z, *arguments, **options: operator((z.real != 0) | (z.imag != 0), *arguments, **options)


def logical_of_nonzero(operator: Operator) -> Rule:
    """Return the rule that applies the logical `operator` to ``x != 0``."""
    return lambda *arguments: operator(*(argument != 0 for argument in arguments))


@decomposes_complex(aten.var_mean.correction)
def var_mean(z: Tensor, dim: Axes = None, *, correction: Scalar = None, keepdim: bool = False) -> Results:
    mean = torch.mean(z, list(dim) if dim else list(range(z.dim())), keepdim)
    return aten.var.correction(z, dim, correction=correction, keepdim=keepdim), mean


@decomposes_complex(aten.fill.Scalar)
def fill(x: Tensor, number: Scalar) -> Results:
    """Return a tensor of the same shape filled with `number`."""
    return torch.full_like(x, number) if x.dtype.is_complex else NotImplemented


@decomposes_complex(aten.cumprod.default)
def cumprod(z: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Return the cumulative product, as a log2(n)-step scan."""
    z = z if dtype is None else z.to(dtype)
    count, step = z.shape[dim] if z.dim() else 1, 1
    if not isinstance(count, int):
        return NotImplemented
    while step < count:
        length = count - step
        z = torch.cat([z.narrow(dim, 0, step), z.narrow(dim, step, length) * z.narrow(dim, 0, length)], dim)
        step *= 2
    return z.clone()


for _operator, _number in {
    aten.scatter.src: None,
    aten.scatter.value: 3,
    aten.scatter_add.default: None,
    aten.index_put.default: None,
    aten.slice_scatter.default: None,
    aten.select_scatter.default: None,
    aten.constant_pad_nd.default: 2,
    aten.masked_fill.Scalar: 2,
    aten.masked_fill.Tensor: None,
    aten.index_fill.int_Scalar: 3,
    aten.triu.default: None,
    aten.tril.default: None,
}.items():
    decomposes_complex(_operator)(by_parts(_operator, _number))
CREATED = {
    aten.full.default: 1,
    aten.full_like.default: 1,
    aten.new_full.default: 2,
    aten.scalar_tensor.default: 0,
    aten.zeros.default: None,
    aten.zeros_like.default: None,
    aten.new_zeros.default: None,
    aten.ones.default: None,
    aten.eye.default: None,
    aten.eye.m: None,
    aten.ones_like.default: None,
    aten.new_ones.default: None,
    aten.empty.memory_format: None,
    aten.empty_like.default: None,
    aten.new_empty.default: None,
}
"""Operators that create a tensor, with the position of the number that fills it, None where there is none."""
for _operator, _number in CREATED.items():
    creates_complex(_operator)(filled_by_parts(_operator, _number))
for _operator in (
    aten.logical_not.default,
    aten.logical_and.default,
    aten.logical_or.default,
    aten.logical_xor.default,
):
    decomposes_complex(_operator)(logical_of_nonzero(_operator))
for _operator in (aten.any.default, aten.any.dim, aten.any.dims, aten.all.default, aten.all.dim):
    decomposes_complex(_operator)(any_or_all(_operator))
