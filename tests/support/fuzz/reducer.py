"""Makes a failing program smaller while it fails in the same way: delta debugging over statements, then values and
shapes.

A candidate has to be a program itself: the reference runs it and bounds its results. Four ways to a smaller one: a
result is dropped; a statement is deleted, or part of a block; a statement goes and its value becomes an argument; an
expression becomes one of its operands. Then axes of one size become shorter in all arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fuzz.bounded_array import Bounded
from fuzz.program import Program, Statement, comparable, evaluate
from fuzz.runner import KINDS, Outcome, outcome
from mlirtri.reduce.python_candidates import candidates as python_candidates
from mlirtri.reduce.search import chunks, smallest, without

Test = Callable[[Program], bool]


def reduce(program: Program, pipeline: str, failure: Outcome, seconds: float = 60.0) -> Program:
    """Return the smallest program that is met within the time and fails like the one given."""

    def fails(candidate: Program) -> bool:
        reference = sound(candidate)
        if reference is None:
            return False
        result = outcome(candidate, pipeline, reference)
        return (result.what, result.signature) == (failure.what, failure.signature)

    return smallest(program, candidates, fails, seconds)


def sound(program: Program) -> list[Any] | None:
    """Return the reference's results; None where there are none that can be compared."""
    kind = KINDS[program.kind]
    try:
        expected = kind.expected(program, evaluate(program, kind.start))
    except Exception:
        return None
    return expected if all(comparable(each) for each in expected if isinstance(each, Bounded)) else None


def candidates(program: Program) -> Iterator[Program]:
    """Give smaller programs, the much smaller ones first."""
    yield from _halves(program)
    yield from _fewer_results(program)
    yield from _without_statements(program)
    yield from _statements_as_arguments(program)
    yield from _smaller_statements(program)
    yield from _fewer_arguments(program)
    yield from _shorter_axes(program)


def _halves(program: Program) -> Iterator[Program]:
    for dropped in chunks(len(program.statements), least=2):
        if len(dropped) < len(program.statements):
            yield program.with_(statements=tuple(without(program.statements, dropped)))


def _fewer_results(program: Program) -> Iterator[Program]:
    """One result alone, or one less; or the value of an earlier statement instead."""
    if len(program.results) > 1:
        for name in program.results:
            yield program.with_(results=(name,))
        for position in range(len(program.results)):
            yield program.with_(results=program.results[:position] + program.results[position + 1 :])
    elif program.results:
        for position, statement in enumerate(program.statements[:-1]):
            name = statement.text.partition(" = ")[0]
            if name.isidentifier():
                yield program.with_(results=(name,), statements=program.statements[: position + 1])


def _without_statements(program: Program) -> Iterator[Program]:
    for position in reversed(range(len(program.statements))):
        yield program.with_(statements=program.statements[:position] + program.statements[position + 1 :])


def _statements_as_arguments(program: Program) -> Iterator[Program]:
    """Make the value that a statement names an argument, first for the statements that the most hangs on."""
    kind = KINDS[program.kind]
    for position in reversed(range(len(program.statements))):
        name, _, _ = program.statements[position].text.partition(" = ")
        if not name.isidentifier() or name in program.arguments:
            continue
        try:
            environment = evaluate(program.with_(statements=program.statements[: position + 1], results=()), kind.start)
        except Exception:
            continue
        value = environment.get(name)
        if hasattr(value, "low"):
            rest = program.statements[:position] + program.statements[position + 1 :]
            yield program.with_(arguments={**program.arguments, name: value.low}, statements=rest)


def _fewer_arguments(program: Program) -> Iterator[Program]:
    for name in program.arguments:
        yield program.with_(arguments={other: value for other, value in program.arguments.items() if other != name})


def _shorter_axes(program: Program) -> Iterator[Program]:
    sizes = {size for value in program.arguments.values() for size in np.shape(value)}
    for size in sorted(sizes, reverse=True):
        for shorter in dict.fromkeys((1, 2, size // 2, size - 1)):
            if 0 < shorter < size:
                cut = {name: _cut(value, size, shorter) for name, value in program.arguments.items()}
                yield program.with_(arguments=cut)


def _cut(value: Any, size: int, shorter: int) -> Any:
    if not np.ndim(value):
        return value
    part = value[tuple(slice(shorter) if axis == size else slice(None) for axis in value.shape)]
    return part.copy(order="K") if isinstance(part, np.ndarray) else part.clone()


def _smaller_statements(program: Program) -> Iterator[Program]:
    """Programs with a part of one statement; for programs whose source is the reference's."""
    for position, statement in enumerate(program.statements):
        if statement.source:
            return
        for text in python_candidates(statement.text):
            inserted = (Statement(text),) if text else ()
            yield program.with_(
                statements=program.statements[:position] + inserted + program.statements[position + 1 :]
            )
