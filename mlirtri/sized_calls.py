"""The short way into a kernel of run-time sizes that is one launch with one result: shapes that were seen are known.

Takes the compiled function, which checks sizes, dtypes, strides and devices itself, and a general way to call. Gives a
function that allocates and launches for tensors or arrays of shapes that went the general way before. Other arguments,
what the launch refuses, and what it cannot see (gradients, negations that are yet to be done) go the general way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from mlirtri.direct_calls import General, shortest_empty
from mlirtri.lowering.large_memory import LARGE, empty_array

MOST_SHAPES = 4096
"""Combinations of argument shapes that are remembered."""


def sized_call(launch: Callable[..., Any], arguments: int, bound: Sequence[Any], general: General) -> General:
    """`general`, made faster for so many tensors or arrays; `launch` takes them, what is `bound`, and the result."""
    known: dict[Any, tuple[Any, ...]] = {}
    bound = tuple(bound)

    def call(given: Sequence[Any], out: Any) -> Any:
        if out is not None or len(given) != arguments:
            return general(given, out)
        kind = _kind_of(given)
        if kind is None:
            return general(given, out)
        key = (kind, *[each.shape for each in given])
        made = known.get(key)
        if made is None:
            result = general(given, out)
            if type(result) is kind and all(map(_has_elements, (*given, result))):
                if len(known) >= MOST_SHAPES:
                    known.clear()
                known[key] = _maker(result)
            return result
        make, *like = made
        try:
            result = make(*like)
            launch(*given, *bound, result)
        except Exception:
            # Whatever it is, the general way says it in the user's words.
            return general(given, out)
        return result

    return call


def _kind_of(given: Sequence[Any]) -> type | None:
    """torch's tensors or NumPy's arrays, where all are of one kind and nothing but their memory."""
    kind = type(given[0])
    if kind is torch.Tensor:
        for each in given:
            if type(each) is not kind or each.requires_grad or each.is_neg():
                return None
        return kind
    if kind is np.ndarray and all(type(each) is kind for each in given):
        return kind
    return None


def _has_elements(value: Any) -> bool:
    return 0 not in value.shape


def _maker(result: Any) -> tuple[Any, ...]:
    """A function that makes such a result, and what it takes."""
    if isinstance(result, np.ndarray):
        return (empty_array if result.nbytes >= LARGE else np.empty), result.shape, result.dtype
    return shortest_empty, tuple(result.shape), tuple(result.stride()), result.dtype
