"""Run the RUN lines of a test file by bash, as lit does: `mlirtri test`, and what `mlirtri update-checks` records.

Known are ``RUN:`` with ``\\`` at the end of continued lines, ``REQUIRES:``, ``UNSUPPORTED:``, ``XFAIL:``, the commands
of `mlirtri.lit`, ``not``, ``%if``, and ``%s %S %p %t %T %python %%``. What a suite's own ``lit.cfg.py`` adds is lit's
alone.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mlirtri.errors import KernelError, KernelValueError, SourceNotAvailableError, Span
from mlirtri.testing.conditions import holds, with_branches
from mlirtri.testing.tools import command_pattern

_KEYWORD = re.compile(r"^\s*(?:#|//|;)+\s*(RUN|REQUIRES|UNSUPPORTED|XFAIL):(.*)$")
_DIRECTIVE = re.compile(r"^(?:#|//|;)+ ?CHECK(?:-[A-Z]+(?:-\d+)?)?:", re.MULTILINE)
SUFFIXES = (".py", ".mlir")
EXCLUDED = ("lit.cfg.py", ".out", "inputs")
"""Names of files and folders that hold no test."""
FAILURES = ("FAIL", "XPASS", "UNRESOLVED")
"""The outcomes that make a run of tests fail."""
_SHELL = """set -o pipefail
not() { [ "$1" = --crash ] && shift; ! "$@"; }
env() (
  while true; do
    case "$1" in
      -u) unset "$2"; shift 2 ;;
      *=*) export "$1"; shift ;;
      *) break ;;
    esac
  done
  if [ "$#" = 0 ]; then command env; else "$@"; fi
)
trap 'status=$?; [ $status = 0 ] || echo "mlirtri-run-line: $mlirtri_line $status" >&2' EXIT
"""


@dataclass(frozen=True)
class RunLine:
    """One command of a test."""

    line: int
    """Where it starts in the file."""
    text: str


@dataclass(frozen=True)
class LitTest:
    """A test file."""

    file: Path
    commands: tuple[RunLine, ...]
    requires: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    expected_failures: tuple[str, ...] = ()

    def missing(self, features: Collection[str]) -> list[str]:
        """Return the conditions that keep the test from running here."""
        unmet = [condition for condition in self.requires if not holds(condition, features)]
        return unmet + [f"!({condition})" for condition in self.unsupported if holds(condition, features)]

    def on(self, features: Collection[str]) -> LitTest:
        """Return the test with the branches of ``%if`` that a machine with these features takes."""
        lines = [(command, with_branches(command.text, features)) for command in self.commands]
        return replace(self, commands=tuple(replace(command, text=text) for command, text in lines if text.strip()))


@dataclass(frozen=True)
class Outcome:
    """What became of a test."""

    status: str
    """``PASS``, ``FAIL``, ``XFAIL``, ``XPASS``, ``UNSUPPORTED`` or ``UNRESOLVED``."""
    output: str = ""
    """What the failed command printed, or why the test was not run."""


def read_test(file: Path) -> LitTest:
    """Return the test of a file; raises `SourceNotAvailableError` for one without RUN lines."""
    if not file.is_file():
        raise SourceNotAvailableError(f"there is no file {file}")
    directives: dict[str, list[RunLine]] = {"RUN": [], "REQUIRES": [], "UNSUPPORTED": [], "XFAIL": []}
    for number, line in enumerate(file.read_text(errors="replace").split("\n"), 1):
        match = _KEYWORD.match(line)
        if match is None:
            continue
        keyword, text = match[1], match[2].strip()
        lines = directives[keyword]
        if keyword == "RUN" and lines and lines[-1].text.endswith("\\"):
            lines[-1] = RunLine(lines[-1].line, f"{lines[-1].text[:-1].rstrip()} {text}")
        else:
            lines.append(RunLine(number, text))
    if not directives["RUN"]:
        line = "# RUN: mlirtri emit %s" if file.suffix == ".py" else "// RUN: mlirtri-opt %s"
        raise SourceNotAvailableError(f"{file} has no RUN line", help=f"write {line} | FileCheck %s")
    requires, unsupported, expected = (_conditions(directives[name]) for name in ("REQUIRES", "UNSUPPORTED", "XFAIL"))
    # A star is lit's way to say: everywhere.
    expected = tuple("true" if condition == "*" else condition for condition in expected)
    return LitTest(file, tuple(directives["RUN"]), requires, unsupported, expected)


def _conditions(lines: list[RunLine]) -> tuple[str, ...]:
    return tuple(part.strip() for line in lines for part in line.text.split(",") if part.strip())


def lit_files(path: Path) -> Iterator[Path]:
    """Yield a file that is no configuration, or those meant as tests of a folder and of those below it, sorted."""
    if not path.is_dir():
        if path.name not in EXCLUDED:
            yield path
        return
    for file in sorted(path.rglob("*")):
        within = file.relative_to(path).parts
        if file.suffix in SUFFIXES and file.is_file() and not {*within} & {*EXCLUDED} and is_meant_as_test(file):
            yield file


def has_run_lines(file: Path) -> bool:
    """Return whether a file is a lit test."""
    text = file.read_text(errors="replace")
    return "RUN:" in text and any((match := _KEYWORD.match(line)) and match[1] == "RUN" for line in text.split("\n"))


def is_meant_as_test(file: Path) -> bool:
    """Return whether a file has RUN lines, or directives of FileCheck at the start of lines, whose RUN line is missing.

    Others are what tests import. Directives within a function of Python are those of a test of pytest.
    """
    return has_run_lines(file) or _DIRECTIVE.search(file.read_text(errors="replace")) is not None


def run_test(
    test: LitTest, tools: Mapping[str, str], environment: Mapping[str, str], features: Collection[str]
) -> Outcome:
    """Run a test whose conditions hold; the outcome says what the first failed command printed."""
    try:
        if missing := test.missing(features):
            return Outcome("UNSUPPORTED", f"this machine is not: {', '.join(missing)}")
        should_fail = any(holds(condition, features) for condition in test.expected_failures)
        failure = failed_command(test.on(features), tools, environment)
    except KernelError as error:
        return Outcome("UNRESOLVED", str(error))
    if failure is None:
        return Outcome("XPASS", "it passes, and XFAIL says that it does not") if should_fail else Outcome("PASS")
    return Outcome("XFAIL" if should_fail else "FAIL", failure)


def failed_command(
    test: LitTest,
    tools: Mapping[str, str],
    environment: Mapping[str, str],
    prologue: str = "",
    folder: Path | None = None,
) -> str | None:
    """Run the commands until one fails; return that one with what it printed, or None.

    `tools` has what stands for each command's name; `prologue` is bash that runs first; `folder` has the files of
    ``%t``, by default one of its own.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix=f"{test.file.stem}-") as own:
            return failed_command(test, tools, environment, prologue, Path(own))
    steps = [(command.line, expand(command, test.file, folder, tools)) for command in test.commands]
    script = [_SHELL, prologue, *(f"mlirtri_line={line}\n{{ {text}\n}} || exit $?" for line, text in steps)]
    run = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=folder, env=dict(environment), capture_output=True, text=True,
        stdin=subprocess.DEVNULL, errors="replace", check=False,
    )  # fmt: skip
    if run.returncode == 0:
        return None
    marker = re.search(r"^mlirtri-run-line: (\d*) \d+\n", run.stderr, re.MULTILINE)
    line = int(marker[1] or 0) if marker else 0
    stderr = run.stderr.replace(marker[0], "") if marker else run.stderr
    text = next((command.text for command in test.commands if command.line == line), "")
    return f"{test.file}:{line}: exit status {run.returncode} of: {text}\n{run.stdout}{stderr}".rstrip("\n")


def expand(command: RunLine, file: Path, folder: Path, tools: Mapping[str, str]) -> str:
    """Return the command with lit's substitutions made; raises `KernelValueError` for one that only lit has."""
    file = file.resolve()
    temporary = folder / f"{file.name}.tmp"
    values = {
        "%python": sys.executable, "%%": "%", "%s": str(file), "%S": str(file.parent), "%p": str(file.parent),
        "%t": str(temporary), "%T": str(folder),
    }  # fmt: skip
    if unknown := re.search(r"%(?:\{[^}]*\}|else\b)", command.text):
        span = Span(str(file), command.line, 1)
        raise KernelValueError(f"{unknown[0]} is known to lit alone", span, help="run this test with lit")
    # Parts of a word, as in %t.1: quotes only where they are needed.
    text = re.sub("|".join(values), lambda match: shlex.quote(values[match[0]]), command.text)
    for name, path in tools.items():
        text = re.sub(command_pattern(name), lambda _, path=path: path, text)
    return text


def environment_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the commands: lit's bare one with these variables, and the PATH of this process."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": os.environ.get("LANG", "C.UTF-8"), **variables}
