"""Runs generated programs: plainly, interpreted, compiled; and says what the results may differ by."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy_kernel_checks import compare

import mlirtri as mt
from mlirtri.dialect.base.dtypes import as_dtype

_COUNT = count()

ROUNDINGS = 4096
"""Roundings that may add up in a program: a few hundred operations, none of which widens an error by much."""


def load(text: str, folder: Path, name: str = "generated") -> ModuleType:
    """The program as a module of a file of its own, which the frontend reads it from."""
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(f"{name}_{next(_COUNT)}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def make_arguments(parameters: dict[str, tuple[str, tuple[int, ...]]], dtypes: dict[str, str], seed: int) -> list[Any]:
    """Small numbers that every float dtype holds, and integers, of both signs; a Python float for a scalar."""
    random = np.random.default_rng(seed)
    return [
        0.75 if not shape
        else (random.integers(-16, 17, shape) / 8).astype(dtypes["F"]) if kind == "F"
        else random.integers(-5, 6, shape).astype(dtypes["I"])
        for kind, shape in parameters.values()
    ]  # fmt: skip


def run(function: Any, arguments: list[Any]) -> list[Any]:
    """Returned values, then the arguments afterwards."""
    copies = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        returned = function(*copies)
    return [*(returned if isinstance(returned, tuple) else [returned]), *copies]


def check_program(function: Any, arguments: list[Any], dtype: str, pipelines: tuple[str, ...]) -> None:
    """Plain Python and each of the pipelines give the same numbers in the same dtypes."""
    expected = run(function, arguments)
    near = ROUNDINGS * as_dtype(dtype).epsilon
    for pipeline in pipelines:
        result = run(mt.jit(function, pipeline=pipeline), arguments)
        assert len(result) == len(expected), pipeline
        for position, (mine, other) in enumerate(zip(result, expected, strict=True)):
            compare(mine, other, near, f"{pipeline}, value {position}")
