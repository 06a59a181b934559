"""Decompose float operators for which torch-mlir loses NaN, infinity or precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import (
    HALVES,
    Operand,
    Operator,
    Results,
    Scalar,
    chained,
    counted_loop,
    decomposes,
    rounded,
)
from mlirtri.lowering.importers.from_torch.decompositions.complex_numbers.tensors import add, subtract
from mlirtri.lowering.importers.from_torch.decompositions.elementwise.integers import (
    NARROW_INTEGERS,
    clamp_integers,
    divide_integers,
    extremum_of_integers,
    with_wrapped_scalar,
)
from mlirtri.lowering.special_functions import definitions

aten = torch.ops.aten
Tensor = torch.Tensor


@decomposes(aten.reciprocal.default)
def reciprocal(x: Tensor) -> Tensor:
    """Return ``1 / x``, infinity of 0; torch-mlir asserts that no element is 0."""
    result = torch.result_type(x, 1.0)
    return torch.ones((), dtype=result, device=x.device) / x


@decomposes(*(getattr(aten.linspace, name) for name in aten.linspace.overloads() if not name.endswith("out")))
def linspace(start: Operand, end: Operand, steps: int, *, dtype: torch.dtype | None = None, **rest: object) -> Tensor:
    """Return ``start + step * i``, and from the middle on ``end - step * …``; eager rounds each step of halves."""
    kind = dtype or torch.get_default_dtype()
    if kind not in HALVES or steps < 2:
        return torch._refs.linspace(start, end, steps, dtype=kind, **rest)
    first, last = (x.to(kind) if isinstance(x, Tensor) else torch.full((), x, dtype=kind) for x in (start, end))
    step, position = (last - first) / torch.full((), steps - 1, dtype=kind), torch.arange(steps)
    rising, falling = first + step * position.to(kind), last - step * (steps - 1 - position).to(kind)
    return torch.where(position < steps // 2, rising, falling)


@decomposes(aten.gelu.default)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Return GELU; torch-mlir has four digits of the approximation's constant, and divides by the square root of 2."""
    wide = _wide(x)
    if approximate == "none":
        return (0.5 * wide * (1 + torch.erf(wide * math.sqrt(0.5)))).to(x.dtype)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return (0.5 * wide * (1 + torch.tanh(inner))).to(x.dtype)


@decomposes(aten.elu.default)
def elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    """Return ELU by expm1; torch-mlir subtracts 1 from an exponential, which cancels near 0."""
    if not x.is_floating_point():
        return NotImplemented
    wide = _wide(x)
    return torch.where(wide < 0, torch.expm1(wide * input_scale) * (alpha * scale), wide * scale).to(x.dtype)


@decomposes(aten.leaky_relu.default)
def leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    wide = _wide(x)
    return torch.where(wide > 0, wide, wide * slope).to(x.dtype)


@decomposes(aten.rrelu_with_noise_functional.default)
def rrelu(
    x: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, _: object = None
) -> Results:
    """Return the leaky ReLU with the mean slope; random slopes (`training`) are left to be refused."""
    if training:
        return NotImplemented
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise


@decomposes(aten.logit.default)
def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """Return ``log(x / (1 - x))``; eager rounds float16 and bfloat16 after each operation."""
    x = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    x = x if eps is None else torch.clamp(x, eps, 1 - eps)
    return torch.log(x / (1 - x))


@decomposes(aten.sign.default)
def sign(x: Tensor) -> Tensor:
    """Return -1, 0 or 1, and 0 of NaN; torch-mlir folds the sign of a positive constant to -1."""
    if x.dtype == torch.bool:
        return x.clone()
    one, zero = torch.ones((), dtype=x.dtype, device=x.device), torch.zeros((), dtype=x.dtype, device=x.device)
    positive = torch.where(x > 0, one, zero)
    return torch.where(x < 0, -one, positive) if x.dtype.is_signed else positive


@decomposes(aten.trunc.default)
def trunc(x: Tensor) -> Tensor:
    """Round to zero, where torch-mlir multiplies by the sign."""
    return torch.where(x < 0, torch.ceil(x), torch.floor(x)) if x.dtype.is_floating_point else x.clone()


def in_float32_if_half(operator: Operator) -> Callable[..., Results]:
    """Return the rule that computes float16 and bfloat16 in float32, where torch-mlir overflows or rounds each step."""

    def apply(x: Tensor, *operands: Any, **options: Any) -> Results:
        wide = _wide(x)
        if wide is x:
            return NotImplemented
        others = [_wide(other) if isinstance(other, Tensor) else other for other in operands]
        return operator(wide, *others, **options).to(x.dtype)

    return apply


