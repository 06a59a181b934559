"""Find the programs that lit tests call, beside the Python that runs and on PATH, and check text by FileCheck."""

from __future__ import annotations

import linecache
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from mlirtri.errors import KernelAssertionError, KernelTypeError, KernelValueError, SourceNotAvailableError


def native_filecheck() -> str | None:
    """Return LLVM's FileCheck: ``$FILECHECK``, then ``FileCheck`` on PATH, then the newest ``FileCheck-NN``."""
    if named := os.environ.get("FILECHECK") or shutil.which("FileCheck"):
        return named
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    numbered = [
        (int(match[1]), str(file))
        for folder in folders
        for file in folder.glob("FileCheck-*")
        if (match := re.fullmatch(r"FileCheck-(\d+)(?:\.exe)?", file.name))
    ]
    return max(numbered)[1] if numbered else None


def script(name: str) -> str | None:
    """Return the path of a console script of this Python's environment, on PATH or not."""
    return shutil.which(name, path=sysconfig.get_path("scripts"))


def filecheck() -> str | None:
    """Return LLVM's FileCheck, or PyPI's where there is none; None without either."""
    return native_filecheck() or script("filecheck")


def commands() -> dict[str, str]:
    """Return the path of each command that RUN lines name; raises `SourceNotAvailableError` for a missing one."""
    paths = {"mlirtri-opt": script("mlirtri-opt"), "mlirtri": script("mlirtri"), "FileCheck": filecheck()}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        raise SourceNotAvailableError(
            f"{' and '.join(missing)}: not installed beside {sys.executable}", help='pip install "mlirtri[lit]"'
        )
    return {name: path.replace("\\", "/") for name, path in paths.items() if path is not None}


def command_pattern(name: str) -> str:
    """Return the regular expression of a command's name, which leaves paths and options alone that contain it."""
    return rf"(?<![\w./%-]){re.escape(name)}(?![\w./-])"


@dataclass(frozen=True)
class Place:
    """Where directives stand: a file, and the line of it that they begin on."""

    file: str
    line: int

    @classmethod
    def of(cls, checks: str, frame: FrameType | None) -> Place | None:
        """Return where a text stands in the file of a frame, from the frame's line on first; None if nowhere."""
        if frame is None or not checks:
            return None
        file = frame.f_code.co_filename
        lines = linecache.getlines(file, frame.f_globals)
        source, call = "".join(lines), len("".join(lines[: frame.f_lineno - 1]))
        start = position if (position := source.find(checks, call)) >= 0 else source.find(checks)
        return None if start < 0 else cls(file, source.count("\n", 0, start) + 1)

    @property
    def shown(self) -> str:
        """The file, from the working directory on where it lies below."""
        path = Path(self.file)
        return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else self.file


def assert_filecheck(text: str, checks: str, *, prefix: str = "CHECK") -> None:
    """Raise `KernelAssertionError`, with FileCheck's report, unless `text` has what the directives `checks` say.

        mt.testing.assert_filecheck(kernel.ir["fused"], '''
            CHECK-LABEL: func.func @add_twice
            CHECK-COUNT-1: linalg.generic
        ''')

    Lines of `checks` may be comments. The prefix of directives is `prefix`. The report has the lines of the file that
    `checks` stands in.
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    check_text(text, checks, prefix, Place.of(checks, sys._getframe(1)) if isinstance(checks, str) else None)


def check_text(text: str, checks: str, prefix: str, place: Place | None) -> None:
    """Do what `assert_filecheck` does, for directives that stand at a place that is known."""
    __tracebackhide__ = True
    for name, value in (("text", text), ("checks", checks)):
        if not isinstance(value, str):
            raise KernelTypeError(f"{name} is a {type(value).__name__}, not a text", help='take kernel.ir["fused"]')
    if f"{prefix}:" not in checks and f"{prefix}-" not in checks:
        raise KernelValueError(
            f"no directive with the prefix {prefix}", help=f"write {prefix}: what the text must have"
        )
    report = failure(text, checks, prefix, place=place)
    if report is not None:
        raise KernelAssertionError(report)


def failure(
    text: str, checks: str, prefix: str = "CHECK", options: tuple[str, ...] = (), place: Place | None = None
) -> str | None:
    """Return FileCheck's report where `text` does not pass the directives, else None; it has the lines of `place`."""
    tool = filecheck()
    if tool is None:
        raise SourceNotAvailableError("there is no FileCheck on PATH", help='pip install "mlirtri[lit]"')
    with tempfile.TemporaryDirectory(prefix="mlirtri-filecheck-") as folder:
        written, input_file = Path(folder, "checks"), Path(folder, "text")
        # Empty lines in front: FileCheck's numbers are those of the file.
        written.write_text("\n" * (place.line - 1) + checks if place else checks)
        input_file.write_text(text)
        command = [tool, str(written), f"--check-prefix={prefix}", f"--input-file={input_file}", *options]
        run = subprocess.run(command, capture_output=True, text=True, env=_plain(), check=False)
        report = (run.stderr + run.stdout).replace(str(written), place.shown if place else "checks")
        report = report.replace(folder + os.sep, "")
    return None if run.returncode == 0 else report.rstrip("\n") or f"FileCheck ended with status {run.returncode}"


def _plain() -> dict[str, Any]:
    return {**os.environ, "NO_COLOR": "1"}
