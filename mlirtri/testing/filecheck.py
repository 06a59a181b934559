"""FileCheck on text, from Python: `assert_filecheck`, and the fixture of the pytest plugin."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from mlirtri.errors import KernelAssertionError, KernelTypeError, KernelValueError, SourceNotAvailableError
from mlirtri.testing.tools import filecheck


def assert_filecheck(text: str, checks: str, *, prefix: str = "CHECK") -> None:
    """Raise `KernelAssertionError`, with FileCheck's report, unless `text` has what the directives `checks` say.

        mt.testing.assert_filecheck(kernel.ir["fused"], '''
            CHECK-LABEL: func.func @add_twice
            CHECK-COUNT-1: linalg.generic
        ''')

    Lines of `checks` may be comments. The prefix of directives is `prefix`.
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    for name, value in (("text", text), ("checks", checks)):
        if not isinstance(value, str):
            raise KernelTypeError(f"{name} is a {type(value).__name__}, not a text", help='take kernel.ir["fused"]')
    if f"{prefix}:" not in checks and f"{prefix}-" not in checks:
        raise KernelValueError(
            f"no directive with the prefix {prefix}", help=f"write {prefix}: what the text must have"
        )
    report = failure(text, checks, prefix)
    if report is not None:
        raise KernelAssertionError(report)


def failure(text: str, checks: str, prefix: str = "CHECK", options: tuple[str, ...] = ()) -> str | None:
    """Return FileCheck's report where `text` does not pass the directives, else None."""
    tool = filecheck()
    if tool is None:
        raise SourceNotAvailableError("there is no FileCheck on PATH", help='pip install "mlirtri[lit]"')
    with tempfile.TemporaryDirectory(prefix="mlirtri-filecheck-") as folder:
        written, input_file = Path(folder, "checks"), Path(folder, "text")
        written.write_text(checks)
        input_file.write_text(text)
        command = [tool, str(written), f"--check-prefix={prefix}", f"--input-file={input_file}", *options]
        run = subprocess.run(command, capture_output=True, text=True, env=_plain(), check=False)
        report = (run.stderr + run.stdout).replace(folder + os.sep, "")
    return None if run.returncode == 0 else report.rstrip("\n") or f"FileCheck ended with status {run.returncode}"


def _plain() -> dict[str, Any]:
    return {**os.environ, "NO_COLOR": "1"}
