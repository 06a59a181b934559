"""Programs that random tests found, reduced to a few lines: each gave wrong numbers or did not compile."""

from __future__ import annotations

import numpy as np
import pytest
from python_programs import check_program, every_program, on

import mlirtri as mt

COMPLEX = np.array([[1.5 - 0.5j]], np.complex64)


@on(COMPLEX, 2 * COMPLEX)
def complex_quotient_without_a_loop(x, y):
    return x / (x + y)


@on(np.ones((2, 2), np.int8), np.ones((2, 2, 2), np.int32))
def least_of_a_product_with_its_axes_kept(x, y):
    return np.min(y @ x.T, axis=None, keepdims=True)


@every_program(__name__)
def test_found_program(function, arguments, pipeline):
    check_program(function, arguments, pipeline)


def positions_in_rows_of_an_empty_array(x):
    return np.argmin(x, axis=0)


def test_positions_in_an_empty_array_are_interpreted():
    check_program(positions_in_rows_of_an_empty_array, (np.zeros((1, 0), np.float32),), "interpreter")


def test_angles_in_halves_are_rounded_once():
    def degrees_and_radians(x):
        return np.deg2rad(x), np.rad2deg(x)

    x = np.arange(-500, 500, dtype=np.float16) / 256
    for result, expected in zip(mt.jit(degrees_and_radians)(x), degrees_and_radians(x), strict=True):
        np.testing.assert_array_equal(result, expected)


FUNCTIONS_IN_HALVES = """@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float16")):
        r = (R.acos(x), R.asin(x), R.atan(x), R.sinh(x), R.cosh(x), R.asinh(x))
        return r
"""


@pytest.mark.parametrize("pipeline", ["relax", "mlir"])
def test_relax_functions_that_tvm_has_no_half_code_for(pipeline):
    x = np.array([0.25, -0.5, 0.75], np.float16)
    results = mt.from_relax(FUNCTIONS_IN_HALVES).compile(pipeline=pipeline)(x)
    functions = (np.arccos, np.arcsin, np.arctan, np.sinh, np.cosh, np.arcsinh)
    for result, function in zip(results, functions, strict=True):
        np.testing.assert_allclose(result, function(x.astype(np.float64)), rtol=2.0**-11)
