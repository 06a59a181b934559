"""Generate the fastest call of a kernel that is a few launches with one result: a Python function for its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mlirtri.calls.plain import Type, array_dtype, plain_kind, shortest_empty, type_guards
from mlirtri.lowering.runtime.large_memory import LARGE, empty_array

if TYPE_CHECKING:
    from mlirtri.lowering.runtime.tvm_executable import Direct  # TVM's executables import TVM

Call = Callable[..., Any]
"""A kernel's call: ``call(*arguments, out=None, **named)``."""
_CONSTANTS = (int, bool, str, type(None))
"""Types whose equal values are the same constant. Not floats, of whose zeros there are two."""


def is_possible(arguments: Sequence[Type]) -> bool:
    """Return whether there is a tensor among the arguments, and all others are floats."""
    return any(type_.shape for type_ in arguments) and all(
        type_.shape or type_.dtype in (torch.float64, torch.float32) for type_ in arguments
    )


def direct_call(direct: Direct, arguments: Sequence[Type], bound: Sequence[Any], result: Type, general: Call) -> Call:
    """Return `general`, made faster for plain tensors, plain arrays and floats.

    The launches take the arguments, then the `bound` tensors. `arguments` and `result` are the compiled types. For two
    tensors and one launch the function is::

        def call(a0=missing, a1=missing, /, *rest, out=None, **keywords):
            try:
                if rest or keywords:
                    pass
                elif out is None and type(a0) is ndarray and type(a1) is ndarray:
                    result = empty_array(shape, array_dtype)
                    launch0(a0, a1, result)
                    return result
                elif out is None and (guards(a0, a1) or plain_kind(a0, a1) is Tensor):
                    result = empty(shape, strides, dtype)
                    launch0(a0, a1, result)
                    return result
                elif out is not None and …:
                    launch0(a0, a1, out)
                    return out
            except Exception:
                pass
            given = [argument for argument in (a0, a1,) if argument is not missing]
            return general(*given, *rest, out=out, **keywords)
    """
    types = {f"a{position}": type_ for position, type_ in enumerate(arguments)}
    tensors = {name: type_ for name, type_ in types.items() if type_.shape}
    numbers = {name: type_ for name, type_ in types.items() if not type_.shape}
    launches = _Launches(direct, types, bound, result)
    lines = _source(types, launches, result)
    names = {
        "general": general, "missing": object(), "Tensor": torch.Tensor, "ndarray": np.ndarray, "array": np.array,
        "plain_kind": plain_kind, "guards": type_guards([*tensors.values()]),
        "guards_with_out": type_guards([*tensors.values(), result]),
        "empty": shortest_empty, "empty_array": empty_array if result.bytes >= LARGE else np.empty,
        "shape": result.shape, "strides": result.strides, "dtype": result.dtype, "array_dtype": result.array_dtype,
        **{f"{name}_dtype": type_.array_dtype for name, type_ in numbers.items()},
        **launches.names,
    }  # fmt: skip
    return _defined(lines, names)


def _source(types: dict[str, Type], launches: _Launches, result: Type) -> list[str]:
    """Return the lines of the function that `direct_call` shows."""
    tensors = [name for name, type_ in types.items() if type_.shape]
    numbers = [name for name, type_ in types.items() if not type_.shape]
    plain = ", ".join(tensors)
    # A launch refuses `out` that is an argument, but slower than the general path.
    is_other = " and ".join(f"out is not {name}" for name in ("None", *tensors))
    are_arrays = " and ".join(f"type({name}) is ndarray" for name in tensors)
    arrays = [
        f"        elif out is None and {are_arrays}{launches.owned('_array')}:",
        "            result = empty_array(shape, array_dtype)",
        *launches.into("result", "_array"),
    ]
    return [
        f"def call({', '.join(f'{name}=missing' for name in types)}, /, *rest, out=None, **keywords):",
        "    try:",
        f"        if {' or '.join(['rest', 'keywords', *(f'type({name}) is not float' for name in numbers)])}:",
        "            pass",
        *(arrays if result.shape and result.array_dtype is not None else []),
        f"        elif out is None and (guards({plain}) or plain_kind({plain}) is Tensor){launches.owned()}:",
        "            result = empty(shape, strides, dtype)",
        *launches.into("result"),
        f"        elif {is_other} and (guards_with_out({plain}, out) or plain_kind({plain}, out) is Tensor)"
        f"{launches.owned(out='out')}:",
        *launches.into("out"),
        # The general path raises it again, in the user's terms.
        "    except Exception:",
        "        pass",
        f"    given = [argument for argument in ({', '.join(types)},) if argument is not missing]",
        "    return general(*given, *rest, out=out, **keywords)",
    ]


