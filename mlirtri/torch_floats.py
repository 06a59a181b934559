"""Operators on floats of which torch-mlir loses NaN, infinity or digits, written with those that it lowers rightly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def reciprocal(x: torch.Tensor) -> torch.Tensor:
    """torch-mlir asserts that no element is zero; eager gives infinity."""
    result = torch.result_type(x, 1.0)
    return torch.ones((), dtype=result, device=x.device) / x


def gelu(x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    """torch-mlir has four digits of the approximation's constant."""
    if approximate == "none":
        return NotImplemented
    wide = _wide(x)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return (0.5 * wide * (1 + torch.tanh(inner))).to(x.dtype)


def clamp(x: torch.Tensor, min: Any = None, max: Any = None) -> torch.Tensor:  # noqa: A002 - torch's names
    """torch-mlir makes a limit of NaN."""
    limits = [limit for limit in (min, max) if limit is not None]
    kind = x.dtype
    for limit in limits:
        kind = torch.promote_types(kind, torch.result_type(x, limit))
    if not kind.is_floating_point:
        return NotImplemented
    found = x.to(kind)
    if min is not None:
        found = torch.maximum(found, _as_tensor(min, found))
    return found if max is None else torch.minimum(found, _as_tensor(max, found))


def maximum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """torch-mlir drops a NaN of the first operand."""
    kind = torch.result_type(x, y)
    if not kind.is_floating_point:
        return NotImplemented
    x, y = x.to(kind), y.to(kind)
    return torch.where((x > y) | torch.isnan(x), x, y)


def minimum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The same."""
    kind = torch.result_type(x, y)
    if not kind.is_floating_point:
        return NotImplemented
    x, y = x.to(kind), y.to(kind)
    return torch.where((x < y) | torch.isnan(x), x, y)


def hardtanh(x: torch.Tensor, min_val: float = -1, max_val: float = 1) -> torch.Tensor:
    """The same of this clamp, and of the next."""
    return torch.clamp(x, min_val, max_val)


def relu6(x: torch.Tensor) -> torch.Tensor:
    """A clamp."""
    return torch.clamp(x, 0, 6)


def hardsigmoid(x: torch.Tensor) -> torch.Tensor:
    """A clamp."""
    return (torch.clamp(_wide(x) + 3, 0, 6) / 6).to(x.dtype)


def isfinite(x: torch.Tensor) -> torch.Tensor:
    """torch-mlir has no lowering of its own."""
    if not x.is_floating_point():
        return torch.ones_like(x, dtype=torch.bool)
    return torch.abs(x) < float("inf")


def hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The same; neither overflow nor underflow of the squares may show."""
    large, small = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = small / torch.where((large == 0) | torch.isinf(large), 1.0, large)
    length = large * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.isinf(x) | torch.isinf(y), float("inf"), length)


def _as_tensor(limit: Any, like: torch.Tensor) -> torch.Tensor:
    if isinstance(limit, torch.Tensor):
        return limit.to(like.dtype)
    return torch.full((), limit, dtype=like.dtype, device=like.device)


def _wide(x: torch.Tensor) -> torch.Tensor:
    """Halves are computed in float32, as eager does."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


FLOATS: dict[Any, Callable[..., Any]] = {
    aten.reciprocal.default: reciprocal,
    aten.gelu.default: gelu,
    aten.maximum.default: maximum,
    aten.minimum.default: minimum,
    aten.clamp.default: clamp,
    aten.clamp.Tensor: clamp,
    aten.clamp_min.default: clamp,
    aten.clamp_min.Tensor: clamp,
    aten.clamp_max.default: lambda x, max: clamp(x, None, max),
    aten.clamp_max.Tensor: lambda x, max: clamp(x, None, max),
    aten.hardtanh.default: hardtanh,
    aten.relu6.default: relu6,
    aten.hardsigmoid.default: hardsigmoid,
    aten.isfinite.default: isfinite,
    aten.hypot.default: hypot,
}
