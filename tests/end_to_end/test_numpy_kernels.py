"""The suite of scientific kernels, compiled unmodified, against plain Python: returned values and mutated arguments."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_kernel_checks import check
from numpy_kernels import FAMILIES, KERNELS
from numpy_kernels.case import copied

import mlirtri as mt


def combinations() -> list:
    """Every kernel through the default pipeline, and a quarter of them in each of their dtypes; the rest is slow."""
    return [
        pytest.param(name, dtype, pipeline, marks=[pytest.mark.slow] * is_slow(at, case, dtype, pipeline))
        for at, (name, case) in enumerate(KERNELS.items())
        for pipeline in ("linalg", "relax", "mlir")
        for dtype in (case.dtypes if pipeline == "linalg" else case.dtypes[:1])
    ]


def is_slow(at: int, case, dtype: str, pipeline: str) -> bool:
    return pipeline != "linalg" or (dtype != case.dtypes[0] and at % 4 > 0)


@pytest.mark.parametrize(("name", "dtype", "pipeline"), combinations())
@pytest.mark.filterwarnings("ignore::mlirtri.calls.argument_conversion.NonContiguousWarning")
def test_a_kernel_does_what_numpy_does(name, dtype, pipeline):
    check(KERNELS[name], dtype, mt.jit(KERNELS[name].function, pipeline=pipeline))


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["relax", "mlir"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.filterwarnings("ignore::mlirtri.calls.argument_conversion.NonContiguousWarning")
def test_the_other_dtypes(name, pipeline):
    for dtype in KERNELS[name].dtypes[1:]:
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
