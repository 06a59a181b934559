"""What tests run with on this machine, looked up once: commands, variables, features, a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlirtri.testing.environment import features, start_server, variables
from mlirtri.testing.run_lines import LitTest, Outcome, environment_of, run_test
from mlirtri.testing.tools import commands
from mlirtri.testing.update_checks import Update, updated


@dataclass(frozen=True)
class Machine:
    """The surroundings of tests; safe to use from several threads."""

    tools: Mapping[str, str]
    environment: Mapping[str, str]
    features: frozenset[str]

    @classmethod
    def here(cls) -> Machine:
        """Return this machine, with a server started that compiles for all tests.

        Raises `SourceNotAvailableError` without FileCheck.
        """
        tools, environment = commands(), environment_of(variables())
        start_server(environment)
        return cls(tools, environment, frozenset(features()))

    def run(self, test: LitTest) -> Outcome:
        """Run a test."""
        return run_test(test, self.tools, self.environment, self.features)

    def update(self, file: Path, keep: str | None = None) -> Update:
        """Return what `mlirtri update-checks` makes of a file."""
        return updated(file, self.tools, self.environment, self.features, keep)
