"""`compare`: rows, references, refusals, errors in units in the last place; and the plain functions behind it."""

from __future__ import annotations

import json
import math

import ml_dtypes
import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.measure.accuracy import absolute_error, ulp_error
from mlirtri.measure.eager import plain
from mlirtri.measure.rows import Comparison, Row

SCALE = 3.0


@mt.jit
def twice(x):
    return x * 2


@mt.jit
def chain(a, b):
    out = a + b
    return twice(out) * SCALE


@mt.jit
def stub(x):
    return mt.exp(x)


@mt.jit
def several(x, n, *, keep=False):
    return x + n, (x.sum(0, keepdim=keep), x > 0)


def test_every_pipeline_and_torch():
    a, b = torch.randn(4, 8), torch.randn(4, 8)
    found = mt.compare(chain, a, b, repeat=2)
    assert [row.name for row in found.rows] == ["linalg", "relax", "mlir", "torch"]
    assert found.reference == "torch in float64"
    assert found.arguments == ("a: float32[4, 8]", "b: float32[4, 8]")
    for row in found.rows:
        assert row.refusal is None
        assert row.max_ulp < 4
        assert row.max_error < 1e-5
        assert 0 < row.run_min <= row.run_seconds <= row.run_max
    for row in found.rows[:3]:
        assert row.kernels == 1
        assert list(row.compile_seconds)[:2] == ["ast", "tri"]
        assert row.compile_total == pytest.approx(sum(row.compile_seconds.values()))
    assert found["torch"].compile_seconds is None


def test_numpy_arguments_have_numpy_beside_them():
    x = np.arange(6, dtype=np.float32)
    found = mt.compare(twice, x, pipelines=("mlir",), repeat=1)
    assert [row.name for row in found.rows] == ["mlir", "numpy"]
    assert found["mlir"].max_error == 0


def test_abstract_arguments_become_data():
    found = mt.compare(twice, mt.Tensor((3,), mt.bfloat16), pipelines=("mlir",), repeat=1)
    assert found["mlir"].max_ulp == 0


def test_constants_keyword_only_and_nested_results():
    found = mt.compare(several, torch.randn(5), 2, keep=True, pipelines=("mlir",), repeat=1)
    assert found["mlir"].refusal is None
    assert found["torch"].refusal is None


def test_functions_of_mlirtri_do_not_run_as_plain_python():
    found = mt.compare(stub, torch.randn(5), pipelines=("mlir", "linalg"), repeat=1)
    assert "mlirtri.exp is a function of kernels" in found["torch"].refusal
    assert found.reference.startswith("pipeline 'mlir'")
    assert found["linalg"].max_ulp < 4


def test_a_refusal_is_a_row():
    found = mt.compare(twice, torch.randn(5), pipelines=("mlir",), target="cuda", repeat=1)
    assert "makes CPU code only" in found["mlir"].refusal
    assert found["mlir"].run_seconds is None
    assert found["torch"].refusal is None


def test_nothing_ran():
    found = mt.compare(stub, torch.randn(5), pipelines=("mlir",), target="cuda", repeat=1)
    assert found.reference == "nothing, since nothing ran"
    assert "mlir" in str(found)


def test_a_program_is_compared_with_its_first_pipeline():
    program = mt.from_mlir(
        "func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {"
        " %e = tensor.empty() : tensor<4xf32>"
        " %0 = linalg.add ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>"
        " return %0 : tensor<4xf32> }"
    )
    comparison = mt.compare(program, np.ones(4, np.float32), b=mt.Tensor((4,), mt.float32), repeat=1)
    assert comparison.reference == "pipeline 'linalg'"
    assert [row.name for row in comparison.rows] == ["linalg", "relax", "mlir"]
    assert all(row.max_error == 0 and row.run_seconds and row.compile_total for row in comparison.rows)
    with pytest.raises(mt.KernelError, match="missing b"):
        mt.compare(program, np.ones(4, np.float32))


def test_arguments_that_do_not_fit_are_raised():
    with pytest.raises(mt.KernelError, match="missing"):
        mt.compare(chain, torch.randn(5))


def test_only_jit_functions():
    with pytest.raises(mt.KernelError, match="jit function"):
        mt.compare(len, torch.randn(5))


def test_arguments_stay_as_they_are():
    x = torch.randn(5)
    before = x.clone()
    mt.compare(twice, x, pipelines=("mlir",), repeat=1)
    assert torch.equal(x, before)


# --- kernels that write their arguments ----------------------------------------------------------------------------


@mt.jit
def count_up(a, b):
    a += b
    return a.sum()


@mt.jit
def halve_until_small(a):
    """Writes, and takes long only the first time."""
    sweeps = 0
    while a.max() > 1.0:
        a *= 0.5
        sweeps += 1
    return sweeps


@mt.jit
def write_only(a):
    a[...] = 3


def strided(make):
    return make(24).reshape(4, 6)[1:, ::2]


