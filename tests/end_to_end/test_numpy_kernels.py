"""The suite of scientific kernels, compiled unmodified, against plain Python: returned values and mutated arguments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy_kernel_checks import check
from numpy_kernels import FAMILIES, KERNELS
from numpy_kernels.case import copied

import mlirtri as mt


def combinations() -> list:
    """Every kernel once, half of them by the default pipeline, in one of their dtypes in turn; the rest is slow."""
    pipelines = ("linalg", "relax", "mlir")
    chosen = []
    for at, (name, case) in enumerate(KERNELS.items()):
        run = ("linalg", "relax", "linalg", "mlir")[at % 4], case.dtypes[at // 4 % len(case.dtypes)]
        chosen += [
            pytest.param(name, *each, marks=[pytest.mark.slow] * (each != run))
            for each in itertools.product(pipelines, case.dtypes)
        ]
    return chosen


@pytest.mark.parametrize(("name", "pipeline", "dtype"), combinations())
@pytest.mark.filterwarnings("ignore::mlirtri.calls.argument_conversion.NonContiguousWarning")
def test_a_kernel_does_what_numpy_does(name, pipeline, dtype):
    check(KERNELS[name], dtype, mt.jit(KERNELS[name].function, pipeline=pipeline))


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
