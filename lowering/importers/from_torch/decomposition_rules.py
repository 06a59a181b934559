"""The tables of decompositions, and the decorators that register rules: one per operator and table.

A rule is called like the operator and returns what eager returns, computed with operators that torch-mlir lowers
correctly. If it returns `NotImplemented`, the next table's rule is tried, and without one the operator is kept.
A second rule for an operator in the same table raises `ValueError`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch._higher_order_ops.while_loop import while_loop_op

from mlirtri.dialect.base.registry import Registry

Operator: TypeAlias = Any
"""An overload of an ATen operator, or a function of torch that calls one."""
Scalar: TypeAlias = Any
"""A number of a trace: Python's, or a `torch.SymInt`, `SymFloat` or `SymBool`."""
Operand: TypeAlias = Any
"""A tensor or a scalar."""
Axes: TypeAlias = Any
"""One axis, a list of axes, or None for all."""
Results: TypeAlias = Any
"""A tensor or a tuple of tensors; `NotImplemented` from a rule that leaves the operator to another one."""
Rule = Callable[..., Results]
Table = Registry[torch._ops.OpOverload, Rule]

SCALAR_RULES: Table = Registry("decomposition of scalars")
"""Rules for rank-0 operands of operators along an axis."""
COMPLEX_RULES: Table = Registry("decomposition of complex operands")
"""Rules for complex operands or results."""
UNSIGNED_RULES: Table = Registry("decomposition of uint16 and uint64")
"""Rules for results of uint16 or uint64."""
RULES: Table = Registry("decomposition")
"""All other rules. They replace the decompositions that torch and torch-mlir have."""

decomposes_scalars = SCALAR_RULES.register
creates_complex = COMPLEX_RULES.register
creates_unsigned = UNSIGNED_RULES.register
decomposes = RULES.register


def decomposes_complex(*operators: torch._ops.OpOverload) -> Callable[[Rule], Rule]:
    """Return the decorator that registers a rule for calls of which one of the first two arguments is complex."""

    def register(rule: Rule) -> Rule:
        def apply(*arguments: Any, **options: Any) -> Any:
            is_complex = any(map(_is_complex, arguments[:2]))
            return rule(*arguments, **options) if is_complex else NotImplemented

        creates_complex(*operators)(apply)
        return rule

    return register


def _is_complex(argument: Any) -> bool:
    return argument.dtype.is_complex if isinstance(argument, torch.Tensor) else type(argument) is complex


_CALLS = threading.local()


def without_rules(operator: Operator, *arguments: Any, **options: Any) -> Results:
    """Return the operator's results, where its rule asks `is_without_rules` first, so as not to be applied again."""
    _CALLS.without_rules = True
    try:
        return operator(*arguments, **options)
    finally:
        _CALLS.without_rules = False


def is_without_rules() -> bool:
    return getattr(_CALLS, "without_rules", False)


HALVES = (torch.float16, torch.bfloat16)
"""Dtypes that eager computes in float32."""


def in_float32(operator: Operator) -> Callable[..., Results]:
    """Return the rule that computes float16 and bfloat16 in float32 and rounds the results once."""

    def compute(x: torch.Tensor, *arguments: Any, dtype: torch.dtype | None = None, **options: Any) -> Any:
        kind = dtype or x.dtype
        if kind not in HALVES:
            return NotImplemented
        result = operator(x.to(kind).float(), *arguments, **options)
        return result.to(kind) if isinstance(result, torch.Tensor) else tuple(operand.to(kind) for operand in result)

    return compute


def rounded(number: float, dtype: torch.dtype) -> float:
    """Return a Python float rounded to a float dtype, as eager rounds it before it compares."""
    if dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return number
    with np.errstate(over="ignore"):
        single = np.float32(number)
        if dtype != torch.bfloat16:
            return float(single if dtype == torch.float32 else np.float16(single))
    if not np.isfinite(single):
        return number
    # The upper half of the bits, rounded to even.
    bits = int(single.view(np.uint32))
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return float(np.uint32(bits).view(np.float32))


def chained(rules: list[Rule]) -> Rule:
    """Return the rule that tries `rules` in order until one does not return `NotImplemented`."""

    def apply(*arguments: Any, **options: Any) -> Any:
        for rule in rules:
            result = rule(*arguments, **options)
            if result is not NotImplemented:
                return result
        return NotImplemented

    return rules[0] if len(rules) == 1 else apply


def while_loop(
    condition: Callable[..., torch.Tensor],
    body: Callable[..., Sequence[torch.Tensor]],
    carried: tuple[torch.Tensor, ...],
    fixed: tuple[torch.Tensor, ...] = (),
) -> Any:
    """Return the loop-carried values after ``carried = body(*carried, *fixed)`` while `condition` of both holds."""
    # What a loop carries has to keep its strides: operands of size 1 may have any.
    carried = tuple(value.clone(memory_format=torch.contiguous_format) for value in carried)
    # torch annotates the tuples as of one element.
    operator = cast("Callable[..., Any]", while_loop_op)
    return operator(condition, body, carried, fixed)


def counted_loop(
    goes_on: int | Callable[..., torch.Tensor],
    step: Callable[..., Sequence[torch.Tensor]],
    carried: Sequence[torch.Tensor],
    fixed: Sequence[torch.Tensor] = (),
) -> Any:
    """Return the loop-carried values after ``carried = step(k, *carried, *fixed)`` for k from 0 on.

    There are `goes_on` iterations, or as many as `goes_on` of the same holds for.
    """
    condition = goes_on if callable(goes_on) else lambda k, *_: k < goes_on
    start = torch.zeros((), dtype=torch.int64, device=carried[0].device)
    return while_loop(condition, lambda k, *values: (k + 1, *step(k, *values)), (start, *carried), tuple(fixed))[1:]
