"""The shortest way into a kernel that is a few launches with one result: a Python function written for its arguments.

Takes compiled functions, which check shapes, dtypes, strides, devices and that no argument shares memory with `out`
themselves, and a general way to call. Gives a function that allocates and launches. What the launch refuses, and what
it cannot see (gradients, negations that are yet to be done), goes the general way, which copies or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mlirtri.lowering.runtime.large_memory import LARGE, empty_array

if TYPE_CHECKING:
    from mlirtri.lowering.runtime.tvm_executable import Direct

General = Callable[[Sequence[Any], Any], Any]
"""The arguments, and `out` or None."""
_CONSTANTS = (int, bool, str, type(None))
"""Types whose equal values are the same constant. Not floats, of whose zeros there are two."""


@dataclass(frozen=True)
class Type:
    """The compiled type of an argument or result."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    seen: torch.dtype | None = None
    """As what compiled functions take the same memory, where that differs: unsigned integers as signed ones."""

    @property
    def bytes(self) -> int:
        return torch.Size(self.shape).numel() * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(torch.Size(self.shape[at + 1 :]).numel() for at in range(len(self.shape)))

    @property
    def array_dtype(self) -> np.dtype | None:
        """NumPy's, where it has that dtype."""
        return _array_dtype(self.dtype)


def direct_call(
    direct: Direct, arguments: Sequence[Type], bound: Sequence[Any], result: Type, general: General
) -> General:
    """`general`, made faster for plain tensors, arrays and floats; behind the arguments come the `bound` tensors."""
    lines, facts = _direct(direct, arguments, bound, result, "False")
    head = [
        "def call(arguments, out):",
        "    try:",
        f"        {''.join(f'{name}, ' for name in _names(arguments))}= arguments",
    ]
    return _made([*head, *lines, "    return general(arguments, out)"], {**facts, "general": general})


def direct_method(
    direct: Direct, arguments: Sequence[Type], bound: Sequence[Any], result: Type, general: Callable[..., Any]
) -> Callable[..., Any]:
    """The method `general` of self, arguments in order, `out` and other keywords, made faster in the same way."""
    lines, facts = _direct(direct, arguments, bound, result, "rest or keywords")
    names = _names(arguments)
    head = [
        f"def call(self, {', '.join(f'{name}=missing' for name in names)}, /, *rest, out=None, **keywords):",
        "    try:",
    ]
    tail = [
        f"    given = [each for each in ({', '.join(names)},) if each is not missing]",
        "    return general(self, *given, *rest, out=out, **keywords)",
    ]
    return _made([*head, *lines, *tail], {**facts, "general": general, "missing": object()})


def _direct(
    direct: Direct, arguments: Sequence[Type], bound: Sequence[Any], result: Type, unfit: str
) -> tuple[list[str], dict[str, Any]]:
    """The lines that try to launch, unless a condition holds, and what they name."""
    tensors = {f"a{at}": each for at, each in enumerate(arguments) if each.shape}
    numbers = {f"a{at}": each for at, each in enumerate(arguments) if not each.shape}
    unfit = " or ".join([unfit, *(f"type({name}) is not float" for name in numbers)])
    launches = _Launches(direct, arguments, bound, result)
    lines = [f"        if {unfit}:", "            pass"]
    lines += _on_tensors(tensors, launches, "are_plain")
    lines += _on_arrays(tensors, launches) if result.shape and result.array_dtype is not None else []
    lines += _on_tensors(tensors, launches, "look_plain")
    # Whatever it is, the general way says it in the user's words.
    lines += ["    except Exception:", "        pass"]
    facts = {
        "empty": shortest_empty, "array": np.array,
        "empty_array": empty_array if result.bytes >= LARGE else np.empty,
        "ndarray": np.ndarray, "shape": result.shape, "strides": result.strides, "dtype": result.dtype,
        "array_dtype": result.array_dtype, "are_plain": plain_checker([*tensors.values()]) or _look_plain,
        "are_plain_with_out": plain_checker([*tensors.values(), result]) or _look_plain,
        "look_plain": _look_plain, "look_plain_with_out": _look_plain,
        **{f"{name}_dtype": each.array_dtype for name, each in numbers.items()},
        **launches.facts,
    }  # fmt: skip
    return lines, facts


