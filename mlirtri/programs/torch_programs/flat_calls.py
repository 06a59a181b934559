"""The fast path of a module that takes tensors in order: it neither flattens nor compares argument structures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from mlirtri.calls.direct_calls import Call
from mlirtri.calls.runtime import Runner
from mlirtri.programs.torch_programs.calling_convention import Calling

_LEAVES = frozenset({torch.Tensor, torch.nn.Parameter, np.ndarray})
"""Types that are no structures, and that kernels look at themselves."""


def flat_call(calling: Calling, runner: Runner, general: Call) -> Call:
    """Return `general`, made faster for plain tensors or arrays."""
    if calling.input_updates or calling.buffer_updates or not _takes_leaves(calling):
        return general
    if any(argument.is_constant for argument in calling.inputs):
        return _with_constants(calling, runner, general)
    numbers = [leaf.what for leaf in calling.returned if leaf.kind == "result"]
    if len(numbers) != len(calling.returned):
        return general
    rebuild = _rebuilding(calling, numbers)
    if rebuild is None:
        return general
    if runner.is_single and (fast := _single(calling.results, runner, general)) is not None:
        return fast
    return _guarded(calling, runner, rebuild, general)


def _takes_leaves(calling: Calling) -> bool:
    in_order, by_name = calling.arguments.children()
    return all(child.is_leaf() for child in in_order.children()) and not by_name.num_children


def _with_constants(calling: Calling, runner: Runner, general: Call) -> Call:
    count, constants = (
        len(calling.inputs),
        {position: leaf for position, leaf in enumerate(calling.inputs) if leaf.is_constant},
    )
    if calling.sizes.expressions or not all(_is_compared(constant.value) for constant in constants.values()):
        return general
    values = [(position, type(constant.value), constant.value) for position, constant in constants.items()]
    tensors = [position for position in range(count) if position not in constants]

    def with_values(*arguments: Any) -> Any:
        remaining = iter(arguments)
        return general(
            *[constants[position].value if position in constants else next(remaining) for position in range(count)]
        )

    plain = replace(calling, inputs=tuple(calling.inputs[position] for position in tensors))
    fast = flat_call(plain, runner, with_values)
    if fast is with_values:
        return general

    def call(*arguments: Any, **keywords: Any) -> Any:
        if keywords or len(arguments) != count:
            return general(*arguments, **keywords)
        for position, kind, value in values:
            if type(arguments[position]) is not kind or arguments[position] != value:
                return general(*arguments)
        return fast(*[arguments[position] for position in tensors])

    return call


def _is_compared(value: Any) -> bool:
    """Return whether the value is compared by identity, unlike zeros and NaN."""
    return value is None or type(value) in (bool, int, str) or (type(value) is float and bool(value) and value == value)


def _rebuilding(calling: Calling, numbers: Sequence[int]) -> Callable[[Any], Any] | None:
    spec = calling.results
    if spec.is_leaf():
        [number] = numbers
        return lambda result: result[number] if isinstance(result, tuple) else result
    if spec.type not in (tuple, list) or not all(child.is_leaf() for child in spec.children()):
        return None
    make, numbers = spec.type, tuple(numbers)

    def rebuild(result: Any) -> Any:
        leaves = result if isinstance(result, tuple) else (result,)
        return make([leaves[number] for number in numbers])

    return rebuild


def _single(results: pytree.TreeSpec, runner: Runner, general: Call) -> Call | None:
    if not results.is_leaf() and results.num_leaves != 1:
        return None
    make = None if results.is_leaf() else results.type

    def only(*arguments: Any, out: Any = None) -> Any:
        result = general(*arguments)
        return result if make is None else result[0]

    fast = runner.short_call(only)
    if fast is only:
        return None

    def call(*arguments: Any, **keywords: Any) -> Any:
        if keywords:
            return general(*arguments, **keywords)
        result = fast(*arguments)
        return result if make is None else make((result,))

    return call


def _guarded(calling: Calling, runner: Runner, rebuild: Callable[[Any], Any], general: Call) -> Call:
    count, inputs, sizes = len(calling.inputs), calling.inputs, calling.sizes if calling.sizes.expressions else None

    def checked(*arguments: Any, out: Any = None) -> Any:
        if sizes is not None:
            sizes.check(runner.name, inputs, arguments)
        return runner(arguments)

    # The constraints on sizes are verified for known shapes.
    fast = runner.short_call(checked)

    def call(*arguments: Any, **keywords: Any) -> Any:
        if keywords or len(arguments) != count:
            return general(*arguments, **keywords)
        for argument in arguments:
            if type(argument) not in _LEAVES:
                return general(*arguments)
        return rebuild(fast(*arguments))

    return call
