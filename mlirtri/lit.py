"""The configuration of lit for tests of mlirtri's IR. A suite's whole ``lit.cfg.py`` can be::

    import mlirtri.lit
    mlirtri.lit.configure(config, lit_config, __file__)

RUN lines then have `mlirtri`, `mlirtri-opt`, `FileCheck` and ``%python`` without PATH; ``REQUIRES:`` takes `features`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    from lit.formats import ShTest
except ImportError:
    raise ImportError('mlirtri.lit is for lit: pip install "mlirtri[lit]"') from None

from mlirtri.errors import SourceNotAvailableError
from mlirtri.testing.environment import features, start_server, variables
from mlirtri.testing.run_lines import EXCLUDED, SUFFIXES, is_meant_as_test
from mlirtri.testing.tools import command_pattern, commands

__all__ = ["SUFFIXES", "configure", "features", "substitutions"]


def substitutions() -> list[tuple[str, str]]:
    """Return what stands for what in RUN lines: the commands by their paths, and ``%python``.

    Raises `SourceNotAvailableError` where FileCheck, native or PyPI's, is missing.
    """
    return [*((command_pattern(name), path) for name, path in commands().items()), ("%python", sys.executable)]


class _Tests(ShTest):
    """The files of a folder that are meant as tests: modules that tests import are none."""

    def getTestsInDirectory(self, *arguments: Any) -> Iterator[Any]:
        """Yield lit's tests of a folder without files that have neither RUN lines nor directives."""
        for test in super().getTestsInDirectory(*arguments):
            if is_meant_as_test(Path(test.getSourcePath())):
                yield test


def configure(config: object, lit_config: object, file: str, name: str | None = None, server: bool = True) -> None:
    """Set up the suite whose ``lit.cfg.py`` is `file`; what is added to `config` later comes on top.

    With `server`, one `mlirtri serve` compiles for all tests: a test costs tenths of a second instead of seconds.
    """
    folder = Path(file).resolve().parent
    config.name = name or folder.name
    config.test_format = _Tests(execute_external=False)
    config.suffixes = list(SUFFIXES)
    config.excludes = [*config.excludes, *EXCLUDED]
    config.test_source_root = str(folder)
    config.test_exec_root = str(folder / ".out")
    try:
        config.substitutions.extend(substitutions())
    except SourceNotAvailableError as error:
        lit_config.fatal(str(error))
    config.environment.update(variables())
    config.available_features.update(features())
    if server:
        start_server(config.environment)
    else:
        del config.environment["MLIRTRI_SERVE"]
