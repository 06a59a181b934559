"""The demo on its real data, with less training and less timing than `make demo`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DIGITS = Path(__file__).parent.parent / "examples" / "digits"
SHORT = """
import sys
sys.path.insert(0, sys.argv[1])
import model
import demo
demo.train = lambda digits: model.train(digits, 2)
demo.main(["--lines", "3", "--repeat", "1"])
"""


@pytest.fixture(scope="module")
def demo():
    """What the demo prints when it does not print to a terminal."""
    command = [sys.executable, "-c", SHORT, str(DIGITS)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def test_every_pipeline_predicts_what_torch_predicts(demo):
    assert demo.returncode == 0, demo.stderr
    rows = dict(re.findall(r"│ (linalg|relax|mlir) +│ +([\d.]+)% │ +450 of 450 │", demo.stdout))
    assert list(rows) == ["linalg", "relax", "mlir"]
    [torch] = re.findall(r"│ torch +│ +([\d.]+)% │", demo.stdout)
    assert set(rows.values()) == {torch}
    assert float(torch) > 60, "two epochs learn more than this"


def test_the_walk_shows_every_stage(demo):
    shown = re.findall(r"^(\w+), lines \d+ to \d+ of \d+ ─", demo.stdout, re.MULTILINE)
    assert shown == ["ast", "tri", "linalg", "fused", "relax", "tir", "scheduled", "llvm", "asm", "cuda"]
    assert "func.func @feed_forward" in demo.stdout
    assert "__global__" in demo.stdout


def test_the_comparison_has_torch_and_no_refusals(demo):
    assert re.search(r"^torch .* µs|^torch .* ms", demo.stdout, re.MULTILINE)
    assert "errors against torch in float64" in demo.stdout


def test_no_progress_bar_reaches_a_pipe(demo):
    assert "\x1b[" not in demo.stdout
    assert demo.stderr == ""
