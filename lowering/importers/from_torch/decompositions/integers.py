"""Integers of narrow types beside Python's numbers, which take the tensor's type and its bits with it.

torch-mlir takes such a number for one of 64 bits, and some bits of unsigned integers for signs. Here the number is
wrapped first, and what looks at signs is computed in int64, which has room for all types below it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop_op

aten = torch.ops.aten
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
NARROW = (torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16, torch.uint32)


def wrapped(number: int, kind: torch.dtype) -> int:
    """`number` as an element of `kind`."""
    low, bits = torch.iinfo(kind).min, 8 * kind.itemsize
    return (number - low) % (1 << bits) + low


def is_plain(number: Any, kind: torch.dtype) -> bool:
    """Whether a number is the same in `kind`, in int64, and without a sign."""
    low = 0 if kind in UNSIGNED else torch.iinfo(kind).min
    return not isinstance(number, torch.Tensor) and low <= number < 1 << (8 * kind.itemsize - 1)


def in_int64(operator: Any, x: Any, y: Any, **options: Any) -> torch.Tensor:
    """The operator on what both are in their common narrow type."""
    kind = torch.result_type(x, y)
    return operator(*(_wide(each, kind) for each in (x, y)), **options)


def _wide(x: Any, kind: torch.dtype) -> torch.Tensor:
    if isinstance(x, torch.Tensor):
        return x.to(kind).long()
    return torch.full((), wrapped(int(x), kind), dtype=torch.int64)


def divided(x: Any, y: Any, *, rounding_mode: str | None = None) -> torch.Tensor:
    """Rounded quotients; of unsigned integers torch-mlir's end the process, and int64 it floors in float64."""
    kind = torch.result_type(x, y)
    if rounding_mode is None or kind.is_floating_point:
        return NotImplemented
    if kind == torch.int64 and rounding_mode == "floor":
        return _floored(*(_wide(each, kind) for each in (x, y)))
    is_settled = isinstance(x, torch.Tensor) and (isinstance(y, torch.Tensor) or is_plain(y, kind))
    if kind not in NARROW or (kind in (torch.int16, torch.int32) and is_settled):
        return NotImplemented
    rounding_mode = "trunc" if kind in UNSIGNED else rounding_mode
    return in_int64(torch.div, x, y, rounding_mode=rounding_mode).to(kind)


def _floored(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    quotient = torch.div(x, y, rounding_mode="trunc")
    is_above = (x != quotient * y) & torch.logical_xor(x < 0, y < 0)
    return quotient - is_above.to(x.dtype)


def remainder(x: Any, y: Any) -> torch.Tensor:
    """torch-mlir divides int8 as no other type of integers."""
    kind = torch.result_type(x, y)
    if kind == torch.int8 or (kind in NARROW and not isinstance(y, torch.Tensor) and not is_plain(y, kind)):
        return in_int64(torch.remainder, x, y).to(kind)
    return NotImplemented


def extreme(operator: Any) -> Callable[..., torch.Tensor]:
    """`maximum` or `minimum` of integers, of two types and of types without a sign, too."""

    def apply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        kind = torch.result_type(x, y)
        if x.dtype == y.dtype or kind not in (*NARROW, torch.int64):
            return NotImplemented
        return operator(x.to(kind), y.to(kind))

    return apply


def clamped(x: torch.Tensor, low: Any, high: Any) -> torch.Tensor:
    """Between numbers; the limits of unsigned integers may lie below zero, where they are others."""
    limits = [each for each in (low, high) if each is not None]
    kind = x.dtype
    if any(isinstance(each, torch.Tensor) for each in limits):
        return _clamped_by_tensors(x, low, high)
    if kind not in NARROW or any(type(each) is not int for each in limits):
        return NotImplemented
    if all(is_plain(each, kind) for each in limits):
        return NotImplemented
    found = x.long()
    if low is not None:
        found = torch.maximum(found, _wide(low, kind))
    return (found if high is None else torch.minimum(found, _wide(high, kind))).to(kind)


def _clamped_by_tensors(x: torch.Tensor, low: Any, high: Any) -> torch.Tensor:
    """torch-mlir has this of both limits alone."""
    kind = x.dtype
    for limit in (low, high):
        kind = kind if limit is None else torch.promote_types(kind, torch.result_type(x, limit))
    found = x.to(kind)
    for limit, operator in ((low, torch.maximum), (high, torch.minimum)):
        if limit is not None:
            other = limit if isinstance(limit, torch.Tensor) else torch.full((), limit, dtype=kind, device=x.device)
            found = operator(found, other.to(kind))
    return found


def with_wrapped(operator: Any, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The operator of two tensors, which torch-mlir does not have of some narrow integers and a number."""

    def apply(x: Any, y: Any, **options: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype not in (*UNSIGNED, torch.int8) or type(y) is not int:
            return otherwise(x, y, **options)
        return operator(x, torch.full((), wrapped(y, x.dtype), dtype=x.dtype, device=x.device), **options)

    return apply


def greatest_divisor(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Euclid's algorithm, as long as an element has a remainder."""
    kind = torch.result_type(x, y)
    if kind not in (*NARROW, torch.int64):
        return NotImplemented
    x, y = torch.broadcast_tensors(*(each.to(kind).long().abs() for each in (x, y)))

    def goes_on(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.any(y != 0)

    def turn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        is_done = y == 0
        left = torch.fmod(x, torch.where(is_done, 1, y))
        return torch.where(is_done, x, y), torch.where(is_done, 0, left)

    return while_loop_op(goes_on, turn, (x.contiguous(), y.contiguous()), ())[0].to(kind)


def least_multiple(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of two zeros that is zero. What overflows loses its sign as in C, where narrow integers are multiplied as int."""
    kind = torch.result_type(x, y)
    divisor = greatest_divisor(x, y)
    if divisor is NotImplemented:
        return NotImplemented
    wide = torch.int32 if kind.itemsize < torch.int32.itemsize else kind
    quotient = torch.div(x.to(wide), torch.where(divisor == 0, 1, divisor).to(wide), rounding_mode="trunc")
    return torch.abs(quotient * y.to(wide)).to(kind)
