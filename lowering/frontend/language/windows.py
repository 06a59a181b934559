"""What language functions over sliding windows mean: convolutions and pools.

Each is ``name(b, …)`` with the Python signature that the spellings call; `b` is the `Language`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.dialect.builder import Tensor
from mlirtri.dialect.promotion import rules as promotion
from mlirtri.lowering.frontend.language.builder import Language, integer, integers, language


@language
def convolution(
    b: Language, x: Any, w: Any, strides: Sequence[int], dilations: Sequence[int], low: Sequence[int],
    high: Sequence[int], spread: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    """Sums of products of `w` with windows of `x`, which has ``spread - 1`` zeros between and others around it."""
    plan = promotion.result_dtypes(b.semantics, "matmul", [b.operand(x), b.operand(w)])
    x, w = (b.tensor(each, dtype) for each, dtype in zip((x, w), plan.compute, strict=True))
    numbers = {"strides": strides, "dilations": dilations, "low": low, "high": high, "spread": spread}
    numbers = {name: integers(tuple(value), name) for name, value in numbers.items()}
    return b.tri.cast(b.tri.convolution(x, w, **numbers, groups=integer(groups, "groups")), plan.result)


@language
def pool(
    b: Language, x: Any, kind: str, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Tensor:
    """The largest elements or the sums of windows along the last axes, in the tensor's own dtype."""
    numbers = {"window": window, "strides": strides, "dilations": dilations}
    return b.tri.pool(b.tensor(x), kind=kind, **{name: integers(tuple(value), name) for name, value in numbers.items()})
