"""Python functions that are run plainly and compiled: what they return and what they write has to agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_kernel_checks import compare_results

import mlirtri as mt

PIPELINES = ("linalg", "mlir")
PROGRAMS: dict[str, list[tuple[Callable[..., Any], tuple[Any, ...]]]] = {}
"""Functions and their arguments, by the module that has them."""
VECTOR = np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0])
INTEGERS = np.array([5, -3, 8, 0, 2, 7], np.int64)
SQUARE = np.arange(16.0).reshape(4, 4) + 4 * np.eye(4)


def on(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run the function below on these arguments, plainly and compiled."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.setdefault(function.__module__, []).append((function, arguments))
        return function

    return enter


def every_program(module: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrizes a test by the programs of a module, and by pipelines."""
    programs = PROGRAMS[module]
    names = [f"{function.__name__}-{position}" for position, (function, _) in enumerate(programs)]
    by_program = pytest.mark.parametrize(("function", "arguments"), programs, ids=names)
    return lambda test: pytest.mark.parametrize("pipeline", PIPELINES)(by_program(test))


def check_program(function: Callable[..., Any], arguments: tuple[Any, ...], pipeline: str) -> None:
    plain, ours = (
        [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments] for _ in range(2)
    )
    expected = function(*plain)
    result = mt.jit(function, pipeline=pipeline)(*ours)
    compare_results(result, expected, 1e-12, "returned value")
    compare_results(tuple(ours), tuple(plain), 1e-12, "argument")
