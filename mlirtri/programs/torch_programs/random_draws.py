"""Random tensors of a module: drawn from torch's own generator before each call, as arguments of the kernel.

What eager draws from `torch.default_generator` for a shape, a dtype and Python numbers does not depend on elements. A
kernel that is given it computes what eager computes from the same state of the generator, and leaves the same state.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

aten = torch.ops.aten

_OPERATORS = (
    *(aten.rand.default, aten.randn.default, aten.randint.default, aten.randint.low, aten.randperm.default),
    *(aten.rand_like.default, aten.randn_like.default, aten.randint_like.default, aten.randint_like.low_dtype),
    *(aten.normal.float_float, aten.normal_functional.default, aten.uniform.default, aten.exponential.default),
    *(aten.geometric.default, aten.cauchy.default, aten.log_normal.default, aten.bernoulli.p, aten.random.default),
    *(aten.random.to, getattr(aten.random, "from")),
)
"""Operators of which eager reads no elements, only the shape and the dtype of a first tensor."""
_WITH_GENERATOR = (
    *(aten.rand.generator, aten.randn.generator, aten.randint.generator, aten.randint.low_generator),
    aten.randperm.generator,
)
"""What `torch.randn(…, generator=None)` is traced to; the argument has to be given."""
DRAWING: dict[str, Callable[..., torch.Tensor]] = {
    **{str(each): each for each in _OPERATORS},
    **{str(each): partial(each, generator=None) for each in _WITH_GENERATOR},
}
ARITHMETIC: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
}


@dataclass(frozen=True)
class Draw:
    """A random tensor that a call draws."""

    operator: str
    """The name of one of `_OPERATORS`."""
    arguments: list[Any]
    """Its arguments as JSON: numbers, lists, and dictionaries for dtypes, tensors, and sizes of arguments."""
    options: dict[str, Any]

    def __post_init__(self) -> None:
        if self.operator not in DRAWING:
            raise ValueError(f"{self.operator} draws no random tensor")

    def tensor(self, leaves: Sequence[object]) -> torch.Tensor:
        """Return a new random tensor for a call with these arguments; advances torch's generator."""
        options = {name: _value(term, leaves) for name, term in self.options.items()}
        with torch.no_grad():
            return DRAWING[self.operator](*_value(self.arguments, leaves), **options).contiguous()


def _value(term: Any, leaves: Sequence[Any]) -> Any:
    if isinstance(term, list):
        return [_value(each, leaves) for each in term]
    if not isinstance(term, dict):
        return term
    if "like" in term:
        shape, dtype = _value(term["like"], leaves), getattr(torch, term["dtype"])
        return (
            torch.empty_strided(shape, term["strides"], dtype=dtype)
            if "strides" in term
            else torch.empty(shape, dtype=dtype)
        )
    if "dtype" in term:
        return getattr(torch, term["dtype"])
    if "op" in term:
        return ARITHMETIC[term["op"]](*_value(term["operands"], leaves))
    leaf = leaves[term["leaf"]]
    return leaf.shape[term["axis"]] if "axis" in term else leaf
