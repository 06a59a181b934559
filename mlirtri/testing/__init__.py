"""Tests of IR text: FileCheck from Python, and lit tests with and without lit. Public as ``mt.testing``.

*Takes* text of any stage, and files with RUN lines.
*Gives* verdicts, and files of tests.
*Refuses* a machine without FileCheck (`SourceNotAvailableError`).
`mlirtri.lit`, `cli` and pytest import it. It loads no compiler; the commands of RUN lines do.

- `tools.py`: the commands of RUN lines, found. `environment.py`: their variables, and the machine's features.
- `filecheck.py`: FileCheck on text. `check_lines.py`: directives for a text.
- `run_lines.py`: runs a test's commands. `conditions.py`: what it requires. `machine.py`: with what it runs here.
- `update_checks.py`: writes directives into test files. `new_suite.py`: the files of `mlirtri init-lit`.
- `pytest_plugin.py`: lit tests and a fixture for pytest.
"""

from mlirtri.testing.filecheck import assert_filecheck

__all__ = ["assert_filecheck"]