class _Launches:
    def __init__(self, direct: Direct, arguments: dict[str, Type], bound: Sequence[Any], result: Type):
        self._direct, self._arguments, self._result = direct, arguments, result
        self._values = {len(arguments) + position: f"bound{position}" for position in range(len(bound))}
        self._values |= {number: f"constant{number}" for number in direct.constants}
        self._values |= {number: f"between{number}" for number in direct.scratch}
        self.names: dict[str, Any] = {f"bound{position}": tensor for position, tensor in enumerate(bound)}
        self.names |= {f"constant{number}": tensor for number, tensor in direct.constants.items()}
        self.names |= {f"launch{position}": step.function for position, step in enumerate(direct.steps)}
        for number, (shape, dtype) in direct.scratch.items():
            type_ = Type(shape, dtype)
            self.names |= {f"between{number}_{fact}": getattr(type_, fact) for fact in ("shape", "strides", "dtype")}
        for name, type_ in {**arguments, "result": result}.items():
            if type_.compiled is not None:
                self.names |= {f"{name}_own": type_.dtype, f"{name}_own_array": type_.array_dtype}
                self.names |= {f"{name}_view": type_.compiled, f"{name}_view_array": array_dtype(type_.compiled)}

    def into(self, result: str, suffix: str = "") -> list[str]:
        values = {number: _operand(name, name, type_, suffix)
                  for number, (name, type_) in enumerate(self._arguments.items())}  # fmt: skip
        values |= self._values | {self._direct.result: _operand(result, "result", self._result, suffix)}
        scratch = [self._values[number] for number in self._direct.scratch]
        lines = [
            *(f"{name} = empty({name}_shape, {name}_strides, {name}_dtype)" for name in scratch),
            *(
                f"launch{position}({', '.join(values[number] for number in step.operands)})"
                for position, step in enumerate(self._direct.steps)
            ),
            f"return {result}",
        ]
        return [f"            {line}" for line in lines]

    def owned(self, suffix: str = "", out: str = "") -> str:
        """Return a condition: arguments launched as another dtype, which the launch does not check, have their own."""
        viewed = {name: name for name, type_ in self._arguments.items() if type_.compiled is not None}
        if out and self._result.compiled is not None:
            viewed[out] = "result"
        return "".join(f" and {name}.dtype == {fact}_own{suffix}" for name, fact in viewed.items())


def _operand(name: str, fact: str, type_: Type, suffix: str) -> str:
    if not type_.shape and fact != "result":
        return f"array({name}, {name}_dtype)"
    return name if type_.compiled is None else f"{name}.view({fact}_view{suffix})"


def guarded(
    arguments: Sequence[Any], at_run_time: Sequence[int], call: Call, unknown: Any
) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return `call` on arguments `at_run_time` of these types, else `unknown`; None if types alone do not decide."""
    names: dict[str, Any] = {"call_it": call, "unknown": unknown}
    checks = [f"len(arguments) == {len(arguments)}"]
    for position, argument in enumerate(arguments):
        kind, name = type(argument), f"a{position}"
        names |= {f"{name}_type": kind, f"{name}_value": argument}
        checks.append(f"type({name} := arguments[{position}]) is {name}_type")
        if kind is torch.Tensor or kind is np.ndarray:
            names |= {f"{name}_value": None, f"{name}_shape": argument.shape, f"{name}_dtype": argument.dtype}
            checks += [f"{name}.dtype is {name}_dtype", f"{name}.shape == {name}_shape"]
        elif position not in at_run_time and kind in _CONSTANTS:
            checks.append(f"{name} == {name}_value")
        elif position not in at_run_time or kind is not float:
            return None
    passed = ", ".join(f"a{position}" for position in at_run_time)
    lines = ["def call(arguments):", f"    if {' and '.join(checks)}:", f"        return call_it({passed})"]
    return _defined([*lines, "    return unknown"], names)


def _defined(lines: list[str], names: dict[str, Any]) -> Callable[..., Any]:
    # Use this file's name: a warning's stacklevel skips frames of this package.
    exec(compile("\n".join(lines), __file__, "exec"), names)
    return names["call"]