@decomposes(aten.clamp.default, aten.clamp.Tensor, aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp(x: Tensor, min: Scalar = None, max: Scalar = None) -> Tensor:  # noqa: A002 - torch's names
    """Clamp the elements, keeping NaN, which torch-mlir turns into a limit."""
    limits = [limit for limit in (min, max) if limit is not None]
    kind = x.dtype
    for limit in limits:
        kind = torch.promote_types(kind, torch.result_type(x, limit))
    if not kind.is_floating_point:
        return clamp_integers(x, min, max)
    result = x.to(kind)
    # Of -0.0 and 0.0, which are equal, the element stays, as in eager; `torch.maximum` takes the second.
    if min is not None:
        limit = _as_tensor(min, result)
        result = torch.where((result >= limit) | torch.isnan(result), result, limit)
    if max is not None:
        limit = _as_tensor(max, result)
        result = torch.where((result <= limit) | torch.isnan(result), result, limit)
    return result


@decomposes(aten.clamp_max.Tensor)
def clamp_max_tensor(x: Tensor, limit: Tensor) -> Tensor:
    """Limit the elements to at most `limit`, also of integers."""
    result = clamp(x, None, limit)
    return torch.minimum(x, limit) if result is NotImplemented else result


@decomposes(aten.maximum.default)
def maximum(x: Tensor, y: Tensor) -> Tensor:
    """Return the larger element or NaN; torch-mlir drops a NaN of the first operand."""
    kind = torch.result_type(x, y)
    if not kind.is_floating_point:
        return extremum_of_integers(torch.maximum)(x, y)
    x, y = x.to(kind), y.to(kind)
    return torch.where((x > y) | torch.isnan(x), x, y)


@decomposes(aten.minimum.default)
def minimum(x: Tensor, y: Tensor) -> Tensor:
    """Return the smaller element or NaN, as `maximum` does the larger."""
    kind = torch.result_type(x, y)
    if not kind.is_floating_point:
        return extremum_of_integers(torch.minimum)(x, y)
    x, y = x.to(kind), y.to(kind)
    return torch.where((x < y) | torch.isnan(x), x, y)


def ignoring_nan(operator: Operator) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the rule of `fmax` or `fmin`, given `maximum` or `minimum`: where one operand is NaN, the other."""

    def apply(x: Tensor, y: Tensor) -> Tensor:
        kind = torch.result_type(x, y)
        x, y = x.to(kind), y.to(kind)
        result = operator(x, y)
        if not kind.is_floating_point:
            return result
        return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, result))

    return apply


@decomposes(aten.hardtanh.default)
def hardtanh(x: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    """Clamp the elements, with integer limits for integers."""
    if not x.is_floating_point():
        min_val, max_val = int(min_val), int(max_val)
    return torch.clamp(x, min_val, max_val)


@decomposes(aten.relu6.default)
def relu6(x: Tensor) -> Tensor:
    return torch.clamp(x, 0, 6)


@decomposes(aten.hardsigmoid.default)
def hardsigmoid(x: Tensor) -> Tensor:
    return (torch.clamp(_wide(x) + 3, 0, 6) / 6).to(x.dtype)


@decomposes(aten.hypot.default)
def hypot(x: Tensor, y: Tensor) -> Tensor:
    """Return ``sqrt(x * x + y * y)``, scaled so that the squares neither overflow nor underflow."""
    kind = torch.result_type(x, y)
    x, y = _wide(x.to(kind)), _wide(y.to(kind))
    large, small = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = small / torch.where((large == 0) | torch.isinf(large), 1.0, large)
    length = large * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.isinf(x) | torch.isinf(y), float("inf"), length).to(kind)


def scaled_sum(sign: int) -> Callable[..., Results]:
    """Return the rule of ``x ± alpha * y``, which eager rounds once for float16 and bfloat16, and alpha before."""

    def apply(x: Operand, y: Operand, *, alpha: Scalar = 1) -> Results:
        kind = torch.result_type(x, y)
        if kind not in (torch.float16, torch.bfloat16) or alpha == 1:
            return NotImplemented
        like = x if isinstance(x, Tensor) else y
        first, second = (_wide(_as_tensor(operand, like.to(kind)).to(kind)) for operand in (x, y))
        return (first + second * (sign * rounded(float(alpha), kind))).to(kind)

    return apply


@decomposes(aten.threshold.default)
def threshold(x: Tensor, limit: float, value: float) -> Tensor:
    """Return `value` where x is not above the limit; eager compares halves in float32."""
    return torch.where(_wide(x) <= limit, torch.full((), value, dtype=x.dtype, device=x.device), x)


@decomposes(aten.hardshrink.default)
def hardshrink(x: Tensor, limit: float = 0.5) -> Tensor:
    """Return x, and 0 within the limit, which eager rounds to the dtype of x."""
    return torch.where((x >= -limit) & (x <= limit), torch.zeros((), dtype=x.dtype, device=x.device), x)


@decomposes(aten.xlogy.Tensor, aten.xlogy.Scalar_Other, aten.xlogy.Scalar_Self)
def xlogy(x: Operand, y: Operand) -> Tensor:
    """Return ``x * log(y)``, 0 where x is 0 and y is a number; eager rounds a Python number to the dtype."""
    kind = torch.result_type(x, y)
    kind = kind if kind.is_floating_point else torch.get_default_dtype()
    like = x if isinstance(x, Tensor) else y
    x, y = (_as_tensor(operand, like.to(kind)).to(kind) for operand in (x, y))
    return definitions.times_logarithm(torch, x, y, torch.log(y))


@decomposes(aten.logcumsumexp.default)
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Return the scan of `logaddexp`, in steps of 1, 2, 4…; torch-mlir's sum of exponentials overflows."""
    if x.is_complex() and x.dim() and all(type(size) is int for size in x.shape):
        return _logcumsumexp_of_complex(x, dim)
    if not x.is_floating_point() or x.dim() == 0 or not isinstance(x.shape[dim], int):
        return NotImplemented
    total, distance = _wide(x), 1
    while distance < x.shape[dim]:
        shape = [distance if axis == dim % x.dim() else size for axis, size in enumerate(x.shape)]
        before = torch.full(shape, -math.inf, dtype=total.dtype, device=x.device)
        shifted = torch.cat([before, total.narrow(dim, 0, x.shape[dim] - distance)], dim)
        largest, smallest = torch.maximum(total, shifted), torch.minimum(total, shifted)
        # Of two infinities of one sign the difference is NaN.
        total = torch.where(torch.isinf(largest), largest, largest + torch.log1p(torch.exp(smallest - largest)))
        distance *= 2
    return total.to(x.dtype)


def _logcumsumexp_of_complex(z: Tensor, dim: int) -> Tensor:
    """Add one element after the other: the imaginary parts are not reduced to one turn, so that the order matters."""
    if not z.numel():
        return z.clone()
    slices = z.movedim(dim, 0).contiguous()

    def add(k: Tensor, total: Tensor, sums: Tensor, slices: Tensor) -> Sequence[Tensor]:
        element = slices.index_select(0, k.reshape(1)).squeeze(0)
        is_less = total.real < element.real
        small, large = torch.where(is_less, total, element), torch.where(is_less, element, total)
        joined = torch.log1p(torch.exp(small - large)) + large
        is_infinite = torch.isinf(large.real) & (small.real == large.real)
        joined = torch.where(is_infinite, torch.log(torch.exp(small) + torch.exp(large)), joined)
        total = torch.where(is_infinite & (small.real < 0), total, joined)
        iota = torch.arange(sums.shape[0], device=z.device).view(-1, *[1] * (z.dim() - 1))
        return total, torch.where(iota == k, total, sums)

    nothing = torch.complex(torch.full_like(slices[0].real, -math.inf), torch.zeros_like(slices[0].real))
    _, sums = counted_loop(slices.shape[0], add, (nothing, torch.zeros_like(slices)), (slices,))
    return sums.movedim(0, dim)


@decomposes(aten.arange.start_step)
def arange(start: Scalar, end: Scalar, step: Scalar = 1, *, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    """Return ``start + i * step``: of floats computed in float64 and rounded once, as eager; of integers."""
    numbers = (start, end, step)
    kind = dtype or (torch.get_default_dtype() if float in map(type, numbers) else torch.int64)
    if kind in NARROW_INTEGERS and kind != torch.int32 and all(type(number) is int for number in numbers):
        return torch.arange(start, end, step, device=options.get("device")).to(kind)
    if kind.is_complex or not all(type(number) in (int, float) for number in numbers):
        return NotImplemented
    count = max(0, math.ceil((end - start) / step))
    device = options.get("device")
    if not kind.is_floating_point:
        if float not in map(type, numbers):
            return NotImplemented
        # Eager counts by the floats, and steps by their whole parts.
        return (torch.arange(count, device=device) * int(step) + int(start)).to(kind)
    return (torch.arange(count, device=device).to(torch.float64) * float(step) + float(start)).to(kind)


@decomposes(aten.fmod.Tensor)
def fmod(x: Tensor, y: Tensor) -> Tensor:
    """Return the remainder with the sign of `x`; torch-mlir rounds it, but not its `remainder` of positive operands."""
    kind = torch.result_type(x, y)
    if not kind.is_floating_point:
        return NotImplemented
    wide, other = _wide(x.to(kind)), _wide(y.to(kind))
    size = torch.remainder(wide.abs(), other.abs())
    # Keep the sign of zero.
    return torch.where(wide < 0, -size, torch.where(wide == 0, wide - size, size)).to(kind)


def _dividend_and_divisor(x: Operand, y: Operand, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return both as eager divides them: halves in float32, and only the dividend rounded if it is a number."""
    like = x if isinstance(x, Tensor) else y
    dividend = _wide(_as_tensor(x, like.to(kind)).to(kind))
    is_number = not isinstance(y, Tensor) or (y.dim() == 0 and like.dim() > 0)
    return dividend, _as_tensor(y, dividend) if is_number else _wide(y.to(kind))


def _rounding_of_steps(divisor: Any, kind: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Return what eager does with each step of a division of halves: it rounds them where the divisor is no number."""
    is_number = not isinstance(divisor, Tensor) or divisor.numel() == 1
    if kind not in HALVES or is_number:
        return lambda x: x
    return lambda x: x.to(kind).float()


def floor_divide(x: Operand, y: Operand) -> Tensor:
    """Return the rounded-down quotient as eager: ``(x - remainder) / y``."""
    kind = torch.result_type(x, y)
    stored = _rounding_of_steps(y, kind)
    x, y = _dividend_and_divisor(x, y, kind)
    remainder, quotient = torch.fmod(x, y), x / y
    exact = stored(stored(x - remainder) / y)
    exact = torch.where((remainder != 0) & ((y < 0) != (remainder < 0)), stored(exact - 1), exact)
    floor = torch.floor(exact)
    floor = torch.where(stored(exact - floor) > 0.5, stored(floor + 1), floor)
    floor = torch.where(exact == 0, torch.where(quotient == 0, quotient, 0.0), floor)
    return torch.where(y == 0, quotient, floor).to(kind)


@decomposes(aten.threshold_backward.default)
def threshold_backward(grad: Tensor, x: Tensor, threshold: Scalar) -> Tensor:
    """Return `grad` where `x` is above `threshold`, in the promoted dtype, which torch does not infer."""
    kind = torch.result_type(grad, x)
    return torch.where(x.to(kind) <= threshold, torch.zeros((), dtype=kind, device=x.device), grad.to(kind))


@decomposes(torch.ops.prims.scalar_tensor.default, aten.scalar_tensor.default)
def scalar(value: Operand, *, dtype: torch.dtype | None = None, device: Any = None, **options: object) -> Tensor:
    """Return a rank-0 tensor; torch's decompositions create it, torch-mlir does not lower it."""
    return torch.full((), value, dtype=dtype, device=device)


def _as_tensor(limit: Any, like: Tensor) -> Tensor:
    if isinstance(limit, Tensor):
        return limit.to(like.dtype)
    return torch.full((), limit, dtype=like.dtype, device=like.device)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


@decomposes(aten.div.Tensor_mode)
def div_with_rounding(x: Operand, y: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Return the rounded quotient; torch-mlir rounds quotients of floats twice."""
    kind = torch.result_type(x, y)
    if rounding_mode == "floor" and kind.is_floating_point:
        return floor_divide(x, y)
    if rounding_mode == "trunc" and kind in (torch.float16, torch.bfloat16):
        dividend, divisor = _dividend_and_divisor(x, y, kind)
        return torch.trunc(_rounding_of_steps(y, kind)(dividend / divisor)).to(kind)
    return divide_integers(x, y, rounding_mode=rounding_mode)


decomposes(aten.sigmoid.default)(in_float32_if_half(aten.sigmoid.default))
decomposes(aten.round.decimals)(in_float32_if_half(aten.round.decimals))
decomposes(aten.fmax.default)(ignoring_nan(torch.maximum))
decomposes(aten.fmin.default)(ignoring_nan(torch.minimum))
decomposes(aten.clamp_max.default)(lambda x, max: clamp(x, None, max))
for _packet, _rule, _sign in ((aten.add, add, 1), (aten.sub, subtract, -1)):
    decomposes(_packet.Tensor, _packet.Scalar)(chained([scaled_sum(_sign), with_wrapped_scalar(_packet.Tensor, _rule)]))
