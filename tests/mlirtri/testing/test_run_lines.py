"""`mlirtri test` runs RUN lines as lit does, and shows what fails."""

from __future__ import annotations

import pytest

from mlirtri.cli.main import run_command
from mlirtri.errors import KernelValueError
from mlirtri.testing.conditions import holds
from mlirtri.testing.environment import Machine
from mlirtri.testing.run_lines import environment_of, lit_files, read_test
from mlirtri.testing.tools import commands


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(commands(), environment_of({"MLIRTRI_CACHE": "0"}), frozenset({"x86", "nvcc"}))


@pytest.mark.parametrize(
    ("text", "status", "output"),
    [
        ("# RUN: echo b | FileCheck %s\n# CHECK: b", "PASS", ""),
        ("# RUN: echo c | FileCheck %s\n# CHECK: b", "FAIL", "x.py:1: exit status 1 of: echo c | FileCheck %s"),
        ("\n# RUN: false && true\n# RUN: true", "FAIL", "x.py:2: exit status 1 of: false && true"),
        ("# RUN: true\n# RUN: false | cat", "FAIL", "x.py:2: exit status 1"),
        ("# RUN: not false && not --crash sh -c 'kill -9 $$'", "PASS", ""),
        ("# RUN: not true", "FAIL", "exit status 1"),
        (
            "# RUN: echo a > %t.1 && \\\n# RUN: grep -q a %t.1 && test -e %S/x.py && %python -c 'print(5 %% 3)'",
            "PASS",
            "",
        ),
        ("# RUN: export X=1\n# RUN: test $X = 1", "PASS", ""),
        ("# RUN: mlirtri --help | grep -q 'kernel compiler' && echo /mlirtri.x | grep -q mlirtri.x", "PASS", ""),
        ("# RUN: env -u HOME X=1 Y='a b' not sh -c 'test -z \"$HOME$X\"' && test -z \"$X\"", "PASS", ""),
        ("# RUN: env X=1 | grep -q X=1 && env X=2 sh -c 'exit $X'", "FAIL", "exit status 2"),
        ("# RUN: false\n# REQUIRES: x86, gpu9", "UNSUPPORTED", "gpu9"),
        ("# RUN: true\n# REQUIRES: x86 && !gpu9", "PASS", ""),
        ("# RUN: false\n# UNSUPPORTED: nvcc", "UNSUPPORTED", "!(nvcc)"),
        ("# RUN: false\n# XFAIL: *", "XFAIL", ""),
        ("# RUN: true\n# XFAIL: x86", "XPASS", ""),
        ("# RUN: %if x86 && !gpu9 %{ true %} %else %{ false %}", "PASS", ""),
        ("# RUN: test '%if gpu9 %{a%} %else %{b%if nvcc %{c%}%}d' = ' bcd'", "FAIL", ""),
        ("# RUN: test '%if gpu9 %{a%} %else %{b%if nvcc %{c%}%}d' = 'bcd'", "PASS", ""),
        ("# RUN: %if gpu9 %{ false %}\n# RUN: true", "PASS", ""),
        ("# RUN: %if x86 true", "UNRESOLVED", "%if without its braces"),
        ("# RUN: %if (x86 %{ true %}", "UNRESOLVED", "is no condition"),
        ("# RUN: echo %{name}", "UNRESOLVED", "%{name} is known to lit alone"),
        ("# RUN: true\n# REQUIRES: (x86", "UNRESOLVED", "is no condition"),
    ],
)
def test_the_outcome_of_a_file(tmp_path, machine, text, status, output):
    file = tmp_path / "x.py"
    file.write_text(text)
    outcome = machine.run(read_test(file))
    assert outcome.status == status, outcome.output
    assert output in outcome.output
    assert "mlirtri-run-line" not in outcome.output


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("a", True), ("b", False), ("!b", True), ("a && b", False), ("a || b && b", True), ("!(a || b)", False),
        ("true", True), ("!false && a", True),
    ],
)  # fmt: skip
def test_conditions(condition, value):
    assert holds(condition, {"a"}) is value


@pytest.mark.parametrize("condition", ["", "a b", "a &&", "a & b", "(a", "a)", "a, b"])
def test_what_is_no_condition(condition):
    with pytest.raises(KernelValueError, match="is no condition"):
        holds(condition, {"a"})


def test_the_command_lists_outcomes_and_fails(tmp_path, capsys):
    (tmp_path / "inputs").mkdir()
    (tmp_path / "a.py").write_text("# RUN: true")
    (tmp_path / "b.mlir").write_text("// RUN: echo shown && false")
    (tmp_path / "c.py").write_text("x = 'RUN:'")
    (tmp_path / "inputs" / "d.py").write_text("# RUN: true")
    (tmp_path / "test_e.py").write_text("def test_e(filecheck):\n    # CHECK: a\n    filecheck('a')\n")
    assert [file.name for file in lit_files(tmp_path)] == ["a.py", "b.mlir"]
    assert run_command(["test", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert f"PASS: {tmp_path / 'a.py'}\nFAIL: {tmp_path / 'b.mlir'}\n" in out
    assert "\nshown\n" in out
    assert out.endswith("1 PASS, 1 FAIL\n")
    assert run_command(["test", str(tmp_path / "a.py")]) == 0
    capsys.readouterr()
    # A file that is no test keeps others from nothing.
    assert run_command(["test", str(tmp_path / "c.py"), str(tmp_path / "a.py")]) == 1
    out = capsys.readouterr().out
    assert f"UNRESOLVED: {tmp_path / 'c.py'}\n{tmp_path / 'c.py'} has no RUN line\n" in out
    assert out.endswith(f"PASS: {tmp_path / 'a.py'}\n1 UNRESOLVED, 1 PASS\n")
    # Directives without a command are a test whose RUN line is missing, and no module.
    (tmp_path / "c.py").write_text("# RNU: true\n# CHECK-NEXT: a\n")
    assert run_command(["test", str(tmp_path)]) == 1
    assert "c.py has no RUN line" in capsys.readouterr().out