class _Launches:
    """The lines that allocate what is between launches, and launch."""

    def __init__(self, direct: Direct, arguments: Sequence[Type], bound: Sequence[Any], result: Type):
        self._direct, self._result = direct, result
        self._arguments = dict(zip(_names(arguments), arguments, strict=True))
        self._names = {len(arguments) + at: f"bound{at}" for at in range(len(bound))}
        self._names |= {number: f"constant{number}" for number in direct.constants}
        self._names |= {number: f"between{number}" for number in direct.scratch}
        self._allocations = [
            f"{n} = empty({n}_shape, {n}_strides, {n}_dtype)" for n in map(self._names.get, direct.scratch)
        ]
        self.facts: dict[str, Any] = {f"bound{at}": tensor for at, tensor in enumerate(bound)}
        self.facts |= {f"constant{number}": tensor for number, tensor in direct.constants.items()}
        self.facts |= {f"launch{at}": step.function for at, step in enumerate(direct.steps)}
        for number, (shape, dtype) in direct.scratch.items():
            kind = Type(shape, dtype)
            self.facts |= {f"between{number}_{fact}": getattr(kind, fact) for fact in ("shape", "strides", "dtype")}
        for name, kind in {**self._arguments, "result": result}.items():
            if kind.seen is not None:
                self.facts |= {f"{name}_seen": kind.seen, f"{name}_seen_array": _array_dtype(kind.seen)}
                self.facts |= {f"{name}_own": kind.dtype, f"{name}_own_array": kind.array_dtype}

    def into(self, result: str, suffix: str = "") -> list[str]:
        """The lines of a call that writes into the tensor, or with `suffix` "_array" the array, of this name."""
        names = dict(enumerate(self._taken(name, name, kind, suffix) for name, kind in self._arguments.items()))
        names |= self._names | {self._direct.result: self._taken(result, "result", self._result, suffix)}
        steps = enumerate(self._direct.steps)
        return [
            *self._allocations,
            *(f"launch{at}({', '.join(names[number] for number in step.operands)})" for at, step in steps),
            f"return {result}",
        ]

    def owned(self, out: str = "", suffix: str = "") -> str:
        """A condition, behind others: what a launch takes for another dtype, and would not look at, has its own."""
        seen = [(name, name) for name, kind in self._arguments.items() if kind.seen is not None]
        seen += [(out, "result")] if out and self._result.seen is not None else []
        return "".join(f" and {name}.dtype == {fact}_own{suffix}" for name, fact in seen)

    @staticmethod
    def _taken(name: str, fact: str, kind: Type, suffix: str) -> str:
        """An argument or result as a launch takes it."""
        if not kind.shape and fact != "result":
            return f"array({name}, {name}_dtype)"
        return name if kind.seen is None else f"{name}.view({fact}_seen{suffix})"


def is_possible(arguments: Sequence[Type]) -> bool:
    """Whether there is a tensor among the arguments, and the others are floats."""
    return any(each.shape for each in arguments) and all(
        each.shape or each.dtype in (torch.float64, torch.float32) for each in arguments
    )


