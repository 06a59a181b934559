"""Programs of Taichi's users compute what Python does: on CPUs, as emulated CUDA source, and as SPIR-V."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from element_programs import PROGRAMS, links, roots

import mlirtri as mt
from mlirtri.errors import DeviceError

WAYS = {
    "linalg": {}, "mlir": {"pipeline": "mlir"}, "cuda": {"target": "cuda:emulated"}, "spirv": {"target": "spirv"}
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_python_does(name, way):
    if way == "cuda" and shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    function, reference, make = PROGRAMS[name]
    arguments, expected = make(), make()
    try:
        result = mt.jit(function, **WAYS[way])(*arguments)
    except DeviceError as problem:
        pytest.skip(str(problem))
    assert result == reference(*expected)
    for got, right in zip(arguments, expected, strict=True):
        np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("way", ["linalg", "mlir"])
def test_a_while_in_a_parallel_loop_runs_on_threads_and_ends_where_an_index_is_outside(way):
    parent, root = links(), np.zeros(90, np.int64)
    kernel = mt.jit(roots, **WAYS[way])
    [task] = kernel.compile(parent, root).tasks
    assert task.kind == "range_for"
    parent[40] = 999
    with pytest.raises(IndexError, match="out of bounds for axis 0 of size 90"):
        kernel(parent, root)
