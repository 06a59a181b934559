"""The plugin of pytest that comes with mlirtri: it runs lit tests as items, and gives the fixture ``filecheck``.

Files with RUN lines are collected where a ``lit.cfg.py`` in their folder, or in one above up to pytest's root, takes
`mlirtri.lit`. ``-p no:mlirtri`` turns the plugin off.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mlirtri.testing.environment import Machine
from mlirtri.testing.run_lines import EXCLUDED, SUFFIXES, has_run_lines, read_test
from mlirtri.testing.tools import Place, check_text

_MACHINE: pytest.StashKey[Machine] = pytest.StashKey()


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Take mlirtri off the packages in which pytest rewrites assertions: it has none, and all its files are parsed.

    pytest rewrites the whole package of a plugin, anew in each process where Python writes no byte code.
    """
    rewritten = getattr(early_config.pluginmanager.rewrite_hook, "_must_rewrite", None)  # no public name takes one off
    if rewritten is not None:
        rewritten.discard("mlirtri")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file with RUN lines of a suite that `mlirtri.lit` configures."""
    if file_path.suffix not in SUFFIXES or not _is_in_suite(file_path, parent.config.rootpath):
        return None
    return LitFile.from_parent(parent, path=file_path) if has_run_lines(file_path) else None


def _is_in_suite(file: Path, root: Path) -> bool:
    for folder in file.parents:
        configuration = folder / "lit.cfg.py"
        if configuration.is_file():
            return not {*file.relative_to(folder).parts} & {*EXCLUDED} and "mlirtri.lit" in configuration.read_text()
        if folder == root:
            return False
    return False


class LitFile(pytest.File):
    """A lit test: one file, one item."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the test of the file."""
        yield LitItem.from_parent(self, name="RUN")


class LitItem(pytest.Item):
    """The RUN lines of a file."""

    def runtest(self) -> None:
        """Run them; raises `LitFailure` with what the first failed command printed."""
        stash = self.config.stash
        if _MACHINE not in stash:
            stash[_MACHINE] = Machine.here()
        outcome = stash[_MACHINE].run(read_test(self.path))
        if outcome.status == "UNSUPPORTED":
            pytest.skip(outcome.output)
        if outcome.status == "XFAIL":
            pytest.xfail(outcome.output)
        if outcome.status != "PASS":
            raise LitFailure(outcome.output)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what the command printed, and no frames of ours."""
        return str(excinfo.value) if isinstance(excinfo.value, LitFailure) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the test stands."""
        return self.path, 0, f"{self.path.name}: RUN lines"


class LitFailure(Exception):
    """A command of a lit test failed."""


@pytest.fixture
def filecheck(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return ``filecheck(text, checks=None, prefix="CHECK")``; the checks are the test function's comments by default.

    def test_one_operation(filecheck):
        # CHECK-LABEL: func.func @add_twice
        # CHECK-COUNT-1: linalg.generic
        filecheck(add_twice.compile(a, b).ir["fused"])
    """

    def check(text: str, checks: str | None = None, *, prefix: str = "CHECK") -> None:
        __tracebackhide__ = True
        if checks is not None:
            check_text(text, checks, prefix, Place.of(checks, sys._getframe(1)))
            return
        lines, first = inspect.getsourcelines(request.function)
        check_text(text, "".join(lines), prefix, Place(str(inspect.getsourcefile(request.function)), first))

    return check
