"""Tests of what a compiled function checks of its arguments, and of how few assertions that takes."""

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.lowering.codegen import lowered_functions
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.toolchain.tvm_names import structural_walk, tirx, tvm, tvm_ffi

TARGET = tvm_target(Target("cpu", 2))


def scaled(a, b):
    return a * 2 + b


@pytest.fixture(scope="module")
def function():
    """The scheduled PrimFunc of a kernel, looked up in a module that was built for it alone."""
    kernel = mt.jit(scaled).compile(*arguments()[:2])
    [(name, function)] = [pair for pair in tvm.script.from_source(kernel.get_tir()).functions_items()
                          if isinstance(pair[1], tirx.PrimFunc)]  # fmt: skip
    return lowered_functions.built([(name.name_hint, function)], TARGET)[name.name_hint]


def arguments():
    return [np.full((3, 5), value, np.float32) for value in (1, 2, 0)]


def test_arguments_that_fit_are_taken(function):
    a, b, out = arguments()
    function(*map(tvm_ffi.from_dlpack, (a, b, out)))
    np.testing.assert_array_equal(out, a * 2 + b)


@pytest.mark.parametrize(
    "wrong",
    [
        np.ones((3, 4), np.float32),
        np.ones((4, 5), np.float32),
        np.ones(5, np.float32),
        np.ones((3, 5, 1), np.float32),
        np.ones((3, 5), np.float64),
        np.ones((3, 5), np.int32),
        np.ones((5, 3), np.float32).T,
        np.ones((3, 10), np.float32)[:, ::2],
    ],
    ids=["columns", "rows", "fewer axes", "more axes", "width", "kind", "transposed", "strided"],
)
@pytest.mark.parametrize("position", range(3))
def test_each_property_of_each_argument_is_checked(function, wrong, position):
    given = arguments()
    given[position] = wrong
    before = [value.copy() for value in given]
    with pytest.raises(ValueError, match="an argument does not fit"):
        function(*map(tvm_ffi.from_dlpack, given))
    for value, old in zip(given, before, strict=True):
        np.testing.assert_array_equal(value, old)


def test_null_and_too_few_arguments_are_refused(function):
    tensors = [tvm_ffi.from_dlpack(value) for value in arguments()]
    for given in (tensors[:2], [*tensors, tensors[0]], [tensors[0], None, tensors[2]], [tensors[0], 1, tensors[2]]):
        with pytest.raises(ValueError, match="an argument does not fit"):
            function(*given)


def test_a_function_has_an_assertion_for_each_level_of_pointers():
    tensors = [tirx.decl_buffer((3, 5), "float32", name) for name in "abcdefgh"]
    body = tirx.BufferStore(tensors[-1], tirx.BufferLoad(tensors[0], [0, 0]), [0, 0])
    lowered = lowered_functions._lower("main", tirx.PrimFunc(tensors, body), TARGET)
    [(_, function)] = lowered.functions_items()
    assertions = []
    structural_walk(function.body, (tirx.AssertStmt, assertions.append))
    assert len(assertions) == 4
