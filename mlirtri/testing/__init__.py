"""Tests of IR text: FileCheck from Python, and lit tests with and without lit. Public as ``mt.testing``.

*Takes* text of any stage, and files with RUN lines.
*Gives* verdicts, and files of tests.
*Refuses* a machine without FileCheck (`SourceNotAvailableError`).
`mlirtri.lit`, `cli` and pytest import it. It loads no compiler; the commands of RUN lines do.

- `tools.py`: the commands of RUN lines, found; FileCheck on text. `check_lines.py`: directives for a text.
- `environment.py`: the variables of commands, and the machine's features.
- `run_lines.py`: runs a test's commands. `conditions.py`: what it requires.
- `update_checks.py`: writes directives into test files. `new_suite.py`: the files of `mlirtri init-lit`.
- `pytest_plugin.py`: lit tests and a fixture for pytest.
"""

from mlirtri.testing.tools import assert_filecheck

__all__ = ["assert_filecheck"]
