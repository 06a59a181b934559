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
    assert str(Path.cwd()) not in text
    assert run_command(command_in(text)) == 1
    assert "packed.py:" in capsys.readouterr().err


def test_a_wrong_result_is_packed_with_the_last_stage(capsys):
    np.save("x.npy", np.arange(3, dtype=np.float32))
    np.save("expected.npy", np.full(3, 5, np.float32))
    options = ["--input=x=x.npy", "--check-against=expected.npy"]
    assert run_command(["repro", "k.py::good", *options, "-o", "packed.py"]) == 0
    text = Path("packed.py").read_text()
    for file in ("k.py", "x.npy", "expected.npy"):
        Path(file).unlink()
    assert command_in(text) == ["run", "packed.py::good", "--input=packed.py", "--check-against=packed.py"]
    assert "# argument x: from a file, float32[3], 0.0 to 2.0\n" in text
    assert "# differs from expected.npy: result[0] is 1.0, not 5.0" in text
    assert "# ----- stage scheduled -----\n" in text
    assert "T.prim_func" in text
    capsys.readouterr()
    assert run_command(command_in(text)) == 1
    assert "differs from packed.py: result[0] is 1.0, not 5.0" in capsys.readouterr().out


def test_what_does_not_fail_is_said(capsys):
    assert run_command(["repro", "k.py::good", "-o", "packed.py"]) == 1
    assert "k.py::good does not fail" in capsys.readouterr().err
    assert not Path("packed.py").exists()


def test_an_option_that_does_not_apply_is_no_failure(capsys):
    Path("f.mlir").write_text("func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }")
    assert run_command(["repro", "f.mlir", "--check-against=interpreter", "-o", "packed.mlir"]) == 1
    assert "only Python functions are interpreted\n  help: name another pipeline" in capsys.readouterr().err
    assert not Path("packed.mlir").exists()


USER = """
from __future__ import annotations

import repro_helpers
from repro_package import constants as c
from repro_package.inner import half

import mlirtri as mt

@mt.jit
def f(x: mt.Tensor[[3], mt.float32]):
    return repro_helpers.scale(x) * c.FOUR + half(x)
"""
MODULES = {
    "repro_helpers.py": "import mlirtri as mt\n\n@mt.macro\ndef scale(x):\n    return x * 2\n",
    "repro_package/__init__.py": "",
    "repro_package/constants.py": "FOUR = 4\n",
    "repro_package/inner.py": "from .constants import FOUR\n\ndef half(x):\n    return x / 2 * FOUR / FOUR\n",
}


def test_modules_of_the_user_are_in_the_file(capsys, tmp_path):
    for name, text in {"user.py": USER, **MODULES}.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    np.save("wrong.npy", np.zeros(3, np.float32))
    # The command tries it where nothing else is, and its status says whether it fails there, too.
    assert run_command(["repro", "user.py", "--pipeline=mlir", "--check-against=wrong.npy", "-o", "packed.py"]) == 0, (
        capsys.readouterr()
    )
    assert all(f"'{name}': " in Path("packed.py").read_text() for name in MODULES)


def test_what_is_missing_in_the_file_is_said(capsys):
    Path("four.txt").write_text("4")
    reads = "from pathlib import Path\n\nFOUR = int(Path('four.txt').read_text())\n"
    Path("user_of_data.py").write_text(f"{reads}{KERNELS}".replace("+ n @ a", "+ n @ FOUR"))
    assert run_command(["repro", "user_of_data.py::bad", "--arg=a=f32[3]", "-o", "packed.py"]) == 1
    err = capsys.readouterr().err
    assert "packed.py fails otherwise in an empty folder: something is missing in it" in err
    assert "four.txt" in err
    assert run_command(["repro", "k.py::bad", "--arg=a=f32[3]", "-o", "packed.txt"]) == 1
    assert "packed.txt has to run as k.py does" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["net.onnx", pytest.param("net.pt2", marks=pytest.mark.slow)])
def test_a_model_is_packed_into_python(capsys, name):
    if name == "net.onnx":
        onnx = pytest.importorskip("onnx")
        of = [onnx.helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, [2, 3]) for each in "xy"]
        graph = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["x"], ["y"])], "g", of[:1], of[1:])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), name)
    else:
        import torch

        torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(2, 3),)), name)
    wrong = np.full((2, 3) if name == "net.onnx" else (2, 2), -5, np.float32)
    np.save("wrong.npy", wrong)
    options = ["--check-against=wrong.npy", "--pipeline=mlir"]
    assert run_command(["repro", name, *options, "-o", "packed.py"]) == 0, capsys.readouterr()
    text = Path("packed.py").read_text()
    assert "# ----- stage llvmdialect -----\n" in text
    Path(name).unlink()
    capsys.readouterr()
    assert run_command(command_in(text)) == 1
    assert "differs from packed.py: result[0, 0] is " in capsys.readouterr().out
