"""The short way into kernels of run-time sizes, of several results or of many launches: for shapes that were seen.

Takes what launches, and a general way to call. Gives a function that allocates and launches for tensors, or arrays
where a single compiled function looks at all of them itself, of shapes that went the general way before. The rest goes
the general way: other arguments, what a launch refuses or cannot see (gradients, negations that are yet to be done).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from mlirtri.calls.arrays import is_settled
from mlirtri.calls.direct_calls import General, Type, plain_checker, shortest_empty
from mlirtri.lowering.core.stage import Executable
from mlirtri.lowering.runtime.large_memory import LARGE, empty_array

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


def seen_call(
    executable: Executable,
    bound: Sequence[Any],
    shaped: Callable[[Sequence[Any]], list[tuple[Any, torch.dtype]]],
    rebuild: Callable[[list[Any]], Any],
    general: General,
) -> General:
    """`general`, made faster for tensors on the CPU of shapes that it has taken, and that are exactly like those.

    `shaped` gives shape and dtype of each result for such arguments, `rebuild` Python's value of the results.
    """
    known: dict[Any, tuple[Any, ...]] = {}
    launch, bound = executable.launch, tuple(bound)

    def call(given: Sequence[Any], out: Any) -> Any:
        if out is not None or not all([type(each) is torch.Tensor for each in given]):
            return general(given, out)
        key = tuple([each.shape for each in given])
        made = known.get(key)
        if made is None:
            result = general(given, out)
            if all(each.is_cpu for each in given):
                if len(known) >= MOST_SHAPES:
                    known.clear()
                known[key] = _facts(given, shaped)
            return result
        check, types, like = made
        try:
            if not (check(*given) or are_settled(given, types)):
                return general(given, out)
            results = [shortest_empty(*each) for each in like]
            launch((*given, *bound), results)
        except Exception:
            # Whatever it is, the general way says it in the user's words.
            return general(given, out)
        return rebuild(results)

    return call


def _facts(given: Sequence[Any], shaped: Callable[[Sequence[Any]], list[tuple[Any, torch.dtype]]]) -> tuple[Any, ...]:
    """What looks at such tensors, their types, and what their results are made of."""
    types = [Type(tuple(each.shape), each.dtype) for each in given]
    results = [Type(tuple(shape), dtype) for shape, dtype in shaped(given)]
    like = [(each.shape, each.strides, each.dtype) for each in results]
    return plain_checker(types) or _never, [(each.shape, each.dtype) for each in types], like


def _never(*_: Any) -> bool:
    return False


def are_settled(arguments: Sequence[Any], types: Sequence[tuple[Any, Any]]) -> bool:
    """Whether all are contiguous CPU tensors of these shapes and dtypes, which kernels take as they are."""
    for tensor, (shape, dtype) in zip(arguments, types, strict=True):
        if type(tensor) is not torch.Tensor or tensor.dtype is not dtype or tensor.shape != shape or not tensor.is_cpu:
            return False
        if tensor.requires_grad or tensor.layout is not torch.strided or not is_settled(tensor):
            return False
    return True


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
