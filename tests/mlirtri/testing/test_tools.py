"""The programs that lit tests call are found natively, numbered, or beside Python."""

from __future__ import annotations

import sys

import pytest

from mlirtri.testing import tools


def make_executable(path):
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.skipif(sys.platform == "win32", reason="executables are named otherwise there")
def test_native_filecheck_order(monkeypatch, tmp_path):
    monkeypatch.delenv("FILECHECK", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert tools.native_filecheck() is None
    make_executable(tmp_path / "bin" / "FileCheck-9")
    newest = make_executable(tmp_path / "bin" / "FileCheck-21")
    assert tools.native_filecheck() == newest
    plain = make_executable(tmp_path / "bin" / "FileCheck")
    assert tools.native_filecheck() == plain
    monkeypatch.setenv("FILECHECK", "/some/FileCheck")
    assert tools.native_filecheck() == "/some/FileCheck"
