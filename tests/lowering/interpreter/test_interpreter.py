"""`MLIRTRI_INTERPRET=1`: kernels run op by op on NumPy, under their own lines; what is compiled agrees with them."""

from __future__ import annotations

import io
import os
import pdb
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import torch
from dialect_rows import DIALECT, STRAIGHT, operands_of, tri_text
from program_runner import load
from tolerances import within

import mlirtri as mt

KERNEL = """
import numpy as np


def doubled(values):
    twice = values * 2
    return twice + 1


def total(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        row = x[i] - y
        if i % 2 == 0:
            s += row.sum()
        else:
            x[i] = doubled(row)
    while s > 1:
        s = s / 2
    return s
"""


@pytest.fixture
def kernel(tmp_path):
    """The file above as a module, and arguments for its kernel."""
    module = load(KERNEL, tmp_path)
    random = np.random.default_rng(3)
    return module, [random.uniform(1, 2, (6, 4)), random.uniform(0, 1, 4)]


def line_of(text: str) -> int:
    """The number of the only line of the kernel's file that has this text."""
    [number] = [number for number, line in enumerate(KERNEL.splitlines(), 1) if text in line]
    return number


# --- results -------------------------------------------------------------------------------------------------------


def test_it_computes_what_python_does(kernel):
    module, arguments = kernel
    plain, ours = [a.copy() for a in arguments], [a.copy() for a in arguments]
    assert module.total(*plain) == pytest.approx(mt.jit(module.total, pipeline="interpreter")(*ours))
    np.testing.assert_array_equal(ours[0], plain[0])


@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", STRAIGHT)
def test_rows_of_fp16_are_computed_in_fp32_and_rounded(tmp_path, name, dtype):
    """The references of the table run natively on the other dtypes (test_dialect.py); halves are widened for them."""
    arrays = operands_of(DIALECT[name], dtype)
    if not arrays:
        return
    file = tmp_path / "row.mlir"
    file.write_text(tri_text(DIALECT[name], arrays))
    found, compiled = (np.asarray(mt.resume(file, "tri", pipeline=each)(*arrays)) for each in ("interpreter", "mlir"))
    assert (found.dtype, found.shape) == (compiled.dtype, compiled.shape)
    if found.dtype.kind in "fV":
        np.testing.assert_allclose(found.astype(float), compiled.astype(float), **within(dtype))
    else:
        np.testing.assert_array_equal(found, compiled)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "bfloat16", "complex64", "bool"])
def test_every_kind_of_tensor_goes_in_and_out(dtype):
    def updated(x, y):
        y[1:] = x[:-1]
        return x + y

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    x, y = np.array([1, 0, 3, 4]).astype(kind), np.array([1, 1, 0, 1]).astype(kind)
    mine = y.copy()
    found = mt.jit(updated, pipeline="interpreter")(x, mine)
    expected = updated(x, y)
    np.testing.assert_array_equal(mine, y)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_torch_in_torch_out():
    found = mt.jit(lambda x: torch.tanh(x) + 1, pipeline="interpreter")(torch.ones(3))
    torch.testing.assert_close(found, torch.tanh(torch.ones(3)) + 1)


def test_a_kernel_without_tensors_has_the_semantics_of_the_library_it_names():
    def element(n):
        values = np.zeros(n)
        first = values[0]  # a number in NumPy, a view in torch
        values[0] = 5.0
        return first

    found = mt.jit(element, pipeline="interpreter")(3)
    assert isinstance(found, np.float64)
    assert found == 0


# --- when it is used -----------------------------------------------------------------------------------------------


def double(x):
    return x * 2


def pipeline_of(function) -> str:
    function(np.ones(2))
    [entry] = function._entries.values()
    return entry.kernel.pipeline.name


def test_the_setting_replaces_what_the_decorator_says(monkeypatch):
    monkeypatch.setenv("MLIRTRI_INTERPRET", "1")
    assert pipeline_of(mt.jit(double)) == "interpreter"
    assert pipeline_of(mt.jit(double, pipeline="mlir")) == "interpreter"
    assert mt.jit(double).compile(np.ones(2), pipeline="mlir").pipeline.name == "mlir"
    assert mt.jit(double).compile(np.ones(2)).pipeline.name == "interpreter"


def test_it_is_never_used_unless_asked(monkeypatch):
    monkeypatch.delenv("MLIRTRI_INTERPRET", raising=False)
    assert pipeline_of(mt.jit(double)) == "linalg"


def test_it_has_no_code_for_cuda():
    with pytest.raises(mt.KernelError, match="runs on the CPU only"):
        mt.jit(double, pipeline="interpreter", target="cuda")


