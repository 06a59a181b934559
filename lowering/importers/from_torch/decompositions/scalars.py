"""Operators of a tensor and a number where torch-mlir lacks them: the number as a tensor of no axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions import complex_basic as torch_complex
from mlirtri.lowering.importers.from_torch.decompositions.integers import (
    UNSIGNED,
    greatest_divisor,
    least_multiple,
    remainder,
    with_wrapped,
)
from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten


def with_tensor(operator: Any) -> Callable[[torch.Tensor, Any], torch.Tensor]:
    """The operator of two tensors, for that of a tensor and a number."""

    def apply(x: torch.Tensor, number: Any) -> torch.Tensor:
        kind = torch.result_type(x, number)
        return operator(x.to(kind), torch.full((), number, dtype=kind, device=x.device))

    return apply


def after_number(operator: Any) -> Callable[[Any, torch.Tensor], torch.Tensor]:
    """The operator of two tensors, for that of a number and a tensor."""

    def apply(number: Any, x: torch.Tensor) -> torch.Tensor:
        kind = torch.result_type(number, x)
        return operator(torch.full((), number, dtype=kind, device=x.device), x.to(kind))

    return apply


@decomposes(aten.rsub.Scalar)
def subtracted_from(x: torch.Tensor, number: Any, alpha: Any = 1) -> torch.Tensor:
    """torch-mlir rounds the number to float32."""
    kind = torch.result_type(x, number)
    if kind.is_complex:
        return torch_complex.subtracted_from(x.to(kind), number, alpha)
    return torch.sub(torch.full((), number, dtype=kind, device=x.device), x.to(kind), alpha=alpha)


def of_one_type(operator: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The operator of two tensors, of their common type."""

    def apply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        kind = torch.result_type(x, y)
        return operator(x.to(kind), y.to(kind))

    return apply


@decomposes(aten.full_like.default)
def full_like(x: torch.Tensor, number: Any, *, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    """torch-mlir has none of unsigned integers."""
    kind = dtype or x.dtype
    if kind not in UNSIGNED:
        return NotImplemented
    return ((x.real if x.dtype.is_complex else x).long() * 0 + int(number)).to(kind)


decomposes(aten.gcd.default)(greatest_divisor)
decomposes(aten.lcm.default)(least_multiple)
decomposes(aten.fmod.Scalar)(with_tensor(torch.fmod))
decomposes(aten.bitwise_xor.Scalar)(with_tensor(torch.bitwise_xor))
decomposes(aten.bitwise_or.Scalar)(with_tensor(torch.bitwise_or))
decomposes(aten.remainder.Scalar)(remainder)
decomposes(aten.remainder.Tensor)(remainder)
decomposes(aten.remainder.Scalar_Tensor)(after_number(torch.remainder))
decomposes(aten.__lshift__.Tensor)(of_one_type(torch.bitwise_left_shift))
decomposes(aten.__rshift__.Tensor)(of_one_type(torch.bitwise_right_shift))
decomposes(aten.__lshift__.Scalar)(with_tensor(torch.bitwise_left_shift))
decomposes(aten.__rshift__.Scalar)(with_tensor(torch.bitwise_right_shift))
decomposes(aten.bitwise_left_shift.Tensor_Scalar)(with_tensor(torch.bitwise_left_shift))
decomposes(aten.bitwise_right_shift.Tensor_Scalar)(with_tensor(torch.bitwise_right_shift))
decomposes(aten.bitwise_left_shift.Scalar_Tensor)(after_number(torch.bitwise_left_shift))
decomposes(aten.bitwise_right_shift.Scalar_Tensor)(after_number(torch.bitwise_right_shift))
for _operator, _rule in (
    (aten.add.Tensor, torch_complex.add),
    (aten.sub.Tensor, torch_complex.subtract),
    (aten.mul.Tensor, torch_complex.multiply),
):
    decomposes(_operator)(with_wrapped(_operator, _rule))
