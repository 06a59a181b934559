"""The lit test of stage `fused` fails where a pass of the stage is dropped; each pass is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlirtri.lowering.fusion import linalg_to_fused
from mlirtri.opt.main import main as opt
from mlirtri.testing.tools import failure

FILE = Path(__file__).parents[3] / "lit_tests" / "fused" / "each_pass.mlir"
REWRITES = re.findall(r'run_rewrite\(\s*"([\w-]+)"', Path(linalg_to_fused.__file__).read_text())
PASSES = [each.name for each in (*linalg_to_fused.PREPARE, *linalg_to_fused.FUSE, *linalg_to_fused.TIDY)]
ELSEWHERE = (
    "start-transposed-from-zero",
    "split-transposed-convolutions",
    "merge-products",
    "hide-memory-spaces",
    "memory-spaces",
)
"""Rewrites of convolutions with dilated images, of products with weights and of tiles, which their own tests cover."""


@pytest.fixture
def report(monkeypatch, capfdbinary):
    """Return what FileCheck says of the file when the named pass is dropped wherever it runs."""
    run_passes, run_rewrite = linalg_to_fused.run_passes, linalg_to_fused.run_rewrite

    def of(dropped: str | None) -> str | None:
        monkeypatch.setattr(
            linalg_to_fused,
            "run_passes",
            lambda module, passes, context: run_passes(module, [p for p in passes if p.name != dropped], context),
        )
        monkeypatch.setattr(
            linalg_to_fused,
            "run_rewrite",
            lambda name, *others: None if name == dropped else run_rewrite(name, *others),
        )
        assert opt(["--split-input-file", "--linalg-to-fused", str(FILE)]) == 0
        return failure(capfdbinary.readouterr().out.decode(), FILE.read_text())

    return of


def test_the_file_passes(report):
    assert report(None) is None


@pytest.mark.parametrize("name", [name for name in dict.fromkeys((*PASSES, *REWRITES)) if name not in ELSEWHERE])
def test_a_dropped_pass_is_noticed(report, name):
    assert report(name) is not None