WRITTEN = {
    "array": lambda: np.arange(4, dtype=np.float32),
    "integers": lambda: np.arange(4, dtype=np.uint8),
    "strided array": lambda: strided(np.arange),
    "array backwards": lambda: np.arange(6.0)[::-2],
    "rank-0 array": lambda: np.zeros(()),
    "array of bfloat16": lambda: np.ones(3, ml_dtypes.bfloat16),
    "tensor": lambda: torch.arange(4.0),
    "strided tensor": lambda: strided(torch.arange),
    "bfloat16": lambda: torch.ones(3, dtype=torch.bfloat16),
    "complex": lambda: torch.ones(3, dtype=torch.complex64),
    "NaN": lambda: torch.full((3,), math.nan),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_the_callers_arguments_are_left_alone_and_written_ones_are_compared(kind):
    a = WRITTEN[kind]()
    before = a.clone() if isinstance(a, torch.Tensor) else a.copy()
    found = mt.compare(count_up, a, 1, repeat=2)
    assert str(before) == str(a)
    for row in found.rows:
        assert row.refusal is None
        assert row.max_error == 0
        assert row.run_seconds > 0
    assert found.written == ("a",)


def test_abstract_arguments_are_restored_too():
    found = mt.compare(count_up, mt.Tensor((5,), mt.float64), 1.5, repeat=2)
    assert found.written == ("a",)
    assert max(row.max_error for row in found.rows) < 1e-14
    assert "errors against torch in float64, of results and of what is written to a" in str(found)


def test_every_call_of_a_round_finds_the_arguments_as_they_were():
    a = np.full(30_000, 2.0**200)
    found = mt.compare(halve_until_small, a, pipelines=("linalg",), repeat=2)
    assert a[0] == 2.0**200
    for row in found.rows:
        # 200 sweeps of 30,000 elements take far longer than one read of them.
        assert row.run_min > 200e-6
        assert row.max_error == 0


def test_kernels_without_results_are_compared_by_what_they_write(monkeypatch):
    found = mt.compare(write_only, np.zeros(3), pipelines=("mlir",), repeat=1)
    assert found["mlir"].max_error == 0

    def other(_f, values):
        return lambda: values["a"].fill(5)

    monkeypatch.setattr("mlirtri.measure.subjects.as_plain", other)
    found = mt.compare(write_only, np.zeros(3), pipelines=("mlir",), repeat=1)
    assert found["mlir"].max_error == 2


def test_what_a_call_refuses_a_comparison_refuses():
    a = np.zeros(4)
    shared = mt.compare(count_up, a[:3], a[1:], pipelines=("mlir",), repeat=1)
    assert "'a', which the kernel writes, shares memory with 'b'" in shared["mlir"].refusal
    a.flags.writeable = False
    read_only = mt.compare(count_up, a, 1, pipelines=("mlir",), repeat=1)
    assert "is read-only" in read_only["mlir"].refusal
    assert "read-only" in read_only["numpy"].refusal


def test_compiling_is_always_anew():
    x = torch.randn(5)
    twice.compile(x, pipeline="mlir")
    compiles = twice.compiles
    found = mt.compare(twice, x, pipelines=("mlir",), repeat=1)
    assert found["mlir"].compile_total > 0
    assert twice.compiles == compiles


def test_table_and_json():
    rows = (
        Row("linalg", 1, 96, {"ast": 0.001, "asm": 0.02}, 2e-6, 1e-6, 3e-3, math.inf, 0.5),
        Row("mlir", refusal="k.py:1:2: error: [no]"),
    )
    text = str(Comparison("f", "cpu", ("a: float32[2]",), "torch", rows))
    assert "f(a: float32[2]) on cpu" in text
    assert "2 µs" in text
    assert "1 µs … 3 ms" in text
    assert "21.0" in text
    assert "k.py:1:2: error: [no]" in text
    found = json.loads(Comparison("f", "cpu", (), "torch", rows).to_json())
    assert found["rows"][0]["max_error"] == "inf"
    assert found["rows"][1]["compile_seconds"] is None


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_ulp_of_neighbours(dtype):
    facts = ml_dtypes.finfo(dtype)
    one = np.array([1, -1, facts.smallest_normal, 0], dtype)
    step = np.array([facts.eps, -facts.eps, facts.smallest_subnormal, facts.smallest_subnormal], dtype)
    wanted = one.astype(np.float64)
    assert ulp_error(one, wanted) == 0
    assert ulp_error((one + step).astype(dtype), wanted) == 1


def test_ulp_at_the_edges():
    special = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert ulp_error(special, special.astype(np.float64)) == 0
    assert ulp_error(np.float32([np.inf]), np.float64([1e39])) == 0
    assert ulp_error(np.float32([np.inf]), np.float64([1.0])) == np.inf
    assert ulp_error(np.float32([np.nan]), np.float64([1.0])) == np.inf
    assert ulp_error(np.float32([]), np.float64([])) == 0


def test_absolute_error():
    assert absolute_error(np.int64([2**62, 1]), np.int64([2**62 - 1, 1])) == 1
    assert absolute_error(np.array([True, False]), np.array([True, True])) == 1
    assert absolute_error(np.uint8([0]), np.uint8([255])) == 255
    assert absolute_error(np.float32([1, np.nan]), np.float64([1.5, np.nan])) == 0.5
    assert absolute_error(np.float32([np.nan]), np.float64([0])) == np.inf


# --- plain functions -----------------------------------------------------------------------------------------------


def test_helpers_run_as_plain_python_too():
    function = plain(chain.__mlirtri_function__)
    compiles = twice.compiles
    assert function(torch.ones(2), torch.ones(2)).tolist() == [12, 12]
    assert twice.compiles == compiles


def test_closures_and_recursion():
    def outer():
        @mt.jit
        def down(n):
            return n if n == 0 else down(n - 1)

        return down

    assert plain(outer().__mlirtri_function__)(5) == 0
