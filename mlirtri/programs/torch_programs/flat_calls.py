"""The fast path of a module that takes tensors in order: it neither flattens nor compares argument structures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mlirtri.calls.runtime import Runner
from mlirtri.calls.short_calls import Call
from mlirtri.programs.torch_programs.calling_convention import Calling


def flat_call(calling: Calling, runner: Runner, general: Call) -> Call:
    """Return `general`, made faster for plain tensors or arrays."""
    if calling.input_updates or calling.buffer_updates or calling.draws or not _takes_leaves(calling):
        return general
    if any(argument.is_complex32 for argument in calling.inputs):
        return general
    if any(argument.is_constant for argument in calling.inputs):
        return _with_constants(calling, runner, general)
    numbers = [leaf.what for leaf in calling.returned if leaf.kind == "result"]
    if len(numbers) != len(calling.returned):
        return general
    rebuild = _rebuilding(calling, numbers)
    if rebuild is None:
        return general
    return _rebuilt(calling, runner, rebuild, general)


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


class _Value:
    """What the general call has returned: the module's value, not the kernel's."""

    def __init__(self, value: Any):
        self.value = value


def _rebuilt(calling: Calling, runner: Runner, rebuild: Callable[[Any], Any], general: Call) -> Call:
    if (sizes := calling.sizes).expressions:
        # The constraints on sizes are verified for known shapes.
        runner.callee.check_sizes = lambda arguments: sizes.check(runner.name, calling.inputs, arguments)

    def refused(*arguments: Any, out: Any = None, **keywords: Any) -> _Value:
        if out is not None:
            keywords["out"] = out
        return _Value(general(*arguments, **keywords))

    def install(call: Call) -> None:
        nonlocal fast
        fast = call

    fast = runner.short_call(refused, install)

    def call(*arguments: Any, **keywords: Any) -> Any:
        result = fast(*arguments, **keywords)
        return result.value if type(result) is _Value else rebuild(result)

    return call
