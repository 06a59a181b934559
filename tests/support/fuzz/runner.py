"""Runs a program in a pipeline and says what came of it: agreed, refused, wrong or crashed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from fuzz import kernels, linalg_modules, relax_modules, torch_modules
from fuzz.bounded_array import Bounded
from fuzz.program import Environment, Program, evaluate
from mlirtri import errors

AGREED, REFUSED, WRONG, CRASHED = "agreed", "refused", "wrong", "crashed"
BUGS = (errors.CompilerBugError, errors.PassFailedError, errors.CodegenError)
"""Errors that a user cannot do anything about."""


@dataclass(frozen=True)
class Kind:
    """What a kind of programs is made, run and shown by."""

    pipelines: tuple[str, ...]
    generate: Callable[[Random], Program]
    start: Callable[[Program], Environment]
    expected: Callable[[Program, Environment], list[Any]]
    run: Callable[[Program, str], list[Any]]
    text: Callable[[Program], str]
    as_test: Callable[[Program, str, str], str]


def _kind(module: Any) -> Kind:
    return Kind(
        module.PIPELINES, module.generate, module.start, module.expected, module.run, module.text_of, module.as_test
    )


KINDS: dict[str, Kind] = {
    "kernels": _kind(kernels),
    "linalg": _kind(linalg_modules),
    "relax": _kind(relax_modules),
    "torch": _kind(torch_modules),
}
KINDS["torch_kernels"] = replace(KINDS["torch"], pipelines=kernels.PIPELINES, generate=torch_modules.generate_kernels)


@dataclass(frozen=True)
class Outcome:
    """What came of a program in a pipeline."""

    what: str
    detail: str = ""
    signature: str = ""
    """What failures of one cause have in common; a reduced program has to keep it."""


def references(program: Program) -> list[Any]:
    """Return the reference's results with their bounds."""
    kind = KINDS[program.kind]
    return kind.expected(program, evaluate(program, kind.start))


def outcome(program: Program, pipeline: str, reference: list[Any] | None = None) -> Outcome:
    reference = references(program) if reference is None else reference
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = KINDS[program.kind].run(program, pipeline)
    except BUGS as error:
        return Outcome(CRASHED, str(error), type(error).__name__ + _first_words(error))
    except errors.KernelError as error:
        return Outcome(REFUSED, str(error), type(error).__name__ + _first_words(error))
    except Exception as error:
        return Outcome(CRASHED, f"{type(error).__name__}: {error}", type(error).__name__)
    return compare(results, reference)


def _first_words(error: Exception) -> str:
    """Return the start of an error's message without names and numbers."""
    message = str(getattr(error, "message", error)).split("error: ")[-1]
    words = [word for word in message.split()[:12] if word.isalpha()]
    return " " + " ".join(words)


def compare(results: list[Any], reference: list[Any]) -> Outcome:
    """Compare results with the reference: dtypes, shapes, and values within their bounds."""
    if len(results) != len(reference):
        return Outcome(WRONG, f"{len(results)} results instead of {len(reference)}", "number of results")
    for position, (result, expected) in enumerate(zip(results, reference, strict=True)):
        difference = _difference(result, expected)
        if difference:
            return Outcome(WRONG, f"result {position}: {difference}", "wrong " + difference.split(":")[0])
    return Outcome(AGREED)


def _difference(result: Any, expected: Any) -> str:
    """Return what is wrong with a result, or nothing."""
    if not isinstance(expected, Bounded):
        return "" if result == expected or result != result else f"value: {result} instead of {expected}"
    mine = np.asarray(result)
    if mine.dtype != expected.dtype:
        return f"dtype: {mine.dtype} instead of {expected.dtype}"
    if mine.shape != expected.shape:
        return f"shape: {mine.shape} instead of {expected.shape}"
    if expected.error is None:
        wrong = mine != np.asarray(expected.low)
    else:
        wrong = outside(mine, expected)
    if not np.any(wrong):
        return ""
    index = tuple(int(each[0]) for each in np.nonzero(np.atleast_1d(wrong))) if mine.ndim else ()
    bound = f", bound {float(np.asarray(expected.error)[index]):.3g}" if expected.error is not None else ""
    return (
        f"value: element {index} is {mine[index]!r} instead of {np.asarray(expected.high)[index]!r}{bound}; "
        f"{np.count_nonzero(wrong)} of {mine.size} elements are wrong"
    )


def outside(mine: Any, expected: Bounded) -> Any:
    """Return where a result is farther from the reference than its bound, or of another class (finite, infinite,
    NaN)."""
    high, low = np.asarray(expected.high), np.asarray(expected.low)
    with np.errstate(all="ignore"):
        if mine.dtype.kind == "c":
            classes = np.isfinite(mine) != np.isfinite(low)
            return np.where(
                np.isfinite(high) & np.isfinite(low), np.abs(mine.astype(high.dtype) - high) > expected.error, classes
            )
        special = ~np.isfinite(high) | ~np.isfinite(low)
        unlike = ~((mine == low) | (np.isnan(mine) & np.isnan(low)))
        return np.where(special, unlike, ~(np.abs(mine.astype(high.dtype) - high) <= expected.error))
