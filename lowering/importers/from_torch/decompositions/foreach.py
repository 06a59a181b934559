"""Decompose operators on lists of tensors, which optimizers call, into the operator on each tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.inductor_prims  # defines prims.fma

from mlirtri.lowering.importers.from_torch.decomposition_rules import Results, decomposes

aten = torch.ops.aten

SAME_NAMES = """
    abs acos add asin atan ceil clamp_max clamp_min copy cos cosh div erf erfc exp expm1 floor frac lerp lgamma log
    log10 log1p log2 max mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc
""".split()
"""Operators whose name and arguments are those of the operator on one tensor."""


def over_lists(operator: Callable[..., object]) -> Callable[..., list[Any]]:
    """Return the rule that calls `operator` on each element of the list arguments."""

    def apply(*arguments: Any, **options: Any) -> list[Any]:
        count = next(len(argument) for argument in arguments if isinstance(argument, (list, tuple)))
        return [
            operator(
                *(argument[position] if isinstance(argument, (list, tuple)) else argument for argument in arguments),
                **options,
            )
            for position in range(count)
        ]

    return apply


def _with_value(operator: Callable[..., Any]) -> Callable[..., Results]:
    return lambda x, left, right, value=1: operator(x, left, right, value=value)


def _limit(by_number: Callable[..., Any], by_tensor: Callable[..., Any]) -> Callable[..., Results]:
    return lambda x, limit: (by_tensor if isinstance(limit, torch.Tensor) else by_number)(x, limit)


def _norm(x: torch.Tensor, ord: Any = 2, dtype: torch.dtype | None = None) -> torch.Tensor:  # noqa: A002 - torch's name
    return torch.linalg.vector_norm(x, ord, dtype=dtype)


_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(aten, name) for name in SAME_NAMES},
    "addcdiv": _with_value(torch.addcdiv),
    "addcmul": _with_value(torch.addcmul),
    "maximum": _limit(aten.clamp_min, torch.maximum),
    "minimum": _limit(aten.clamp_max, torch.minimum),
    "norm": _norm,
    "zero": torch.zeros_like,
}


@decomposes(torch.ops.prims.fma.default)
def multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Return ``x * y + z`` rounded twice, as in eager on CPUs; torch's optimizers fuse it for GPUs."""
    return x * y + z


for _name, _operator in _OPERATORS.items():
    _packet = getattr(aten, f"_foreach_{_name}")
    for _overload in _packet.overloads():
        # No rule splits a tensor with one element per tensor of the list.
        _has_numbers_as_tensor = _name.startswith("addc") and _overload == "Tensor"
        if not _overload.endswith("out") and not _has_numbers_as_tensor:
            decomposes(getattr(_packet, _overload))(over_lists(_operator))
