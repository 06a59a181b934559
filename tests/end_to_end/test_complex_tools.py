"""Complex numbers beside the kernel itself: dumps that resume, the command line, comparisons and their errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import mlirtri as mt
from mlirtri.cli.main import commands
from mlirtri.dialect.base.dtypes import DTYPES, as_dtype, find_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.kernels.argument_text import random_tensor, summary
from mlirtri.measure.accuracy import absolute_error, is_float, ulp_error

A = np.linspace(-1, 1, 12).reshape(3, 4) + 1j * np.linspace(2, 0.5, 12).reshape(3, 4)


@mt.jit
def scaled(a, z):
    return a * z, np.abs(a)


def test_every_stage_of_a_dump_resumes(tmp_path, monkeypatch):
    """TVM's stages see tensors of parts; the manifest knows what they are."""
    expected = scaled(A, 2 - 1j)
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    scaled.compile(A, 2 - 1j)
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    [folder] = tmp_path.iterdir()
    stages = {file.stem[3:]: file for file in folder.iterdir() if file.suffix in (".mlir", ".py")}
    for stage in ("tri", "linalg", "fused", "relax", "tir", "scheduled"):
        for mine, theirs in zip(mt.resume(stages[stage], stage)(A, 2 - 1j), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=stage)


def test_pipelines_are_compared():
    table = mt.compare(scaled, A, 2j, pipelines=("linalg", "mlir"))
    assert [row.refusal for row in table.rows] == [None] * 3
    assert max(row.max_error for row in table.rows) < 1e-15


def test_errors_are_distances_in_the_plane():
    wanted = np.array([3 + 4j, complex("inf"), complex("nan")])
    got = wanted + np.array([2.0**-50 * 1j, 0, 0])
    assert is_float(got)
    assert absolute_error(got, wanted) == 2.0**-50
    assert ulp_error(got, wanted) == 1
    assert absolute_error(np.array([1j]), np.array([complex("nan")])) == np.inf


def test_the_command_line_runs_kernels_of_complex_numbers(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text("import mlirtri as mt\n\n@mt.jit\ndef f(a, z):\n    return a * z\n")
    result = CliRunner().invoke(commands, ["run", str(file), "--arg", "a=complex64[2,3]", "--arg", "z=1+2j"])
    assert result.exit_code == 0, result.output
    assert "complex64[2, 3]" in result.output


def test_data_for_a_parameter():
    data = random_tensor("a", TensorType((2, 3), DTYPES["complex64"]))
    assert data.dtype == torch.complex64
    assert data.imag.abs().sum() > 0
    assert summary(data.conj())[0] == "result: complex64[2, 3]"


@pytest.mark.parametrize("spelling", [complex, "complex", np.complex128, torch.complex128, "complex<f64>", "cdouble"])
def test_names_of_the_dtype(spelling):
    dtype = as_dtype(spelling)
    assert (dtype.name, dtype.bits, dtype.bytes) == ("complex128", 128, 16)
    assert dtype.part == DTYPES["float64"]
    assert dtype.is_complex
    assert dtype.is_inexact
    assert not dtype.is_float


def test_dtypes_that_are_not_there():
    assert find_dtype(np.clongdouble) is None or np.dtype(np.clongdouble) == np.complex128
    assert find_dtype(torch.complex32) is None
    with pytest.raises(mt.KernelError, match=r"dtype torch.complex32 is not supported"):
        scaled(torch.zeros(2, dtype=torch.complex32), 1j)


def test_annotations():
    @mt.jit
    def f(x: mt.Tensor[[2], mt.complex64], z: mt.complex128, c: complex):
        return x * z * c

    x = torch.ones(2, dtype=torch.complex64)
    assert f(x, 2, 1j).dtype == torch.complex64
    assert torch.equal(f(x, 1 + 1j, 2j), x * (1 + 1j) * 2j)
    # `complex` makes a parameter a constant: each value is compiled by itself.
    assert f.compiles == 2
    with pytest.raises(mt.KernelError, match="expected a scalar of float32"):
        mt.jit(_of_float)(x, 1j)


def _of_float(x, z: mt.float32):
    return x * z


def test_cuda_code_has_the_parts_of_complex_numbers():
    source = mt.jit(sizes).compile(A, target="cuda:sm_90").ir["cuda"]
    assert "sizes_loops_kernel(double* __restrict__ a_ptr, double* __restrict__ out0_ptr)" in source


def sizes(a):
    return np.abs(a)


def quotients(a):
    return a / (a + 1)


@pytest.mark.parametrize("function", [sizes, quotients])
def test_loops_that_divide_become_vectors(function):
    a = np.resize(A, 4096)
    kernel = mt.jit(function).compile(a)
    assert "T.vectorized" in kernel.ir["scheduled"]
    np.testing.assert_allclose(kernel(a), function(a), rtol=1e-14)
