"""The doctor's report: complete on a good machine, and naming the exact fix on a bad one."""

from __future__ import annotations

import io
from importlib import metadata

import pytest
from rich.console import Console

from mlirtri.cli import doctor


@pytest.fixture(scope="module")
def checks():
    return {check.name: check for check in doctor.collect()}


def test_the_machine_that_runs_the_tests_is_in_order(checks):
    assert [check for check in checks.values() if check.ok is False] == []


def test_every_dependency_is_reported(checks):
    assert {"mlirtri", "Python", "apache-tvm", "apache-tvm-ffi", "torch-mlir", "torch", "numpy"} <= checks.keys()
    assert checks["apache-tvm-ffi"].found == metadata.version("apache-tvm-ffi")


def test_machine_and_tools_are_reported(checks):
    names = {
        "platform", "CPU", "CPU features", "CPU threads", "CUDA device", "nvcc", "Vulkan", "C++ compiler", "OpenMP",
        "lit", "filecheck",
    }  # fmt: skip
    assert names <= checks.keys()
    assert all(checks[name].found for name in names)
    assert "LLVM" in checks["TVM imports"].found


def test_a_wrong_version_of_a_pinned_package_comes_with_the_pip_line(monkeypatch):
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.1.15.post2" if name == "apache-tvm-ffi" else real(name))
    (check,) = [check for check in doctor._check_packages() if check.name == "apache-tvm-ffi"]
    assert check.ok is False
    assert check.found.startswith("0.1.15.post2, but mlirtri needs apache-tvm-ffi==")
    assert check.fix == f'pip install "apache-tvm-ffi=={real("apache-tvm-ffi")}"'


def test_a_missing_package_comes_with_the_pip_line(monkeypatch):
    monkeypatch.setattr(doctor, "installed_version", lambda name: None if name == "torch" else "1000")
    (check,) = [check for check in doctor._check_packages() if check.name == "torch"]
    assert check.ok is False
    assert check.fix.startswith('pip install "torch')


@pytest.mark.parametrize("program", ["import os; os.abort()", "import no_such_module"])
def test_a_package_that_breaks_on_import_is_a_line_of_the_report(monkeypatch, program):
    monkeypatch.setitem(doctor._PROBES, "TVM imports", (("apache-tvm",), program))
    check = doctor._check_import("TVM imports")
    assert check.ok is False
    assert check.found
    assert check.fix.startswith('pip install --force-reinstall "apache-tvm==')


def test_the_table_shows_every_check_and_keeps_brackets(checks):
    shown = io.StringIO()
    bad = doctor.Check("package", "[absent]", False, "pip install '.[test]'")
    Console(file=shown, width=200).print(doctor.as_table([*checks.values(), bad]))
    assert all(name in shown.getvalue() for name in checks)
    assert "[absent]" in shown.getvalue()
    assert ".[test]" in shown.getvalue()
