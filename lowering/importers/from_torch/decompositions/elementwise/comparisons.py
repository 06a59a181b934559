"""Comparisons and predicates, which torch-mlir computes in the first operand's dtype."""

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
    decomposes,
    rounded,
)
from mlirtri.lowering.importers.from_torch.decompositions.complex_numbers.tensors import is_equal
from mlirtri.lowering.importers.from_torch.decompositions.elementwise.integers import (
    NARROW_INTEGERS,
    is_in_range,
    wrapped,
)

aten = torch.ops.aten
Tensor = torch.Tensor


def comparison(operator: Operator) -> Callable[[Tensor, Operand], Tensor]:
    """Return the rule of a comparison in the promoted dtype, to which eager rounds a Python float as well."""

    def compare(x: Tensor, y: Operand) -> Tensor:
        kind = torch.result_type(x, y)
        if kind.is_complex:
            return is_equal(x, y) if operator in EQUAL else torch.logical_not(is_equal(x, y))
        if type(y) is int and kind in NARROW_INTEGERS and not is_in_range(y, kind):
            return operator(x.long(), wrapped(y, kind))
        if type(y) is int and x.dtype.is_floating_point:
            # torch-mlir compares the bits of an integer constant.
            return operator(x, float(y))
        if type(y) is float and not math.isnan(y) and y != rounded(y, kind):
            return operator(x, rounded(y, kind))
        is_promoted = x.dtype == kind and (not isinstance(y, Tensor) or y.dtype == kind)
        if is_promoted:
            return NotImplemented
        return operator(x.to(kind), y.to(kind) if isinstance(y, Tensor) else y)

    return compare


@decomposes(aten.eq.Tensor)
def eq_tensor(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x == y``; torch-mlir folds ``x == x`` to true, also for NaN."""
    if not torch.result_type(x, y).is_floating_point:
        return comparison(aten.eq.Tensor)(x, y)
    return torch.logical_not(torch.ne(x, y))


def over_axes(reduce: Operator) -> Callable[..., Tensor]:
    """Return the rule that reduces one axis at a time, as torch-mlir requires; the result of uint8 is uint8."""

    def apply(x: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor:
        axes = range(x.dim()) if dim is None else [axis % x.dim() if x.dim() else 0 for axis in dim]
        truth = x != 0
        for axis in sorted(axes, reverse=True):
            truth = reduce(truth, axis, keepdim)
        return truth.to(torch.uint8) if x.dtype == torch.uint8 else truth

    return apply


EQUAL = (aten.eq.Tensor, aten.eq.Scalar)


def any_or_all_of_uint8(operator: Operator) -> Callable[..., Results]:
    """Return the rule of `any` or `all` on uint8, whose result is uint8."""

    def apply(x: Tensor, *arguments: Any, **options: Any) -> Results:
        if x.dtype != torch.uint8:
            return NotImplemented
        return operator(x != 0, *arguments, **options).to(torch.uint8)

    return apply


@decomposes(aten.isfinite.default)
def isfinite(x: Tensor) -> Tensor:
    if not x.is_floating_point():
        return torch.ones_like(x, dtype=torch.bool)
    return torch.abs(x) < float("inf")


@decomposes(aten.isclose.default)
def isclose(x: Tensor, y: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Compare with tolerances; torch-mlir folds ``isclose(x, x)`` and finds infinities close to finite values."""
    is_close = x == y
    if equal_nan and not _is_integral(x):
        is_close = is_close | (torch.isnan(x) & torch.isnan(y))
    if rtol == 0 and atol == 0:
        return is_close
    other = y.to(torch.get_default_dtype()) if _is_integral(y) else y
    distance = torch.abs(x - other)
    return is_close | (torch.isfinite(distance) & (distance <= atol + torch.abs(rtol * other)))


def _is_integral(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex())


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    for _operator in (getattr(aten, _name).Tensor, getattr(aten, _name).Scalar):
        if _operator is not aten.eq.Tensor:
            decomposes(_operator)(comparison(_operator))
decomposes(aten.all.dims)(over_axes(torch.all))
decomposes(aten.any.dims)(over_axes(torch.any))
for _operator in (aten.any.default, aten.any.dim, aten.all.default, aten.all.dim):
    decomposes(_operator)(any_or_all_of_uint8(_operator))
