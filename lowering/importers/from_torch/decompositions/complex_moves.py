"""Complex tensors that are made and moved, part by part: torch-mlir has no complex constants, and moves them seldom.

The operators are those to which both parts are alike: they fill, write at places, and choose. Also what asks whether
a complex number is zero, and products so far.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from mlirtri.lowering.importers.from_torch.decompositions.rules import (
    Rule,
    creates_complex,
    decomposes,
    decomposes_complex,
)

aten = torch.ops.aten
Tensor = torch.Tensor


def moved(operator: Any, number: int | None) -> Rule:
    """The operator on the parts of what is complex; argument `number`, if any, is an element and no place."""

    def apply(*arguments: Any, **options: Any) -> Any:
        if not arguments[0].dtype.is_complex:
            return NotImplemented
        if number is not None:
            value = arguments[number] if number < len(arguments) else 0
            arguments = (*arguments[:number], value if isinstance(value, Tensor) else complex(value))
        kind = arguments[0].dtype.to_real()
        parts = (pytree.tree_map(lambda each, at=at: _part(each, at, kind), arguments) for at in range(2))
        return torch.complex(*(operator(*part, **options) for part in parts))

    return apply


def _part(each: Any, at: int, kind: torch.dtype) -> Any:
    """The real part, or the imaginary one; indices and masks are as they are."""
    if type(each) is complex:
        return (each.real, each.imag)[at]
    if not isinstance(each, Tensor) or not (each.dtype.is_complex or each.dtype.is_floating_point):
        return each
    return parts_of(each)[at].to(kind)


def parts_of(x: Tensor) -> tuple[Tensor, Tensor]:
    """The real and the imaginary part, of a real tensor too."""
    return (x.real, x.imag) if x.dtype.is_complex else (x, torch.zeros_like(x))


def made(operator: Any, number: int | None) -> Rule:
    """A tensor filled with a number, which argument `number` is; None where the operator says it."""

    def apply(*arguments: Any, dtype: torch.dtype | None = None, **options: Any) -> Any:
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
        filled = ((*arguments[:number], each, *arguments[number + 1 :]) for each in parts)
        return torch.complex(*(operator(*each, dtype=kind, **options) for each in filled))

    return apply


@decomposes(aten.where.self)
def chosen(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """`torch.where` of which one or both are complex."""
    kind = torch.result_type(x, y)
    if not kind.is_complex:
        return NotImplemented
    (a, b), (c, d) = ([part.to(kind.to_real()) for part in parts_of(each)] for each in (x, y))
    return torch.complex(torch.where(condition, a, c), torch.where(condition, b, d))


def truth(operator: Any) -> Rule:
    """`any` or `all` of what is not zero."""
    return lambda z, *arguments, **options: operator((z.real != 0) | (z.imag != 0), *arguments, **options)


def logical(operator: Any) -> Rule:
    """An operator on what is not zero."""
    return lambda *arguments: operator(*(each != 0 for each in arguments))


@decomposes_complex(aten.var_mean.correction)
def spread(z: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Variance and mean."""
    mean = torch.mean(z, list(dim) if dim else list(range(z.dim())), keepdim)
    return aten.var.correction(z, dim, correction=correction, keepdim=keepdim), mean


@decomposes_complex(aten.fill.Scalar)
def filled(x: Tensor, number: Any) -> Any:
    """A tensor filled anew."""
    return torch.full_like(x, number) if x.dtype.is_complex else NotImplemented


@decomposes_complex(aten.cumprod.default)
def products_so_far(z: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """`torch.cumprod`, by steps that double."""
    z = z if dtype is None else z.to(dtype)
    count, step = z.shape[dim] if z.dim() else 1, 1
    if not isinstance(count, int):
        return NotImplemented
    while step < count:
        left = count - step
        z = torch.cat([z.narrow(dim, 0, step), z.narrow(dim, step, left) * z.narrow(dim, 0, left)], dim)
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
    decomposes_complex(_operator)(moved(_operator, _number))
for _operator, _number in {
    aten.full.default: 1,
    aten.full_like.default: 1,
    aten.new_full.default: 2,
    aten.scalar_tensor.default: 0,
    aten.zeros.default: None,
    aten.zeros_like.default: None,
    aten.new_zeros.default: None,
    aten.ones.default: None,
    aten.ones_like.default: None,
    aten.new_ones.default: None,
    aten.empty.memory_format: None,
    aten.empty_like.default: None,
    aten.new_empty.default: None,
}.items():
    creates_complex(_operator)(made(_operator, _number))
for _operator in (
    aten.logical_not.default,
    aten.logical_and.default,
    aten.logical_or.default,
    aten.logical_xor.default,
):
    decomposes_complex(_operator)(logical(_operator))
for _operator in (aten.any.default, aten.any.dim, aten.any.dims, aten.all.default, aten.all.dim):
    decomposes_complex(_operator)(truth(_operator))
