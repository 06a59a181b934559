"""Fast paths of kernels with dynamic sizes, several results or many launches: a cache by the arguments' shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from mlirtri.calls.direct_calls import Call
from mlirtri.calls.plain import Type, have_types, plain_kind, shortest_empty, type_guards
from mlirtri.lowering.core.stage import Executable
from mlirtri.lowering.runtime.large_memory import LARGE, empty_array

MAX_SHAPES = 4096
"""Combinations of argument shapes that are remembered."""
_UNFIT = object()
_Repeat = Callable[[tuple[Any, ...]], Any]
"""The call for arguments of known shapes; returns `_UNFIT` for arguments that have to go the general way."""


def sized_call(launch: Callable[..., Any], count: int, bound: Sequence[Any], general: Call) -> Call:
    """Return `general`, made faster for `count` plain tensors or arrays of shapes called before.

    `launch` is one compiled function, which takes and checks the arguments, the `bound` tensors and the only
    result.
    """
    bound = tuple(bound)

    def repeat_of(arguments: tuple[Any, ...], result: Any) -> _Repeat | None:
        if type(result) is not type(arguments[0]) or any(0 in value.shape for value in (*arguments, result)):
            return None
        make, *allocation = _allocation(result)

        def repeat(arguments: tuple[Any, ...]) -> Any:
            result = make(*allocation)
            launch(*arguments, *bound, result)
            return result

        return repeat

    return _remembering(count, repeat_of, general)


def static_call(
    executable: Executable,
    count: int,
    bound: Sequence[Any],
    shaped: Callable[[Sequence[Any]], list[tuple[Any, torch.dtype]]],
    rebuild: Callable[[list[Any]], Any],
    general: Call,
) -> Call:
    """Return `general`, made faster for `count` plain CPU tensors of types called before.

    `shaped` returns shape and dtype of each result for such arguments, `rebuild` Python's value of the results. The
    executable need not check its arguments.
    """
    launch, bound = executable.launch, tuple(bound)

    def repeat_of(arguments: tuple[Any, ...], _result: Any) -> _Repeat | None:
        if type(arguments[0]) is not torch.Tensor or not all(tensor.is_cpu for tensor in arguments):
            return None
        types = [Type(tuple(tensor.shape), tensor.dtype) for tensor in arguments]
        results = [Type(tuple(shape), dtype) for shape, dtype in shaped(arguments)]
        guards, allocations = type_guards(types), [(type_.shape, type_.strides, type_.dtype) for type_ in results]

        def repeat(arguments: tuple[Any, ...]) -> Any:
            if not (guards(*arguments) or have_types(arguments, types)):
                return _UNFIT
            results = [shortest_empty(*allocation) for allocation in allocations]
            launch((*arguments, *bound), results)
            return rebuild(results)

        return repeat

    return _remembering(count, repeat_of, general)


def _remembering(count: int, repeat_of: Callable[[tuple[Any, ...], Any], _Repeat | None], general: Call) -> Call:
    """Return `general` with a cache by shapes; `repeat_of` returns an entry for arguments and their result, or None."""
    entries: dict[Any, _Repeat] = {}

    def call(*arguments: Any, out: Any = None, **keywords: Any) -> Any:
        kind = plain_kind(*arguments) if out is None and len(arguments) == count and not keywords else None
        if kind is None:
            return general(*arguments, out=out, **keywords)
        key = (kind, *[argument.shape for argument in arguments])
        repeat = entries.get(key)
        if repeat is None:
            result = general(*arguments)
            if (repeat := repeat_of(arguments, result)) is not None:
                if len(entries) >= MAX_SHAPES:
                    entries.clear()
                entries[key] = repeat
            return result
        try:
            result = repeat(arguments)
        except Exception:
            # The general path raises it again, in the user's terms.
            result = _UNFIT
        return general(*arguments) if result is _UNFIT else result

    return call


def _allocation(result: Any) -> tuple[Any, ...]:
    if isinstance(result, np.ndarray):
        return (empty_array if result.nbytes >= LARGE else np.empty), result.shape, result.dtype
    return shortest_empty, tuple(result.shape), tuple(result.stride()), result.dtype
