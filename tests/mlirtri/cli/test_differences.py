"""`mlirtri diff` and `emit --diff`: unified diffs in which renamed values are no difference."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from mlirtri.cli.main import run_command

KERNEL = """
import mlirtri as mt

@mt.jit
def chain(a: mt.Tensor[[4, 8], mt.float32], b: mt.Tensor[[4, 8], mt.float32]):
    return (a + b) * a
"""
MODULE = """func.func @f(%a: f32) -> f32 {
  %0 = arith.addf %a, %a : f32
  %1 = arith.mulf %0, %a : f32
  return %1 : f32
}
"""


@pytest.fixture
def kernel(tmp_path) -> str:
    (tmp_path / "k.py").write_text(KERNEL)
    return f"{tmp_path}/k.py"


def test_two_files(tmp_path, capsys, monkeypatch):
    for name, text in (("a", MODULE), ("b", MODULE.replace("%0", "%x")), ("c", MODULE.replace("mulf", "subf"))):
        (tmp_path / f"{name}.mlir").write_text(text)
    assert run_command(["diff", f"{tmp_path}/a.mlir", f"{tmp_path}/b.mlir"]) == 0
    assert capsys.readouterr().out == ""
    assert run_command(["diff", f"{tmp_path}/a.mlir", f"{tmp_path}/c.mlir"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines[2:] if line[0] in "+-"] == [
        "-  %1 = arith.mulf %0, %a : f32", "+  %1 = arith.subf %0, %a : f32",
    ]  # fmt: skip
    assert lines[2].startswith("@@ -1,5 +1,5 @@")
    monkeypatch.setattr(sys, "stdin", StringIO(MODULE.replace("%1", "%y")))
    assert run_command(["diff", "-", f"{tmp_path}/a.mlir"]) == 0
    assert run_command(["diff", "-", "-"]) == 2
    assert run_command(["diff", f"{tmp_path}/a.mlir", f"{tmp_path}/none.mlir"]) == 1
    assert "there is no file" in capsys.readouterr().err
    assert run_command(["diff", f"{tmp_path}/a.mlir", f"{tmp_path}/a.mlir::f"]) == 1
    assert "`mlirtri emit --diff` compares passes" in capsys.readouterr().err


def test_what_each_pass_changed(kernel, capsys):
    assert run_command(["emit", kernel, "--stage=fused", "--diff"]) == 0
    text = capsys.readouterr().out
    assert "+++ fused: linalg-fuse-elementwise-ops" in text
    assert "guard-producers" not in text.replace("--- fused: guard-producers", "")
    assert any(line.startswith("-") and "linalg.generic" in line for line in text.splitlines())


def test_between_two_passes_and_two_pipelines(kernel, capsys):
    options = ["emit", kernel, "--stage=fused", "--diff"]
    assert run_command([*options, "--from-pass=cse", "--to-pass=cse"]) == 0
    assert capsys.readouterr().out == "nothing differs but names\n"
    assert run_command([*options, "--to-pass=nothing"]) == 1
    assert "has no pass 'nothing'" in capsys.readouterr().err
    assert run_command(["emit", kernel, "--stage=tir", "--diff", "--pipelines=linalg,relax"]) == 0
    assert "+++ relax: tir" in capsys.readouterr().out
    assert run_command(["emit", kernel, "--stage=fused", "--pipelines=linalg,relax"]) == 2
    assert run_command(["emit", kernel, "--diff", "--pipelines=linalg"]) == 2
