"""Run a module that is text through an importer, and write a test of it: shared by the kinds `linalg` and `relax`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuzz.bounded_array import low
from fuzz.program import Environment, Program, copied, evaluate, imported


def run_module(program: Program, importer: Callable[[str], Any], text: str, pipeline: str) -> list[Any]:
    """Return the results of the module with the program's arguments."""
    kernel = imported(program, lambda: importer(text)).compile(pipeline=pipeline)
    returned = kernel(*map(copied, program.arguments.values()))
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def test_of_module(
    program: Program, start: Callable[[Program], Environment], importer: str, text: str, pipeline: str, title: str
) -> str:
    """Return a test of the module against what the reference gave."""
    environment = evaluate(program, start)

    def array(value: Any) -> str:
        return f"np.array({low(value).tolist()!r}, np.{low(value).dtype})"

    arguments = ", ".join(array(value) for value in program.arguments.values())
    results = ", ".join(array(environment[name]) for name in program.results)
    return f'''"""{title}"""

import numpy as np

import mlirtri as mt

nan, inf = np.nan, np.inf
MODULE = """
{text}"""


def test_program():
    expected = [{results}]
    results = mt.{importer}(MODULE).compile(pipeline={pipeline!r})({arguments})
    results = results if isinstance(results, (tuple, list)) else [results]
    for result, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, right, 1e-3, 1e-3)
'''
