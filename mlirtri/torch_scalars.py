"""Operators of a tensor and a number where torch-mlir lacks them: the number as a tensor of no axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlirtri.torch_complex import COMPLEX

aten = torch.ops.aten
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)


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


def subtracted_from(x: torch.Tensor, number: Any, alpha: Any = 1) -> torch.Tensor:
    """torch-mlir rounds the number to float32."""
    kind = torch.result_type(x, number)
    return torch.sub(torch.full((), number, dtype=kind, device=x.device), x.to(kind), alpha=alpha)


def of_unsigned(operator: Any) -> Callable[..., Any]:
    """torch-mlir multiplies unsigned integers by tensors only; `COMPLEX` has a rule for complex numbers."""

    def apply(x: Any, y: Any, **options: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype not in UNSIGNED or type(y) is not int:
            return COMPLEX[operator](x, y, **options)
        wrapped = y % (1 << (8 * x.element_size()))
        return operator(x, torch.full((), wrapped, dtype=x.dtype, device=x.device), **options)

    return apply


def remainder_of_bytes(x: torch.Tensor, y: Any) -> torch.Tensor:
    """torch-mlir divides int8 as no other type of integers."""
    if torch.result_type(x, y) != torch.int8:
        return NotImplemented
    return torch.remainder(x.int(), y.int() if isinstance(y, torch.Tensor) else y).to(torch.int8)


SCALARS: dict[Any, Callable[..., Any]] = {
    aten.fmod.Scalar: with_tensor(torch.fmod),
    aten.bitwise_xor.Scalar: with_tensor(torch.bitwise_xor),
    aten.bitwise_or.Scalar: with_tensor(torch.bitwise_or),
    aten.rsub.Scalar: subtracted_from,
    aten.remainder.Scalar: remainder_of_bytes,
    aten.remainder.Tensor: remainder_of_bytes,
    aten.remainder.Scalar_Tensor: after_number(torch.remainder),
    aten.bitwise_left_shift.Scalar_Tensor: after_number(torch.bitwise_left_shift),
    aten.bitwise_right_shift.Scalar_Tensor: after_number(torch.bitwise_right_shift),
    **{operator: of_unsigned(operator) for operator in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor)},
}
