"""pytest runs lit tests of a suite that `mlirtri.lit` configures, and has the fixture ``filecheck``."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys

import pytest

import mlirtri as mt
from mlirtri.errors import KernelAssertionError, KernelTypeError, KernelValueError
from mlirtri.measure import accuracy

TESTS = """
import pytest

def test_comments(filecheck):
    # CHECK: first
    # CHECK-NEXT: second
    filecheck("first\\nsecond")

def test_text(filecheck):
    filecheck("a b", "TEXT: b", prefix="TEXT")

def test_failing(filecheck):
    filecheck("a", "CHECK: other")

@pytest.mark.skipif(False, reason="")
def test_failing_comments(filecheck):
    # CHECK: a
    # CHECK: b
    filecheck("a")
"""
FILES = {
    "suite/lit.cfg.py": "import mlirtri.lit\n",
    "suite/passes.mlir": "// RUN: echo a | FileCheck %s\n// CHECK: a\n",
    "suite/below/fails.py": "# RUN: echo what-is-printed | FileCheck %s\n# CHECK: b\n",
    "suite/below/skipped.py": "# RUN: false\n# REQUIRES: no-such-thing\n",
    "suite/inputs/data.py": "# RUN: false\n",
    "elsewhere/lit.cfg.py": "config.name = 'of somebody else'\n",
    "elsewhere/other.mlir": "// RUN: false\n",
    "test_fixture.py": TESTS,
}


def test_items_of_a_suite_and_the_fixture(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    plugins = ["-p", "no:cacheprovider", "-p", "mlirtri.testing.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-v", "-rs", *plugins, f"--rootdir={tmp_path}", str(tmp_path)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    out = run.stdout
    assert "suite/passes.mlir::RUN PASSED" in out, out + run.stderr
    assert "suite/below/fails.py::RUN FAILED" in out
    assert "exit status 1 of: echo what-is-printed | FileCheck %s" in out
    assert "runtest" not in out, "no frames of ours"
    assert "suite/below/skipped.py::RUN SKIPPED" in out
    assert "this machine is not: no-such-thing" in out
    assert "test_fixture.py::test_comments PASSED" in out
    assert "test_fixture.py::test_text PASSED" in out
    assert "test_fixture.py::test_failing FAILED" in out
    assert "3 failed, 3 passed, 1 skipped" in out
    # The lines of the directives: the text's in a call, and a comment's.
    for line in (13, 18):
        assert re.search(rf"test_fixture\.py:{line}:\d+: error: CHECK: expected string not found", out)


def test_pytest_rewrites_no_assertions_of_ours():
    assert type(accuracy.__loader__).__module__ == "_frozen_importlib_external"


def test_assert_filecheck():
    mt.testing.assert_filecheck("one\ntwo", "CHECK: one\nCHECK-NEXT: two")
    with pytest.raises(KernelAssertionError, match=r"expected string not found|Couldn't match"):
        mt.testing.assert_filecheck("one", "CHECK: two")
    checks = """
        CHECK: one
        CHECK: two
    """
    here = inspect.currentframe().f_lineno - 2
    with pytest.raises(KernelAssertionError, match=rf"test_pytest_plugin\.py:{here}\b"):
        mt.testing.assert_filecheck("one", checks)
    with pytest.raises(KernelValueError, match="no directive with the prefix CHECK"):
        mt.testing.assert_filecheck("one", "TEXT: one")
    with pytest.raises(KernelTypeError, match="text is a int, not a text"):
        mt.testing.assert_filecheck(1, "CHECK: one")
