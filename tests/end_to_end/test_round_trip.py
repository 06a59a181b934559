"""linalg → Relax → linalg → Relax keeps the numbers: kernels leave as Relax, come back as linalg, and run again.

The kernels are library calls of NumPy and torch, straight code and scratch memory, and generated programs with loops
and updates. What comes back is compared with what left, bit by bit but for sums that may be added in another order.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from compiled_calls import ARRAY_CALLS, CALLS, expression, is_torch, module_from
from fuzz.imperative import Program
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from program_runner import load, make_arguments
from relax_results import flat
from torch_calls import TENSORS

import mlirtri as mt

SETTINGS = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
CALLS_PER_KERNEL = 20


def check(function, arguments, pipeline: str) -> None:
    """The kernel of a function, and what its Relax module is after the way to linalg and back, agree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = mt.jit(function, pipeline=pipeline).compile(*arguments)
    named = {f"a{at}": each for at, each in enumerate(arguments)}
    names = [each.name for each in kernel.interface.parameters]
    given = [named[name] for name in names] if set(names) <= set(named) else list(arguments)
    left = mt.from_relax(kernel.compilation.records["relax"].ir)
    text = left.to_mlir()
    assert '"tri.' not in text
    back = mt.from_mlir(text).compile(pipeline="linalg")
    (wanted, passed), (found, changed) = (called(each, given) for each in (kernel, back))
    # What a kernel checks at run time, division by zero say, are results of the module after those of the kernel.
    assert not any(flag.any() or flag.dtype != bool for flag in found[len(wanted) :])
    for f, w in zip([*found[: len(wanted)], *changed], [*wanted, *passed], strict=True):
        assert f.shape == w.shape
        f = f.view(w.dtype)
        if not np.array_equal(f, w, equal_nan=w.dtype.kind in "fc"):
            tolerance = 2e-2 if w.dtype.itemsize == 2 else 1e-5 if w.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(f, w, tolerance, tolerance)


def called(kernel, arguments) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Results and what the arguments are afterwards; of signless kernels unsigned numbers are passed as signed."""
    passed = []
    for argument, parameter in zip(arguments, kernel.interface.parameters, strict=True):
        array = np.array(argument, dtype="float64" if isinstance(argument, float) else None)
        passed.append(array.view(parameter.type.dtype.numpy) if array.dtype.kind == "u" else array)
    return flat(kernel(*passed)), [each for each in passed if each.ndim]


def groups():
    calls = [*CALLS, *ARRAY_CALLS, *TENSORS]
    for library in ("numpy", "torch"):
        own = [case for case in calls if is_torch(case) == (library == "torch")]
        some = own[7::97]
        for name, part, pipeline, marks in (
            ("some", some, "linalg" if library == "numpy" else "relax", ()),
            ("all", own, "linalg", [pytest.mark.slow]),
            ("all", own, "relax", [pytest.mark.slow]),
        ):
            for at in range(0, len(part), CALLS_PER_KERNEL):
                calls_of_one = part[at : at + CALLS_PER_KERNEL]
                yield pytest.param(library, calls_of_one, pipeline, id=f"{library}-{name}-{at}-{pipeline}", marks=marks)


@pytest.mark.parametrize(("library", "calls", "pipeline"), list(groups()))
def test_library_calls(tmp_path, library, calls, pipeline):
    arrays: list[np.ndarray] = []
    lines = ",\n        ".join(expression(case, arrays) for case in calls)
    parameters = ", ".join(f"a{at}" for at in range(len(arrays)))
    file = tmp_path / f"round_{library}.py"
    file.write_text(
        f"import math\nimport numpy\nimport torch\n\ndef kernel({parameters}):\n    return (\n        {lines},\n    )\n"
    )
    arguments = [torch.from_numpy(np.array(each)) for each in arrays] if library == "torch" else arrays
    check(module_from(file).kernel, arguments, pipeline)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


def check_generated(random, folder, pipeline: str) -> None:
    program = Program(random)
    note(program.text)
    module = load(program.text, folder)
    arguments = make_arguments(program.arguments, {"F": program.float, "I": program.int}, 7)
    check(module.program, arguments, pipeline)


@given(st.randoms(use_true_random=False))
@settings(max_examples=2, **SETTINGS)
def test_programs(folder, random):
    check_generated(random, folder, "linalg")


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
@given(random=st.randoms(use_true_random=False))
@settings(max_examples=100, **SETTINGS)
def test_more_programs(folder, pipeline, random):
    check_generated(random, folder, pipeline)
