"""Calls of NumPy and torch functions written as modules of kernels."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
from numpy_calls import ARRAYS
from spelling_calls import NETWORKS, NUMPY, TORCH

from mlirtri.dialect.spellings import registry as spellings


def module_from(file: Path):
    specification = importlib.util.spec_from_file_location(f"calls_{file.stem}", file)
    module = importlib.util.module_from_spec(specification)
    # Dataclasses look their module up.
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


CALLS = [case for case in [*NUMPY, *TORCH, *NETWORKS] if "empty" not in case.name]


# A slice is written in brackets only.
ARRAY_CALLS = [case for case in ARRAYS if not any(isinstance(each, slice) for each in case.arguments[1:])]


def written(value, arrays: list[np.ndarray]) -> str:
    """Python source of an argument; arrays become parameters."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return f"a{len(arrays) - 1}"
    if isinstance(value, (tuple, list)):
        inner = ", ".join(written(each, arrays) for each in value)
        return f"({inner}{',' * bool(value)})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, np.dtype):
        return f"numpy.{value.name}"
    if isinstance(value, slice):
        return ":".join("" if part is None else repr(part) for part in (value.start, value.stop, value.step))
    if isinstance(value, float) and abs(value) == float("inf"):
        return f"numpy.inf * {int(value > 0) * 2 - 1}"
    return (
        f"numpy.{value.__name__}"
        if isinstance(value, type) and issubclass(value, np.generic)
        else (value.__name__ if isinstance(value, type) else repr(value))
    )


def expression(case, arrays: list[np.ndarray]) -> str:
    arguments = [written(argument, arrays) for argument in case.arguments]
    arguments += [f"{name}={written(argument, arrays)}" for name, argument in case.keywords.items()]
    owner, _, name = case.name.partition(".")
    if name.endswith(".__getitem__"):
        return f"{case.name.removesuffix('.__getitem__')}[{arguments[0].strip('()')}]"
    if owner not in ("ndarray", "Tensor"):
        return f"{case.name}({', '.join(arguments)})"
    attribute = spellings.lookup(case.name).is_attribute
    return f"{arguments[0]}.{name}" + ("" if attribute else f"({', '.join(arguments[1:])})")


def is_torch(case) -> bool:
    return case.name.startswith(("torch.", "Tensor."))
