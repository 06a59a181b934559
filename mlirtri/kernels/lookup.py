"""Find the kernel of a call by checks that are written for the arguments of an earlier call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

_CONSTANTS = (int, bool, str, type(None))
"""Types whose equal values are the same constant. Not floats, of whose zeros there are two."""


def guarded(
    arguments: Sequence[Any], at_run_time: Sequence[int], call: Callable[..., Any], unknown: Any
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
    # Use this file's name: a warning's stacklevel skips frames of this package.
    exec(compile("\n".join([*lines, "    return unknown"]), __file__, "exec"), names)
    return names["call"]
