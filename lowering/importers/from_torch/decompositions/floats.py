"""Operators on floats of which torch-mlir loses NaN, infinity or digits, written with those that it lowers rightly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decompositions import integers as torch_integers
from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten


@decomposes(aten.reciprocal.default)
def reciprocal(x: torch.Tensor) -> torch.Tensor:
    """torch-mlir asserts that no element is zero; eager gives infinity."""
    result = torch.result_type(x, 1.0)
    return torch.ones((), dtype=result, device=x.device) / x


@decomposes(aten.gelu.default)
def gelu(x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    """torch-mlir divides by the root of 2, and has four digits of the approximation's constant."""
    wide = _wide(x)
    if approximate == "none":
        return (0.5 * wide * (1 + torch.erf(wide * math.sqrt(0.5)))).to(x.dtype)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return (0.5 * wide * (1 + torch.tanh(inner))).to(x.dtype)


@decomposes(aten.elu.default)
def elu(x: torch.Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> torch.Tensor:
    """torch-mlir takes 1 from an exponential, of which nothing is left near 0."""
    if not x.is_floating_point():
        return NotImplemented
    wide = _wide(x)
    return torch.where(wide < 0, torch.expm1(wide * input_scale) * (alpha * scale), wide * scale).to(x.dtype)


@decomposes(aten.rrelu_with_noise_functional.default)
def rrelu(
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    _: Any = None,
) -> Any:
    """Random slopes in training, which is refused elsewhere; their mean otherwise."""
    if training:
        return NotImplemented
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise


def of_halves(operator: Any) -> Callable[..., Any]:
    """The operator on float32, where torch-mlir's parts of it overflow in halves."""

    def apply(x: torch.Tensor, **options: Any) -> Any:
        wide = _wide(x)
        return NotImplemented if wide is x else operator(wide, **options).to(x.dtype)

    return apply


@decomposes(aten.clamp.default, aten.clamp.Tensor, aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp(x: torch.Tensor, min: Any = None, max: Any = None) -> torch.Tensor:  # noqa: A002 - torch's names
    """torch-mlir makes a limit of NaN."""
    limits = [limit for limit in (min, max) if limit is not None]
    kind = x.dtype
    for limit in limits:
        kind = torch.promote_types(kind, torch.result_type(x, limit))
    if not kind.is_floating_point:
        return torch_integers.clamped(x, min, max)
    found = x.to(kind)
    if min is not None:
        found = torch.maximum(found, _as_tensor(min, found))
    return found if max is None else torch.minimum(found, _as_tensor(max, found))


@decomposes(aten.clamp_max.Tensor)
def at_most(x: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """torch-mlir has this of no integers."""
    found = clamp(x, None, limit)
    return torch.minimum(x, limit) if found is NotImplemented else found


@decomposes(aten.maximum.default)
def maximum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """torch-mlir drops a NaN of the first operand."""
    kind = torch.result_type(x, y)
    if not kind.is_floating_point:
        return torch_integers.extreme(torch.maximum)(x, y)
    x, y = x.to(kind), y.to(kind)
    return torch.where((x > y) | torch.isnan(x), x, y)


@decomposes(aten.minimum.default)
def minimum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The same."""
    kind = torch.result_type(x, y)
    if not kind.is_floating_point:
        return torch_integers.extreme(torch.minimum)(x, y)
    x, y = x.to(kind), y.to(kind)
    return torch.where((x < y) | torch.isnan(x), x, y)


def without_nan(operator: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """`fmax` or `fmin`, of `maximum` or `minimum`: the other one, where one is NaN."""

    def apply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        kind = torch.result_type(x, y)
        x, y = x.to(kind), y.to(kind)
        found = operator(x, y)
        if not kind.is_floating_point:
            return found
        return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, found))

    return apply


@decomposes(aten.hardtanh.default)
def hardtanh(x: torch.Tensor, min_val: float = -1, max_val: float = 1) -> torch.Tensor:
    """The same of this clamp, and of the next; limits of integers are integers."""
    if not x.is_floating_point():
        min_val, max_val = int(min_val), int(max_val)
    return torch.clamp(x, min_val, max_val)


@decomposes(aten.relu6.default)
def relu6(x: torch.Tensor) -> torch.Tensor:
    """A clamp."""
    return torch.clamp(x, 0, 6)


@decomposes(aten.hardsigmoid.default)
def hardsigmoid(x: torch.Tensor) -> torch.Tensor:
    """A clamp."""
    return (torch.clamp(_wide(x) + 3, 0, 6) / 6).to(x.dtype)


@decomposes(aten.isfinite.default)
def isfinite(x: torch.Tensor) -> torch.Tensor:
    """torch-mlir has no lowering of its own."""
    if not x.is_floating_point():
        return torch.ones_like(x, dtype=torch.bool)
    return torch.abs(x) < float("inf")


@decomposes(aten.hypot.default)
def hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The same; neither overflow nor underflow of the squares may show."""
    large, small = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = small / torch.where((large == 0) | torch.isinf(large), 1.0, large)
    length = large * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.isinf(x) | torch.isinf(y), float("inf"), length)


@decomposes(aten.fmod.Tensor)
def fmod(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """torch-mlir rounds a quotient; its remainder is exact, and this where both are positive."""
    kind = torch.result_type(x, y)
    if not kind.is_floating_point:
        return NotImplemented
    wide, other = _wide(x.to(kind)), _wide(y.to(kind))
    size = torch.remainder(wide.abs(), other.abs())
    # The sign of zero stays, too.
    return torch.where(wide < 0, -size, torch.where(wide == 0, wide - size, size)).to(kind)


def floor_divided(x: torch.Tensor, y: Any) -> torch.Tensor:
    """The quotient of what is left without the remainder, as eager has it."""
    kind = torch.result_type(x, y)
    x, y = _wide(x.to(kind)), _wide(_as_tensor(y, x.to(kind)))
    left, quotient = torch.fmod(x, y), x / y
    exact = (x - left) / y
    exact = torch.where((left != 0) & ((y < 0) != (left < 0)), exact - 1, exact)
    whole = torch.floor(exact)
    whole = torch.where(exact - whole > 0.5, whole + 1, whole)
    whole = torch.where(exact == 0, torch.where(quotient == 0, quotient, 0.0), whole)
    return torch.where(y == 0, quotient, whole).to(kind)


@decomposes(aten.threshold_backward.default)
def threshold_backward(grad: torch.Tensor, x: torch.Tensor, threshold: Any) -> torch.Tensor:
    """torch's own word of its dtype is not that of its result."""
    kind = torch.result_type(grad, x)
    return torch.where(x.to(kind) <= threshold, torch.zeros((), dtype=kind, device=x.device), grad.to(kind))


@decomposes(torch.ops.prims.scalar_tensor.default)
def scalar(value: Any, *, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
    """torch's own parts have it, torch-mlir does not."""
    return torch.full((), value, dtype=dtype, device=device)


@decomposes(aten.isclose.default)
def isclose(
    x: torch.Tensor, y: torch.Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> torch.Tensor:
    """torch-mlir folds it of a tensor and itself, and forgets that infinities are far from all else."""
    close = x == y
    if equal_nan and not _is_whole(x):
        close = close | (torch.isnan(x) & torch.isnan(y))
    if rtol == 0 and atol == 0:
        return close
    other = y.to(torch.get_default_dtype()) if _is_whole(y) else y
    apart = torch.abs(x - other)
    return close | (torch.isfinite(apart) & (apart <= atol + torch.abs(rtol * other)))


def _is_whole(x: torch.Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex())


def _as_tensor(limit: Any, like: torch.Tensor) -> torch.Tensor:
    if isinstance(limit, torch.Tensor):
        return limit.to(like.dtype)
    return torch.full((), limit, dtype=like.dtype, device=like.device)


def _wide(x: torch.Tensor) -> torch.Tensor:
    """Halves are computed in float32, as eager does."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


decomposes(aten.sigmoid.default)(of_halves(aten.sigmoid.default))
decomposes(aten.round.decimals)(of_halves(aten.round.decimals))
decomposes(aten.fmax.default)(without_nan(torch.maximum))
decomposes(aten.fmin.default)(without_nan(torch.minimum))
decomposes(aten.clamp_max.default)(lambda x, max: clamp(x, None, max))
