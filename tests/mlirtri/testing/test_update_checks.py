"""`mlirtri update-checks`: blocks are written, refreshed and removed; all other lines stay as they are."""

from __future__ import annotations

import pytest

from mlirtri.cli.main import run_command
from mlirtri.errors import KernelError, KernelValueError, SourceNotAvailableError
from mlirtri.testing.environment import Machine
from mlirtri.testing.run_lines import environment_of, read_test
from mlirtri.testing.tools import commands

MODULE = """func.func @f(%a: f32) -> f32 {
  %0 = arith.negf %a : f32
  return %0 : f32
}
"""


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(commands(), environment_of({"MLIRTRI_CACHE": "0"}), frozenset({"x86"}))


@pytest.fixture
def written(tmp_path, machine):
    """Update a file of this text until nothing changes, and return its text."""

    def update(text: str, keep: str | None = None) -> str:
        file = tmp_path / "test.mlir"
        file.write_text(text)
        update = machine.update(file, keep)
        assert update.before == text
        file.write_text(update.after)
        again = machine.update(file)
        assert again.after == update.after, "a second update changes nothing"
        return update.after

    return update


def test_a_block_is_written_at_the_end_and_passes(written, machine, tmp_path):
    text = f"// RUN: cat %s | FileCheck %s\n{MODULE}"
    after = written(text)
    assert after == (
        f"{text}\n"
        "// >>> mlirtri update-checks CHECK\n"
        "// CHECK-LABEL: func.func @f(\n"
        "// CHECK-SAME: %[[A:[^ ,:)]+]]: f32) -> f32 {\n"
        "// CHECK-NEXT:   %[[V0:[^ ,:)]+]] = arith.negf %[[A]] : f32\n"
        "// CHECK-NEXT:   return %[[V0]] : f32\n"
        "// <<< mlirtri update-checks CHECK\n"
    )
    assert machine.run(read_test(tmp_path / "test.mlir")).status == "PASS"


def test_only_blocks_are_refreshed(written):
    before = written(f"// RUN: cat %s | FileCheck %s\n{MODULE}")
    edited = before.replace("arith.negf %a", "math.exp %a").replace("// >>>", "// A comment of mine.\n// >>>")
    after = written(edited)
    assert after == edited.replace("= arith.negf %[[A]]", "= math.exp %[[A]]")


def test_prefixes_have_blocks_of_their_own_and_hand_written_ones_are_left_alone(written):
    text = (
        "// RUN: cat %s | FileCheck %s\n"
        "// RUN: sed s/negf/absf/ %s | tee %t.1 | FileCheck --check-prefix=ABS %s\n"
        "// RUN: FileCheck %s --check-prefix MINE --input-file %t.1\n"
        f"// MINE: absf\n\n{MODULE}"
    )
    after = written(text)
    assert "CHECK-NEXT:   %[[V0:[^ ,:)]+]] = arith.negf" in after
    assert "ABS-NEXT:   %[[V0:[^ ,:)]+]] = arith.absf" in after
    assert "update-checks MINE" not in after
    assert after.count("// MINE: absf") == 1
    without = after.replace("tee %t.1 | FileCheck --check-prefix=ABS %s", "cat > %t.1")
    assert "update-checks ABS" not in written(without)


def test_the_filter_is_remembered(written):
    after = written(f"// RUN: cat %s | FileCheck %s\n{MODULE}", keep="arith| x")
    assert "// >>> mlirtri update-checks CHECK --filter='arith| x'\n" in after
    assert "CHECK-NEXT:   %[[V0:" in after
    assert "return %[[" not in after


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (MODULE, SourceNotAvailableError, "has no RUN line"),
        ("// RUN: cat %s\n", SourceNotAvailableError, "no command shows its text"),
        ("// RUN: cat %s | false | FileCheck %s\n", KernelValueError, r"test\.mlir:1: exit status 1 of: cat"),
        ("// RUN: echo a | FileCheck %s\n// RUN: echo b | FileCheck %s\n", KernelValueError, "print different texts"),
        ("// RUN: echo | FileCheck %s\n", KernelValueError, "nothing to check"),
        ("// RUN: echo a | FileCheck %s --check-prefixes=A,B\n", KernelValueError, "one prefix for each"),
        ("// RUN: echo a | FileCheck %s\n// REQUIRES: gpu9\n", KernelValueError, "does not run here: gpu9"),
        ("// RUN: echo a | FileCheck %s\n// >>> mlirtri update-checks CHECK\n", KernelError, "markers do not match"),
        (
            "// RUN: echo a | FileCheck %s\n// CHECK: b\n// >>> mlirtri update-checks CHECK\n"
            "// <<< mlirtri update-checks CHECK\n",
            KernelValueError, "outside of the markers do not pass",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, machine, text, error, message):
    file = tmp_path / "test.mlir"
    file.write_text(text)
    with pytest.raises(error, match=message):
        machine.update(file)
    assert file.read_text() == text


def test_in_python_two_empty_lines_stand_before_a_block(tmp_path, machine):
    file = tmp_path / "test.py"
    file.write_text("# RUN: echo a | FileCheck %s\n\n\ndef f():\n    pass\n")
    assert machine.update(file).after.endswith(
        "    pass\n\n\n# >>> mlirtri update-checks CHECK\n# CHECK: a\n# <<< mlirtri update-checks CHECK\n"
    )


def test_a_command_that_fails_blocks_no_other(tmp_path, machine):
    module, file = tmp_path / "module.txt", tmp_path / "test.mlir"
    module.write_text(MODULE)
    file.write_text(
        "// RUN: cat %S/module.txt > %t.1\n// RUN: FileCheck %s --check-prefix=A --input-file %t.1\n"
        "// RUN: sed s/f32/f64/g %S/module.txt | FileCheck %s\n"
    )
    file.write_text(machine.update(file).after)
    edited = file.read_text().replace("sed s/f32/f64/g", "sed '?'")
    file.write_text(edited)
    module.write_text(MODULE.replace("arith.negf", "math.exp"))
    update = machine.update(file)
    # The block of the command that fails stays.
    assert update.after == edited.replace("= arith.negf %[[A_2]] : f32", "= math.exp %[[A_2]] : f32")
    assert "= arith.negf %[[A_2]] : f64" in update.after
    # `[[A:` would be a directive of the prefix A.
    assert "// A-SAME: %[[A_2:[^ ,:)]+]]: f32" in update.after
    [report] = update.failures
    assert report.startswith(f"{file}:3: exit status 1 of: sed '?' %S/module.txt | FileCheck %s\n")
    assert "sed:" in report


def test_the_status_says_that_a_command_failed(tmp_path, capsys):
    file = tmp_path / "test.mlir"
    file.write_text(f"// RUN: cat %s | FileCheck %s\n// RUN: false | FileCheck %s --check-prefix=B\n{MODULE}")
    assert run_command(["update-checks", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == f"{file}: updated\n"
    assert f"{file}:2: exit status 1 of: false | FileCheck" in err
