"""The gallery's page names each of its sources and their traces, which `make docs` makes."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SOURCES = sorted((DOCS / "gallery").glob("*.py"))


def hooks():
    spec = importlib.util.spec_from_file_location("mkdocs_hooks", DOCS / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_each_trace():
    text = (DOCS / "gallery.md").read_text()
    names = [source.stem for source in SOURCES]
    assert sorted(re.findall(r'<a href="(\w+)\.html">', text)) == names
    assert sorted(re.findall(r"\(gallery/(\w+)\.py\)", text)) == names
    assert len(names) == 3


@pytest.mark.parametrize(
    "source", [pytest.param(each, marks=[] if each.stem == "jacobi" else pytest.mark.slow) for each in SOURCES]
)
def test_a_trace_has_all_pipelines_and_costs(source, tmp_path):
    page = tmp_path / f"{source.stem}.html"
    hooks().write_trace(source, page)
    text = page.read_text()
    assert [name for name in ("linalg", "relax", "mlir") if f'"pipeline":"{name}"' in text] == [
        "linalg",
        "relax",
        "mlir",
    ]
    assert '"failure":null' in text
    assert 'class="roofline"' in text
