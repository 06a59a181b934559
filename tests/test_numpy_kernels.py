"""The suite of scientific kernels, compiled unmodified, against plain Python: returned values and mutated arguments."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_kernel_checks import check
from numpy_kernels import FAMILIES, KERNELS
from numpy_kernels.case import copied

import mlirtri as mt

NOT_YET: dict[str, str] = {name: "no loops yet" for name in KERNELS}
"""Kernels that do not compile yet, each with why. To be emptied; one that compiles has to leave."""

REFUSED: dict[tuple[str, str], str] = {}
"""Kernel and pipeline that do not go together, with the sentence that says so (docs/operations.md)."""


def combinations() -> list:
    """Every kernel, pipeline and dtype; one dtype tells whether a pipeline can do a kernel at all."""
    return [
        pytest.param(name, dtype, pipeline, marks=[pytest.mark.slow] * (pipeline != "linalg" and position > 0))
        for name, case in KERNELS.items()
        for pipeline in ("linalg", "relax", "mlir")
        for position, dtype in enumerate(case.dtypes)
        if name not in NOT_YET
    ]


@pytest.mark.parametrize(("name", "dtype", "pipeline"), combinations())
@pytest.mark.filterwarnings("ignore::mlirtri.runtime.NonContiguousWarning")
def test_a_kernel_does_what_numpy_does(name, dtype, pipeline):
    case = KERNELS[name]
    compiled = mt.jit(case.function, pipeline=pipeline)
    if (name, pipeline) not in REFUSED:
        check(case, dtype, compiled)
        return
    with pytest.raises(mt.KernelError, match=REFUSED[name, pipeline]):
        compiled(*copied(case.arguments("S", dtype)))


@pytest.mark.parametrize("name", NOT_YET)
def test_what_does_not_compile_yet_still_does_not(name):
    case = KERNELS[name]
    with pytest.raises((mt.KernelError, AssertionError)):
        check(case, case.dtypes[0], mt.jit(case.function))


def test_the_suite_is_broad():
    assert len(KERNELS) >= 45
    assert len(KERNELS) == sum(len(family.CASES) for family in FAMILIES), "two kernels of one name"


@pytest.mark.parametrize("name", KERNELS)
def test_arguments_are_reproducible_and_tell_something(name):
    """A kernel that leaves nothing behind, or not a finite number, would pass whatever is compiled."""
    case = KERNELS[name]
    for dtype in case.dtypes:
        given, again = case.arguments("S", dtype), case.arguments("S", dtype)
        before = copied(given)
        returned = case.function(*given)
        results = list(returned) if isinstance(returned, tuple) else [] if returned is None else [returned]
        changed = [a for a, b in zip(given, before, strict=True) if isinstance(a, np.ndarray) and (a != b).any()]
        assert results or changed
        for each in (*results, *changed):
            assert np.all(np.isfinite(each))
            assert np.any(each)
        for a, b in zip(again, before, strict=True):
            np.testing.assert_array_equal(a, b)