def guarded(
    arguments: Sequence[Any], at_run_time: Sequence[int], call: General, unknown: Any
) -> Callable[[tuple[Any, ...]], Any] | None:
    """`call` for arguments that the same kernel is for as for these, by their types alone; `unknown` for others.

    `call` gets those `at_run_time` only. None where more than types decides.
    """
    facts: dict[str, Any] = {"call_it": call, "unknown": unknown}
    checks = [f"len(arguments) == {len(arguments)}"]
    for at, argument in enumerate(arguments):
        kind, name = type(argument), f"a{at}"
        facts |= {f"{name}_type": kind, f"{name}_value": argument}
        checks.append(f"type({name} := arguments[{at}]) is {name}_type")
        if kind is torch.Tensor or kind is np.ndarray:
            facts |= {f"{name}_value": None, f"{name}_shape": argument.shape, f"{name}_dtype": argument.dtype}
            checks += [f"{name}.dtype is {name}_dtype", f"{name}.shape == {name}_shape"]
        elif at not in at_run_time and kind in _CONSTANTS:
            checks.append(f"{name} == {name}_value")
        elif at not in at_run_time or kind is not float:
            return None
    passed = "arguments" if len(at_run_time) == len(arguments) else f"({''.join(f'a{at}, ' for at in at_run_time)})"
    lines = ["def call(arguments):", f"    if {' and '.join(checks)}:", f"        return call_it({passed}, None)"]
    return _made([*lines, "    return unknown"], facts)


def _array_dtype(dtype: torch.dtype) -> np.dtype | None:
    try:
        return torch.empty(0, dtype=dtype).numpy().dtype
    except TypeError:
        return None


def _names(arguments: Sequence[Type]) -> list[str]:
    return [f"a{at}" for at in range(len(arguments))]


def _on_tensors(tensors: dict[str, Type], launches: _Launches, check: str) -> list[str]:
    given = ", ".join(tensors)
    # The launch would say so, and its error take longer than the general way.
    others = "".join(f" and out is not {name}" for name in tensors)
    return [
        f"        elif out is None and {check}({given}){launches.owned()}:",
        "            result = empty(shape, strides, dtype)",
        *(f"            {line}" for line in launches.into("result")),
        f"        elif out is not None{others} and {check}_with_out({given}, out){launches.owned('out')}:",
        *(f"            {line}" for line in launches.into("out")),
    ]


def _on_arrays(tensors: dict[str, Type], launches: _Launches) -> list[str]:
    checks = " and ".join(["out is None", *(f"type({name}) is ndarray" for name in tensors)])
    return [
        f"        elif {checks}{launches.owned(suffix='_array')}:",
        "            result = empty_array(shape, array_dtype)",
        *(f"            {line}" for line in launches.into("result", "_array")),
    ]


def plain_checker(types: Sequence[Type]) -> Callable[..., bool] | None:
    """Whether tensors are of these types and nothing but their memory: no gradient, no negation to be done.

    The checks that torch's own compiler makes before each call take half of the time of ours. They say no to more:
    to one tensor given twice, and to all tensors under `torch.inference_mode`.
    """
    try:
        samples = [torch.empty_strided(each.shape, each.strides, dtype=each.dtype) for each in types]
        sizes, strides = [[list(getattr(each, name)) for each in types] for name in ("shape", "strides")]
        guards = torch._C._dynamo.guards.TensorGuards(*samples, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        if guards.check(*samples):
            return guards.check
    except (AttributeError, RuntimeError, TypeError, MemoryError):
        pass
    return None


def _look_plain(*tensors: Any) -> bool:
    """The launch looks at the rest."""
    return not any(type(each) is not torch.Tensor or each.requires_grad or each.is_neg() for each in tensors)


def _made(lines: list[str], facts: dict[str, Any]) -> Any:
    # Under this file's name, so that its frames count as ours where a warning looks for the user's line.
    exec(compile("\n".join(lines), __file__, "exec"), facts)
    return facts["call"]


def _plain_empty(shape: tuple[int, ...], _strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


def _shortest_empty() -> Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], torch.Tensor]:
    """What code of torch's own compiler allocates with, a third of the time of `torch.empty`; else that."""
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    return getattr(guards, "_empty_strided_cpu", _plain_empty)


shortest_empty = _shortest_empty()
"""Of a shape, strides and a dtype."""
