"""`mlirtri repro` packs a failure into a file on which the command of the failure runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from mlirtri.cli.main import run_command

KERNELS = """
import mlirtri as mt

@mt.jit
def good(x: mt.Tensor[[3], mt.float32]):
    return x + 1

@mt.jit
def bad(a, n: mt.int32):
    return a + n @ a
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNELS)


def command_in(text: str) -> list[str]:
    return shlex.split(re.search(r"^# command: mlirtri (.*)$", text, re.MULTILINE)[1])


def test_an_error_is_packed_and_runs_again(capsys):
    options = ["--arg=a=f32[3]:1..2", "--pipeline=mlir", "-o", "packed.py"]
    assert run_command(["repro", "k.py::bad", *options]) == 0
    assert capsys.readouterr().out == "packed.py\n"
    text = Path("packed.py").read_text()
    assert command_in(text) == ["run", "packed.py::bad", "--arg=a=float32[3]:1.0..2.0", "--pipeline=mlir"]
    assert "k.py:10:16: error:" in text
    assert re.search(r"^# torch-mlir: \d+$", text, re.MULTILINE)
    assert run_command(command_in(text)) == 1
    assert "packed.py:" in capsys.readouterr().err


def test_a_wrong_result_is_packed_with_the_last_stage(capsys):
    np.save("x.npy", np.arange(3, dtype=np.float32))
    np.save("expected.npy", np.full(3, 5, np.float32))
    options = ["--input=x=x.npy", "--check-against=expected.npy"]
    assert run_command(["repro", "k.py::good", *options, "-o", "packed.py"]) == 0
    text = Path("packed.py").read_text()
    assert "# argument x: from a file, float32[3], 0.0 to 2.0\n" in text
    assert "# differs from expected.npy: result[0] is 1.0, not 5.0" in text
    assert "# ----- stage scheduled -----\n" in text
    assert "T.prim_func" in text
    assert run_command(command_in(text)) == 1
    capsys.readouterr()


def test_what_does_not_fail_is_said(capsys):
    assert run_command(["repro", "k.py::good", "-o", "packed.py"]) == 1
    assert "k.py::good does not fail" in capsys.readouterr().err
    assert not Path("packed.py").exists()
