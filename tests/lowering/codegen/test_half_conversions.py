"""TVM's functions that convert halves are compiled only where a kernel has halves."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt

DEFINITIONS = ("define weak dso_local half @__truncsfhf2(", "define weak dso_local float @__extendhfsf2(")


def scaled(a):
    return a * 2


def rounded(a):
    return a.astype(np.float16).astype(np.float32)


def looped(a):
    out = np.zeros(a.shape, np.float32)
    for i in range(a.shape[0]):
        half = np.float16(a[i])
        out[i] = half
    return out


def definitions(function, argument, pipeline):
    kernel = mt.jit(function, pipeline=pipeline).compile(argument)
    text = str(kernel.ir["llvm"])
    return [definition for definition in DEFINITIONS if definition in text]


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_kernels_without_halves_have_no_conversions(pipeline):
    argument = np.arange(6, dtype=np.float32)
    assert definitions(scaled, argument, pipeline) == []
    np.testing.assert_array_equal(mt.jit(scaled, pipeline=pipeline)(argument), argument * 2)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [(scaled, np.float16), (rounded, np.float32), (looped, np.float32)],
    ids=["parameters", "casts", "loops"],
)
def test_kernels_with_halves_have_them(function, dtype):
    with np.errstate(over="ignore"):
        argument = np.array([0.1, 1e-8, 70000, np.inf], np.float32).astype(dtype)
        assert definitions(function, argument, "linalg") == list(DEFINITIONS)
        np.testing.assert_array_equal(mt.jit(function)(argument), function(argument))


def test_objects_hide_the_names_that_stand_for_the_conversions():
    kernel = mt.jit(scaled).compile(np.arange(6, dtype=np.float32))
    assembly = str(kernel.ir["asm"])
    assert "\t.hidden\t__truncsfhf2" in assembly
    assert "\t.hidden\t__extendhfsf2" in assembly