# --- lines, frames and breakpoints ---------------------------------------------------------------------------------


def test_the_listing_says_what_runs_under_which_line(kernel):
    module, arguments = kernel
    listing = mt.jit(module.total).compile(*arguments, pipeline="interpreter").ir["interpreted"]
    at_call = listing.split(f"generated.py:{line_of('x[i] = doubled')}")[1]
    assert f"generated.py:{line_of('values * 2')}" in at_call
    assert "tri.multiply(" in at_call


def debugged(function, arguments, file, lines, commands) -> str:
    """What a debugger prints with breakpoints on lines of a file, told these commands at its stops."""
    printed = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO("\n".join(["continue", *commands]) + "\n"), stdout=printed, nosigint=True)
    debugger.prompt = ""
    for line in lines:
        debugger.set_break(file, line)
    traced = sys.gettrace()
    try:
        debugger.runcall(function, *arguments)
    finally:
        sys.settrace(traced)
    return printed.getvalue()


def test_a_debugger_stops_at_lines_of_the_kernel_and_of_what_it_calls(kernel):
    module, arguments = kernel
    compiled = mt.jit(module.total, pipeline="interpreter")
    compiled.compile(*arguments)
    commands = ["where", "p twice.shape", "clear 1", "continue"]
    printed = debugged(compiled, arguments, module.__file__, [line_of("return twice + 1")], commands)
    [stop] = [line for line in printed.splitlines() if "return twice + 1" in line][:1]
    assert stop == "-> return twice + 1"
    assert f"generated.py({line_of('return twice + 1')})doubled()" in printed
    for line in ("x[i] = doubled(row)", "for i in range(x.shape[0]):"):
        assert f"generated.py({line_of(line)})total()" in printed
    assert "(4,)" in printed


def test_a_debugger_stops_at_every_iteration_of_a_loop(kernel):
    module, arguments = kernel
    compiled = mt.jit(module.total, pipeline="interpreter")
    compiled.compile(*arguments)
    line = line_of("row = x[i] - y")
    printed = debugged(compiled, arguments, module.__file__, [line], ["continue"] * 9)
    assert printed.count(f"generated.py({line})total()") == 6


STOPS = """
def stops(x):
    y = x + 1
    breakpoint()
    return y * 2
"""


def test_breakpoint_stops_in_the_frame_of_its_line(tmp_path, monkeypatch):
    module, seen = load(STOPS, tmp_path), []

    def look() -> None:
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, frame.f_locals["y"].tolist()))

    monkeypatch.setattr(sys, "breakpointhook", look)
    assert mt.jit(module.stops, pipeline="interpreter")(np.ones(2)).tolist() == [4, 4]
    assert seen == [(module.__file__, 4, "stops", [2, 2])]


def test_breakpoint_is_refused_where_kernels_are_compiled(tmp_path):
    module = load(STOPS, tmp_path)
    with pytest.raises(mt.KernelError, match="MLIRTRI_INTERPRET=1") as raised:
        mt.jit(module.stops)(np.ones(2))
    assert raised.value.span.line == 4


def test_a_tri_dump_is_interpreted(tmp_path, kernel):
    module, arguments = kernel
    file = tmp_path / "kernel.mlir"
    compilation = mt.jit(module.total).compile(*arguments, pipeline="interpreter").compilation
    file.write_text(compilation.records["tri"].complete())
    resumed = mt.resume(file, "tri", pipeline="interpreter")
    assert "tri.multiply(" in resumed.ir["interpreted"]


def test_what_is_no_operation_of_tri_is_refused(tmp_path):
    file = tmp_path / "other.mlir"
    file.write_text(
        "func.func @f(%x: tensor<2xf64>) -> tensor<2xf64> {\n  %y = math.exp %x : tensor<2xf64>\n"
        "  return %y : tensor<2xf64>\n}\n"
    )
    with pytest.raises(mt.KernelError, match=r"math\.exp"):
        mt.resume(file, "tri", pipeline="interpreter")


def test_the_interpreter_needs_no_tvm(tmp_path):
    (tmp_path / "kernels.py").write_text("def twice(x):\n    return x * 2\n")
    code = (
        "import sys, numpy, kernels, mlirtri\n"
        "assert mlirtri.jit(kernels.twice)(numpy.ones(2)).tolist() == [2, 2]\n"
        "assert 'tvm' not in sys.modules\n"
    )
    environment = {**os.environ, "MLIRTRI_INTERPRET": "1", "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=tmp_path)
