"""Calls of library functions with an operand of the wrong kind in each position; which of them the compiler fails on.

Each call of the tables is written with one argument replaced at a time. Only the frontend runs. What a kernel may not
say is refused with a `KernelError` at its line; a `CompilerBugError` is our mistake, and is what the sweep counts.

    python tests/support/wrong_operands.py [STRIDE]
"""

from __future__ import annotations

import linecache
import math
import sys
from collections import Counter
from collections.abc import Iterator

import numpy
import torch
from compiled_calls import expression
from numpy_calls import ARRAYS
from spelling_calls import NETWORKS, NUMPY, TORCH, Case
from torch_calls import TENSORS
from window_calls import WINDOWS

import mlirtri as mt
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.errors import CompilerBugError, KernelError

CALLS = [case for case in (*NUMPY, *ARRAYS, *TORCH, *TENSORS, *NETWORKS, *WINDOWS) if "slice(" not in str(case)]
WRONG = ("'a'", "None", "numpy.float32", "(1, 2)", "[1, 'a']", "0.5", "1j")
"""Source of the operands that replace others."""


class Written:
    """Source in place of an argument."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def mutants(stride: int = 1) -> Iterator[tuple[Case, str, list[numpy.ndarray]]]:
    """Yield every `stride`-th wrong call: the call that it was, its source and its arrays."""
    number, seen = 0, set()
    for case in CALLS:
        for changed in _changed(case):
            arrays: list[numpy.ndarray] = []
            text = expression(changed, arrays)
            key = (text, tuple((array.dtype, array.shape) for array in arrays))
            if key in seen:
                continue
            seen.add(key)
            number += 1
            if number % stride == 0:
                yield case, text, arrays


def _changed(case: Case) -> Iterator[Case]:
    """Yield the case with each wrong operand at each position, and for each parameter that it leaves out."""
    owner = case.name.partition(".")[0]
    spelling = spellings.lookup(case.name)
    if spelling is None or spelling.is_attribute or case.name.endswith("__getitem__"):
        return
    first = 1 if owner in ("ndarray", "Tensor") else 0
    given = spelling.arguments(case.arguments, case.keywords)
    for wrong in map(Written, WRONG):
        for position in range(first, len(case.arguments)):
            arguments = [*case.arguments[:position], wrong, *case.arguments[position + 1 :]]
            yield Case(case.name, *arguments, **case.keywords)
        for name in case.keywords:
            yield Case(case.name, *case.arguments, **{**case.keywords, name: wrong})
        for name, parameter in spelling.signature.parameters.items():
            if name not in given and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                yield Case(case.name, *case.arguments, **case.keywords, **{name: wrong})


def failure(text: str, arrays: list[numpy.ndarray], is_torch: bool) -> Exception | None:
    """Return what the compiler fails on a call with, by its own mistake; None where it compiles or refuses the call."""
    names = ", ".join(f"a{position}" for position in range(len(arrays)))
    source = f"def kernel({names}):\n    return {text}\n"
    file = f"<wrong operands {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {"numpy": numpy, "torch": torch, "math": math, "__name__": "wrong_operands"}
    exec(compile(source, file, "exec"), namespace)
    arguments = [torch.from_numpy(numpy.array(array)) for array in arrays] if is_torch else arrays
    try:
        mt.jit(namespace["kernel"], pipeline="interpreter").compile(*arguments)
    except KernelError as error:
        errors = getattr(error, "errors", (error,))
        return next((each for each in errors if isinstance(each, CompilerBugError)), None)
    except Exception as error:
        return error
    finally:
        del linecache.cache[file]
    return None


def main(stride: int) -> None:
    total, found = 0, Counter()
    for case, text, arrays in mutants(stride):
        total += 1
        error = failure(text, arrays, case.name.startswith(("torch.", "Tensor.")))
        if error is not None:
            found[case.name] += 1
            print(f"{text}: {getattr(error, 'message', repr(error))}", flush=True)
    print(f"{total} calls, {sum(found.values())} internal errors of {len(found)} functions")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
