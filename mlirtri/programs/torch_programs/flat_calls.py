"""The short way into a module that takes tensors in order: no structures of arguments are taken apart and compared.

Takes a `Calling`, the `Runner` of its kernel, and the general way to call. Gives a function of the arguments in order.
Arguments that are no plain leaves, or are too few or too many, go the general way, which says what is wrong; so does
all of a module that writes its arguments or buffers, or takes more than leaves in order.
"""

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
    """`general`, made faster for plain tensors or arrays."""
    if calling.input_updates or calling.buffer_updates or not _takes_leaves(calling):
        return general
    if any(given.is_constant for given in calling.given):
        return _with_constants(calling, runner, general)
    numbers = [each.what for each in calling.returned if each.kind == "result"]
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
    """The same for a module that was exported for numbers among its arguments, which each call has to give again."""
    count, constants = len(calling.given), {at: each for at, each in enumerate(calling.given) if each.is_constant}
    if calling.sizes.expressions or not all(_is_compared(each.value) for each in constants.values()):
        return general
    values = [(at, type(each.value), each.value) for at, each in constants.items()]
    tensors = [at for at in range(count) if at not in constants]

    def with_values(*arguments: Any) -> Any:
        given = iter(arguments)
        return general(*[constants[at].value if at in constants else next(given) for at in range(count)])

    plain = replace(calling, given=tuple(calling.given[at] for at in tensors))
    fast = flat_call(plain, runner, with_values)
    if fast is with_values:
        return general

    def call(*arguments: Any, **keywords: Any) -> Any:
        if keywords or len(arguments) != count:
            return general(*arguments, **keywords)
        for at, kind, value in values:
            if type(arguments[at]) is not kind or arguments[at] != value:
                return general(*arguments)
        return fast(*[arguments[at] for at in tensors])

    return call


def _is_compared(value: Any) -> bool:
    """Whether equal values are the same value, as two zeros are not."""
    return value is None or type(value) in (bool, int, str) or (type(value) is float and bool(value) and value == value)


def _rebuilding(calling: Calling, numbers: Sequence[int]) -> Callable[[Any], Any] | None:
    """What makes the module's results of the kernel's; None for other structures than a tensor, a tuple or a list."""
    spec = calling.results
    if spec.is_leaf():
        [number] = numbers
        return lambda found: found[number] if isinstance(found, tuple) else found
    if spec.type not in (tuple, list) or not all(child.is_leaf() for child in spec.children()):
        return None
    make, numbers = spec.type, tuple(numbers)

    def rebuild(found: Any) -> Any:
        leaves = found if isinstance(found, tuple) else (found,)
        return make([leaves[number] for number in numbers])

    return rebuild


def _single(results: pytree.TreeSpec, runner: Runner, general: Call) -> Call | None:
    """The compiled function's own call, in the module's structure; None where there is none, or a result twice."""
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
    count, given, sizes = len(calling.given), calling.given, calling.sizes if calling.sizes.expressions else None

    def checked(*arguments: Any, out: Any = None) -> Any:
        if sizes is not None:
            sizes.check(runner.name, given, arguments)
        return runner(arguments)

    # What sizes have to be was seen for shapes that are known.
    fast = runner.short_call(checked)

    def call(*arguments: Any, **keywords: Any) -> Any:
        if keywords or len(arguments) != count:
            return general(*arguments, **keywords)
        for each in arguments:
            if type(each) not in _LEAVES:
                return general(*arguments)
        return rebuild(fast(*arguments))

    return call
