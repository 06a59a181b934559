"""The demo on its real data, with less training and less timing than `make demo`.

The table of times has one pipeline, since the accuracies compile all three once more; test_compare.py has the others.
"""

from __future__ import annotations

import re
from pathlib import Path

from warm_processes import run_warm

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
SHORT = """
import sys
sys.path.insert(0, sys.argv[1])
import model
import demo
demo.train = lambda digits: model.train(digits, 2)
compare = demo.mt.compare
demo.mt.compare = lambda *arguments, pipelines, repeat: compare(*arguments, pipelines=pipelines[-1:], repeat=repeat)
demo.main(["--lines", "3", "--repeat", "1"])
"""


def test_the_demo(tmp_path):
    file = tmp_path / "short.py"
    file.write_text(SHORT)
    demo = run_warm([str(file), str(DIGITS)], tmp_path, {})
    # No progress bar reaches a pipe.
    assert (demo.returncode, demo.stderr) == (0, "")
    assert "\x1b[" not in demo.stdout
    assert_every_stage_is_shown(demo.stdout)
    assert_torch_is_among_the_compared(demo.stdout)
    assert_every_pipeline_predicts_as_torch_does(demo.stdout)


def assert_every_stage_is_shown(printed: str) -> None:
    shown = re.findall(r"^(\w+), lines \d+ to \d+ of \d+ ─", printed, re.MULTILINE)
    assert shown == ["ast", "tri", "linalg", "fused", "relax", "tir", "scheduled", "llvm", "asm", "cuda"]
    assert "func.func @feed_forward" in printed
    assert "__global__" in printed


def assert_torch_is_among_the_compared(printed: str) -> None:
    assert re.search(r"^torch .* (µs|ms|s)", printed, re.MULTILINE)
    assert "errors against torch in float64" in printed


def assert_every_pipeline_predicts_as_torch_does(printed: str) -> None:
    rows = dict(re.findall(r"│ (linalg|relax|mlir) +│ +([\d.]+)% │ +450 of 450 │", printed))
    [torch] = re.findall(r"│ torch +│ +([\d.]+)% │", printed)
    assert rows == dict.fromkeys(("linalg", "relax", "mlir"), torch)
    assert float(torch) > 60, "two epochs learn more than this"
