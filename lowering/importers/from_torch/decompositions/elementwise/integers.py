"""Integer arithmetic, powers, and operators on a tensor and a Python number.

A Python number wraps to the tensor's integer dtype, as in eager; what depends on the sign is computed in int64.
torch-mlir takes the number as int64, and some unsigned integers as signed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import (
    Operand,
    Operator,
    Results,
    Scalar,
    decomposes,
    while_loop,
)
from mlirtri.lowering.importers.from_torch.decompositions.complex_numbers.tensors import multiply, rsub_complex

aten = torch.ops.aten
Tensor = torch.Tensor


UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)


NARROW_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16, torch.uint32)


def wrapped(number: int, kind: torch.dtype) -> int:
    """Return `number` modulo 2**bits in the integer dtype `kind`."""
    low, bits = torch.iinfo(kind).min, 8 * kind.itemsize
    return (number - low) % (1 << bits) + low


def is_in_range(number: Scalar, kind: torch.dtype) -> bool:
    """Return whether a Python number has the same value in `kind` and in the signed integer of its width."""
    low = 0 if kind in UNSIGNED else torch.iinfo(kind).min
    return not isinstance(number, Tensor) and low <= number < 1 << (8 * kind.itemsize - 1)


def in_int64(operator: Operator, x: Operand, y: Operand, **options: object) -> Tensor:
    """Apply the operator in int64 to operands converted to their promoted narrow dtype."""
    kind = torch.result_type(x, y)
    return operator(*(_widen(operand, kind) for operand in (x, y)), **options)


def _widen(x: Operand, kind: torch.dtype) -> Tensor:
    if isinstance(x, Tensor):
        return x.to(kind).long()
    return torch.full((), wrapped(int(x), kind), dtype=torch.int64)


def divide_integers(x: Operand, y: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Return rounded quotients; torch-mlir's trap for unsigned integers, and floor int64 through float64."""
    kind = torch.result_type(x, y)
    if rounding_mode is None or kind.is_floating_point:
        return NotImplemented
    if kind == torch.int64 and rounding_mode == "floor":
        return _floor_divide(*(_widen(operand, kind) for operand in (x, y)))
    needs_no_rule = isinstance(x, Tensor) and (isinstance(y, Tensor) or is_in_range(y, kind))
    if kind not in NARROW_INTEGERS or (kind in (torch.int16, torch.int32) and needs_no_rule):
        return NotImplemented
    rounding_mode = "trunc" if kind in UNSIGNED else rounding_mode
    return in_int64(torch.div, x, y, rounding_mode=rounding_mode).to(kind)


def _floor_divide(x: Tensor, y: Tensor) -> Tensor:
    quotient = torch.div(x, y, rounding_mode="trunc")
    is_above = (x != quotient * y) & torch.logical_xor(x < 0, y < 0)
    return quotient - is_above.to(x.dtype)


def remainder(x: Operand, y: Operand) -> Tensor:
    """Return the remainder with the divisor's sign; torch-mlir computes int8 incorrectly."""
    kind = torch.result_type(x, y)
    if kind == torch.int8 or (kind in NARROW_INTEGERS and not isinstance(y, Tensor) and not is_in_range(y, kind)):
        return in_int64(torch.remainder, x, y).to(kind)
    return NotImplemented


def extremum_of_integers(operator: Operator) -> Callable[..., Tensor]:
    """Return the rule of `maximum` or `minimum` of integers with different or unsigned dtypes."""

    def apply(x: Tensor, y: Tensor) -> Tensor:
        kind = torch.result_type(x, y)
        if x.dtype == y.dtype or kind not in (*NARROW_INTEGERS, torch.int64):
            return NotImplemented
        return operator(x.to(kind), y.to(kind))

    return apply


def clamp_integers(x: Tensor, low: Scalar, high: Scalar) -> Tensor:
    """Clamp integers to limits, which wrap first if they are outside the dtype."""
    limits = [operand for operand in (low, high) if operand is not None]
    kind = x.dtype
    if any(isinstance(limit, Tensor) for limit in limits):
        return _clamped_by_tensors(x, low, high)
    if kind not in NARROW_INTEGERS or any(type(limit) is not int for limit in limits):
        return NotImplemented
    if all(is_in_range(limit, kind) for limit in limits):
        return NotImplemented
    result = x.long()
    if low is not None:
        result = torch.maximum(result, _widen(low, kind))
    return (result if high is None else torch.minimum(result, _widen(high, kind))).to(kind)


