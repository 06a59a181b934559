"""Functions of whole arrays in every dtype: the same result dtypes and values as NumPy, or both refuse."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from eager_builder import call, flat, library_function

import mlirtri as mt
from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.errors import KernelError

# NEP 50 does not know ml_dtypes' bfloat16, and complex numbers have tests of their own.
NAMES = [name for name, dtype in DTYPES.items() if name != "bfloat16" and not dtype.is_complex]
ONE = (
    "reciprocal", "positive", "deg2rad", "degrees", "sinc", "modf", "nan_to_num", "isposinf", "isneginf", "signbit",
    "cbrt", "cumsum", "cumprod", "sort", "argsort", "median", "diff", "ptp", "count_nonzero", "nansum", "nanprod",
    "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nanargmax", "average", "cov", "corrcoef", "gradient",
    "trapezoid", "diag", "trace", "diagonal", "vander", "linalg.norm",
)  # fmt: skip
ONE_AND_A_NUMBER = ("roll", "tile", "repeat", "pad", "histogram")
TWO = (
    "hypot", "copysign", "fmod", "logaddexp", "logaddexp2", "fmin", "fmax", "heaviside", "isclose", "allclose",
    "array_equal", "outer", "inner", "dot", "vdot", "tensordot", "kron", "convolve", "correlate", "searchsorted",
    "digitize", "cross", "append", "add.outer", "power.outer",
)  # fmt: skip


def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.default_rng(1)
    found = random.integers(0, 2, shape) if name == "bool" else random.integers(1, 9, shape)
    return found.astype(DTYPES[name].numpy)


def outcome(compute) -> list[np.ndarray] | str:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(each) for each in flat(compute())]
        except (KernelError, TypeError):
            return "refused"


def differences(function: str, *arguments) -> str | None:
    theirs = outcome(lambda: library_function(f"numpy.{function}")(*arguments))
    mine = outcome(lambda: call(f"numpy.{function}", *arguments))
    if isinstance(theirs, str) or isinstance(mine, str):
        return None if isinstance(theirs, str) and isinstance(mine, str) else f"{mine} is not {theirs}"
    if [(x.dtype, x.shape) for x in mine] != [(x.dtype, x.shape) for x in theirs]:
        return f"{[x.dtype for x in mine]} is not {[x.dtype for x in theirs]}"
    narrow = any(x.dtype.itemsize == 2 for x in (*arguments[:1], *theirs))
    near = all(
        np.allclose(x, y, rtol=3e-2 if narrow else 1e-5, equal_nan=True) for x, y in zip(mine, theirs, strict=True)
    )
    return None if near else f"{mine} is not {theirs}"


@pytest.mark.parametrize("function", [*ONE, *ONE_AND_A_NUMBER])
def test_of_one_array(function):
    shape = (3, 4) if function in ("trace", "diagonal") else (5,)
    extra = (2,) if function in ONE_AND_A_NUMBER else ()
    wrong = {name: found for name in NAMES if (found := differences(function, values(name, shape), *extra))}
    assert not wrong


@pytest.mark.parametrize("function", TWO)
def test_of_two_arrays(function):
    wrong = {}
    for left in NAMES:
        for right in NAMES:
            x, y = values(left, (3,)), values(right, (3,))
            if function in ("searchsorted", "digitize"):
                x, y = np.sort(x), np.sort(y)
            extra = (1,) if function == "tensordot" else ()
            if found := differences(function, x, y, *extra):
                wrong[left, right] = found
    assert not wrong


@mt.jit
def running(x):
    return torch.cumsum(x, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_prefix_sums_of_fp16_are_carried_in_fp32(dtype):
    x = torch.rand(2048).to(dtype)
    torch.testing.assert_close(running(x), torch.cumsum(x, 0), rtol=torch.finfo(dtype).eps, atol=0)
