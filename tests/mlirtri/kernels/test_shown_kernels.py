"""What notebooks and `print` show of kernels: stages, passes, fusion."""

from __future__ import annotations

from html import escape

import numpy as np
import pytest

import mlirtri as mt


@pytest.fixture(scope="module")
def kernel():
    def chain(a, b):
        return np.exp(a + b) * np.sum(a)

    return mt.jit(chain).compile(*np.ones((2, 4, 4), np.float32))


def test_stages_are_listed_with_lines_and_times(kernel):
    lines = str(kernel.ir).splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(kernel.ir)
    assert f"{len(kernel.ir['tri'].splitlines())} lines" in lines[1]
    assert lines[-1] == 'index it with a name for the text: ir["tri"]'


def test_passes_are_listed_with_whose_they_are(kernel):
    passes = kernel.passes["fused"]
    shown = {line.split()[0]: line.split()[1:3] for line in str(passes).splitlines()}
    assert shown["linalg-fuse-elementwise-ops"] == ["changed", "upstream"]
    assert shown["guard-producers"][1] == "ours"
    assert set(passes.changed) == {name for name, note in shown.items() if note[0] == "changed"}
    assert "linalg.generic" not in repr(kernel.passes)


def test_notebooks_show_texts_and_fusion(kernel):
    page = kernel._repr_html_()
    assert page.count("<details>") == len(kernel.ir)
    assert "<script" not in page
    assert "func.func" in kernel.passes["fused"]._repr_html_()
    fusion = kernel.fusion._repr_html_()
    assert "<svg" in fusion
    assert all(escape(edge.reason) in fusion for edge in kernel.fusion.edges)
