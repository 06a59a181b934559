"""Operators on lists of tensors, as optimizers call them: the operator on one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.inductor_prims  # which has prims.fma

from mlirtri.lowering.importers.from_torch.decompositions.rules import decomposes

aten = torch.ops.aten

ALIKE = """
    abs acos add asin atan ceil clamp_max clamp_min copy cos cosh div erf erfc exp expm1 floor frac lerp lgamma log
    log10 log1p log2 max mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc
""".split()
"""Names that the operator on one tensor has too, with the same arguments."""


def each_of(operator: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The operator on each element of the lists among its arguments."""

    def apply(*arguments: Any, **options: Any) -> list[Any]:
        count = next(len(each) for each in arguments if isinstance(each, (list, tuple)))
        return [
            operator(*(each[at] if isinstance(each, (list, tuple)) else each for each in arguments), **options)
            for at in range(count)
        ]

    return apply


def _with_value(operator: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, left, right, value=1: operator(x, left, right, value=value)


def _limited(by_number: Callable[..., Any], by_tensor: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, limit: (by_tensor if isinstance(limit, torch.Tensor) else by_number)(x, limit)


def _norm(x: torch.Tensor, ord: Any = 2, dtype: torch.dtype | None = None) -> torch.Tensor:  # noqa: A002 - torch's name
    return torch.linalg.vector_norm(x, ord, dtype=dtype)


_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(aten, name) for name in ALIKE},
    "addcdiv": _with_value(torch.addcdiv),
    "addcmul": _with_value(torch.addcmul),
    "maximum": _limited(aten.clamp_min, torch.maximum),
    "minimum": _limited(aten.clamp_max, torch.minimum),
    "norm": _norm,
    "zero": torch.zeros_like,
}


@decomposes(torch.ops.prims.fma.default)
def multiplied_and_added(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """What torch makes of products with a factor in optimizers, for the GPU's rounding; eager on CPUs rounds twice."""
    return x * y + z


for _name, _operator in _OPERATORS.items():
    _packet = getattr(aten, f"_foreach_{_name}")
    for _overload in _packet.overloads():
        # A tensor of one number for each of the list is taken apart by nobody here.
        _has_numbers_as_tensor = _name.startswith("addc") and _overload == "Tensor"
        if not _overload.endswith("out") and not _has_numbers_as_tensor:
            decomposes(getattr(_packet, _overload))(each_of(_operator))