def _clamped_by_tensors(x: Tensor, low: Scalar, high: Scalar) -> Tensor:
    """Clamp `x` by one or two tensors; torch-mlir requires two."""
    kind = x.dtype
    for limit in (low, high):
        kind = kind if limit is None else torch.promote_types(kind, torch.result_type(x, limit))
    result = x.to(kind)
    for limit, operator in ((low, torch.maximum), (high, torch.minimum)):
        if limit is not None:
            other = limit if isinstance(limit, Tensor) else torch.full((), limit, dtype=kind, device=x.device)
            result = operator(result, other.to(kind))
    return result


def with_wrapped_scalar(operator: Operator, otherwise: Callable[..., object]) -> Callable[..., Results]:
    """Return the rule that wraps an integer into a tensor, for unsigned integers and int8."""

    def apply(x: Operand, y: Operand, **options: Any) -> Results:
        if not isinstance(x, Tensor) or x.dtype not in (*UNSIGNED, torch.int8) or type(y) is not int:
            return otherwise(x, y, **options)
        return operator(x, torch.full((), wrapped(y, x.dtype), dtype=x.dtype, device=x.device), **options)

    return apply


def gcd(x: Tensor, y: Tensor) -> Tensor:
    """Return the greatest common divisor, by Euclid's algorithm."""
    kind = torch.result_type(x, y)
    if kind not in (*NARROW_INTEGERS, torch.int64):
        return NotImplemented
    x, y = torch.broadcast_tensors(*(operand.to(kind).long().abs() for operand in (x, y)))

    def condition(x: Tensor, y: Tensor) -> Tensor:
        return torch.any(y != 0)

    def body(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        is_done = y == 0
        remainder = torch.fmod(x, torch.where(is_done, 1, y))
        return torch.where(is_done, x, y), torch.where(is_done, 0, remainder)

    return while_loop(condition, body, (x.contiguous(), y.contiguous()))[0].to(kind)


def lcm(x: Tensor, y: Tensor) -> Tensor:
    """Return the least common multiple, 0 of zeros; an overflow wraps as in C, with narrow integers promoted to int."""
    kind = torch.result_type(x, y)
    divisor = gcd(x, y)
    if divisor is NotImplemented:
        return NotImplemented
    wide = torch.int32 if kind.itemsize < torch.int32.itemsize else kind
    quotient = torch.div(x.to(wide), torch.where(divisor == 0, 1, divisor).to(wide), rounding_mode="trunc")
    return torch.abs(quotient * y.to(wide)).to(kind)


LARGEST_UNROLLED_EXPONENT = 64
"""The exponent becomes a tensor from here on."""


_FLOAT_POWERS: dict[float, Callable[[Tensor], Tensor]] = {
    -2: lambda x: 1 / (x * x), -1: torch.reciprocal, 0: torch.ones_like, 1: torch.clone, 2: lambda x: x * x,
    3: lambda x: x * x * x,
}  # fmt: skip


_ROOTS: dict[float, Callable[[Tensor], Tensor]] = {0.5: torch.sqrt, -0.5: torch.rsqrt}
"""Exponents of all floats but float16. Unlike `pow`, the root of -0.0 is -0.0, and that of -inf NaN."""


@decomposes(aten.pow.Tensor_Scalar)
def pow_scalar(x: Tensor, exponent: Operand) -> Tensor:
    """Return ``x ** exponent``: integers by multiplications, floats with eager's special exponents."""
    kind = torch.result_type(x, exponent)
    powers = _FLOAT_POWERS if kind == torch.float16 else {**_FLOAT_POWERS, **_ROOTS}
    if kind.is_floating_point and type(exponent) in (int, float) and exponent in powers:
        return powers[exponent](x.to(kind))
    if kind.is_floating_point and not x.dtype.is_floating_point:
        return aten.pow.Tensor_Scalar(x.to(kind), exponent)
    if kind.is_floating_point or kind.is_complex:
        return NotImplemented
    if type(exponent) is not int or not 0 <= exponent < LARGEST_UNROLLED_EXPONENT:
        return aten.pow.Tensor_Tensor(x, torch.full((), exponent, dtype=kind, device=x.device))
    result, factor = torch.ones_like(x, dtype=kind), x.to(kind)
    while exponent:
        result = result * factor if exponent % 2 else result
        factor, exponent = factor * factor if exponent > 1 else factor, exponent // 2
    return result


@decomposes(aten.pow.Scalar)
def pow_of_scalar(base: Operand, exponent: Tensor) -> Tensor:
    """Return ``base ** exponent`` of integers."""
    kind = torch.result_type(base, exponent)
    if kind.is_floating_point or kind.is_complex:
        return NotImplemented
    return aten.pow.Tensor_Tensor(torch.full((), base, dtype=kind, device=exponent.device), exponent)


@decomposes(aten.pow.Tensor_Tensor)
def pow_tensor(x: Tensor, exponent: Tensor) -> Tensor:
    """Convert both integers to the result's dtype and shape, which the repair lowers; unsigned ones in int64."""
    kind = torch.result_type(x, exponent)
    needs_no_rule = x.dtype == exponent.dtype == kind and x.shape == exponent.shape
    if kind.is_floating_point or kind.is_complex or (needs_no_rule and kind.is_signed):
        return NotImplemented
    wide = kind if kind.is_signed else torch.int64
    x, exponent = torch.broadcast_tensors(x.to(kind).to(wide), exponent.to(kind).to(wide))
    return aten.pow.Tensor_Tensor(x, exponent).to(kind)


def with_scalar_right(operator: Operator) -> Callable[[Tensor, Operand], Tensor]:
    """Return the rule of a tensor and a number, given the operator of two tensors."""

    def apply(x: Tensor, number: Scalar) -> Tensor:
        kind = torch.result_type(x, number)
        return operator(x.to(kind), torch.full((), number, dtype=kind, device=x.device))

    return apply


def with_scalar_left(operator: Operator) -> Callable[[Operand, Tensor], Tensor]:
    """Return the rule of a number and a tensor, given the operator of two tensors."""

    def apply(number: Scalar, x: Tensor) -> Tensor:
        kind = torch.result_type(number, x)
        return operator(torch.full((), number, dtype=kind, device=x.device), x.to(kind))

    return apply


@decomposes(aten.rsub.Scalar)
def rsub(x: Tensor, number: Scalar, alpha: Scalar = 1) -> Tensor:
    """Return ``number - alpha * x``; torch-mlir rounds the number to float32."""
    kind = torch.result_type(x, number)
    if kind.is_complex:
        return rsub_complex(x.to(kind), number, alpha)
    return torch.sub(torch.full((), number, dtype=kind, device=x.device), x.to(kind), alpha=alpha)


def with_promotion(operator: Operator) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the rule that promotes both operands to one dtype."""

    def apply(x: Tensor, y: Tensor) -> Tensor:
        kind = torch.result_type(x, y)
        return operator(x.to(kind), y.to(kind))

    return apply


@decomposes(aten.full_like.default)
def full_like(x: Tensor, number: Scalar, *, dtype: torch.dtype | None = None, **options: object) -> Tensor:
    """Return a tensor of unsigned integers filled with `number`, which torch-mlir does not create."""
    kind = dtype or x.dtype
    if kind not in UNSIGNED:
        return NotImplemented
    return ((x.real if x.dtype.is_complex else x).long() * 0 + int(number)).to(kind)


decomposes(aten.gcd.default)(gcd)
decomposes(aten.lcm.default)(lcm)
decomposes(aten.fmod.Scalar)(with_scalar_right(torch.fmod))
decomposes(aten.bitwise_xor.Scalar)(with_scalar_right(torch.bitwise_xor))
decomposes(aten.bitwise_or.Scalar)(with_scalar_right(torch.bitwise_or))
decomposes(aten.remainder.Scalar)(remainder)
decomposes(aten.remainder.Tensor)(remainder)
decomposes(aten.remainder.Scalar_Tensor)(with_scalar_left(torch.remainder))
decomposes(aten.__lshift__.Tensor)(with_promotion(torch.bitwise_left_shift))
decomposes(aten.__rshift__.Tensor)(with_promotion(torch.bitwise_right_shift))
decomposes(aten.__lshift__.Scalar)(with_scalar_right(torch.bitwise_left_shift))
decomposes(aten.__rshift__.Scalar)(with_scalar_right(torch.bitwise_right_shift))
decomposes(aten.bitwise_left_shift.Tensor_Scalar)(with_scalar_right(torch.bitwise_left_shift))
decomposes(aten.bitwise_right_shift.Tensor_Scalar)(with_scalar_right(torch.bitwise_right_shift))
decomposes(aten.bitwise_left_shift.Scalar_Tensor)(with_scalar_left(torch.bitwise_left_shift))
decomposes(aten.bitwise_right_shift.Scalar_Tensor)(with_scalar_left(torch.bitwise_right_shift))
decomposes(aten.mul.Tensor, aten.mul.Scalar)(with_wrapped_scalar(aten.mul.Tensor, multiply))
