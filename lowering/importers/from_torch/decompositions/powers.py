"""Powers of integers, which torch-mlir does not lower: by multiplications, or left for the repair of two tensors.

Powers of floats are left to torch-mlir, but for the exponents that torch itself multiplies for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten
MOST_STEPS = 64
"""Above this exponent a power is that of a tensor."""


_OF_FLOATS: dict[float, Callable[[torch.Tensor], torch.Tensor]] = {
    -2: lambda x: 1 / (x * x), -1: torch.reciprocal, 0: torch.ones_like, 1: torch.clone, 2: lambda x: x * x,
    3: lambda x: x * x * x,
}  # fmt: skip
_ROOTS: dict[float, Callable[[torch.Tensor], torch.Tensor]] = {0.5: torch.sqrt, -0.5: torch.rsqrt}
"""Of all floats but fp16; others than `pow`'s: that of -0.0 is -0.0, that of -inf is NaN."""


@decomposes(aten.pow.Tensor_Scalar)
def of_number(x: torch.Tensor, exponent: Any) -> torch.Tensor:
    """``x ** exponent``"""
    kind = torch.result_type(x, exponent)
    known = _OF_FLOATS if kind == torch.float16 else {**_OF_FLOATS, **_ROOTS}
    if kind.is_floating_point and type(exponent) in (int, float) and exponent in known:
        return known[exponent](x.to(kind))
    if kind.is_floating_point and not x.dtype.is_floating_point:
        return aten.pow.Tensor_Scalar(x.to(kind), exponent)
    if kind.is_floating_point or kind.is_complex:
        return NotImplemented
    if type(exponent) is not int or not 0 <= exponent < MOST_STEPS:
        return aten.pow.Tensor_Tensor(x, torch.full((), exponent, dtype=kind, device=x.device))
    result, factor = torch.ones_like(x, dtype=kind), x.to(kind)
    while exponent:
        result = result * factor if exponent % 2 else result
        factor, exponent = factor * factor if exponent > 1 else factor, exponent // 2
    return result


@decomposes(aten.pow.Scalar)
def to_tensor(base: Any, exponent: torch.Tensor) -> torch.Tensor:
    """``base ** exponent``"""
    kind = torch.result_type(base, exponent)
    if kind.is_floating_point or kind.is_complex:
        return NotImplemented
    return aten.pow.Tensor_Tensor(torch.full((), base, dtype=kind, device=exponent.device), exponent)


@decomposes(aten.pow.Tensor_Tensor)
def of_tensors(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """Both of the result's shape and dtype, which is what the repair takes; unsigned ones wrap in 64 bits."""
    kind = torch.result_type(x, exponent)
    is_settled = x.dtype == exponent.dtype == kind and x.shape == exponent.shape
    if kind.is_floating_point or kind.is_complex or (is_settled and kind.is_signed):
        return NotImplemented
    wide = kind if kind.is_signed else torch.int64
    x, exponent = torch.broadcast_tensors(x.to(kind).to(wide), exponent.to(kind).to(wide))
    return aten.pow.Tensor_Tensor(x, exponent).to(kind)
