"""A program as a list of statements in the reference's Python, and the values that the reference gives them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fuzz import bounds
from fuzz.array_rules import Spelled
from fuzz.bounded_array import Bounded, bounded

Environment = dict[str, Any]
_IMPORTED: dict[str, Any] = {}


@dataclass(frozen=True)
class Statement:
    """A statement of a program; `text` may have several lines."""

    text: str
    """What the reference runs: Python."""
    source: str = ""
    """What the compiler gets where that is another language, with ``<name>`` for the type of a value."""


@dataclass(frozen=True)
class Program:
    """A function of NumPy arrays: arguments with their values, statements, names of results."""

    kind: str
    arguments: dict[str, Any]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]
    helpers: str = ""
    """Text in front of the function: imports, functions that it calls."""
    options: dict[str, Any] = field(default_factory=dict)
    """What its kind wants to know beside: semantics, dynamic sizes."""

    def with_(self, **changes: Any) -> Program:
        return replace(self, **changes)


def copied(value: Any) -> Any:
    """Return an array's copy with its strides: a copy of a transposed array is transposed."""
    return value.copy(order="K") if isinstance(value, np.ndarray) else value


def enter(program: Program) -> Environment:
    """Return the names that the program's first statement sees, its arguments copied and bounded."""
    environment: Environment = {"np": Spelled(), "__name__": "reference"}
    helpers = "\n".join(line for line in program.helpers.splitlines() if not line.startswith(("import", "from")))
    exec(helpers, environment)
    for name, value in program.arguments.items():
        environment[name] = bounded(copied(value))
    return environment


def execute(text: str, environment: Environment) -> None:
    """Run a statement of the reference; it raises what plain Python raises, `Undecided`, or `NoRule`."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        exec(text, environment)


def evaluate(program: Program, start: Callable[[Program], Environment] = enter) -> Environment:
    """Run the whole reference and return all of its names."""
    environment = start(program)
    with bounds.halves_in_halves() if program.kind == "relax" else nullcontext():
        for statement in program.statements:
            execute(statement.text, environment)
    for name in program.results:
        environment[name] = bounded(environment[name])
    return environment


def comparable(value: Any) -> bool:
    """Whether a value is a result that can be compared: not lost to rounding, or to infinities of its own."""
    if not isinstance(value, Bounded):
        return isinstance(value, (int, float, bool))
    if value.error is None:
        return True
    with np.errstate(all="ignore"):
        size = np.abs(value.high)
        fine = value.error <= 2.0**-6 * (1 + size)
        low, high = np.abs(np.asarray(value.low).astype(complex)), size
        same_class = (np.isnan(low) == np.isnan(high)) & (np.isinf(low) == np.isinf(high))
        return bool(np.all((fine | ~np.isfinite(high)) & same_class))


def imported(program: Program, load: Callable[[], Any]) -> Any:
    """Return what `load` imports of a program; once for all pipelines, since tracing a module takes longer than
    compiling."""
    key = f"{program.kind} {id(program)}"
    if key not in _IMPORTED:
        _IMPORTED.clear()
        # The program is kept too, so that no other one can have its id.
        _IMPORTED[key] = (load(), program)
    return _IMPORTED[key][0]
