"""`mlirtri init-lit` writes a suite that lit passes, with a test of each stage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mlirtri.cli.main import run_command
from mlirtri.errors import UnknownOptionError
from mlirtri.lowering.pipelines import PIPELINE_STAGES, TARGET_STAGES
from mlirtri.testing.new_suite import EXAMPLES, write_suite


def test_each_stage_of_the_three_pipelines_has_an_example():
    pipelines = [PIPELINE_STAGES[name] for name in ("linalg", "relax", "mlir")] + list(TARGET_STAGES.values())
    assert {example.stage for example in EXAMPLES} == {stage.name for stages in pipelines for stage in stages}
    # `python -m pytest` in the folder would import them in place of Python's own.
    assert not {Path(example.file).stem for example in EXAMPLES} & sys.stdlib_module_names


def test_a_new_suite_passes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(["init-lit", "t"]) == 0
    out, err = capsys.readouterr()
    written = out.split()
    assert "t is in no repository: for one around it, move t/.github to its root" in err
    assert "t/lit.cfg.py" in written
    assert "mlirtri[lit]==" in Path("t/.github/workflows/mlirtri-lit.yml").read_text()
    # What tests import is no test.
    Path("t/shared_sizes.py").write_text("ROWS = 4\n")
    lit = [sys.executable, "-c", "from lit.main import main; main()", "-v", "-j2", "t"]
    run = subprocess.run(lit, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "FAIL" not in run.stdout
    assert "UNRESOLVED" not in run.stdout
    assert run.stdout.count("PASS: t ::") + run.stdout.count("UNSUPPORTED: t ::") == len(EXAMPLES) + 2
    # The examples check something: each fails when its kernel is another one.
    files = [Path("t") / f"{name}.py" for name in ("tri", "fused", "tir", "llvmdialect")]
    for file in files:
        file.write_text(file.read_text().replace("a + b + a", "a * b"))
    run = subprocess.run([*lit[:-1], *map(str, files)], capture_output=True, text=True, check=False)
    assert run.stdout.count("FAIL: t ::") == len(files), run.stdout


def test_the_workflow_is_at_the_root_of_a_repository(tmp_path):
    (tmp_path / ".git").mkdir()
    write_suite(tmp_path / "tests" / "ir")
    workflow = (tmp_path / ".github" / "workflows" / "mlirtri-lit.yml").read_text()
    assert "lit -v tests/ir\n" in workflow
    # A second suite has a workflow of its own.
    write_suite(tmp_path / "other" / "ir")
    second = (tmp_path / ".github" / "workflows" / "mlirtri-lit-other-ir.yml").read_text()
    assert "lit -v other/ir\n" in second
    assert "cache-dependency-path: .github/workflows/mlirtri-lit-other-ir.yml\n" in second


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "tri.py").write_text("mine")
    with pytest.raises(UnknownOptionError, match=r"tri\.py: there already"):
        write_suite(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["tri.py"]
