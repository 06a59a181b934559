"""Say what lit tests see of a machine: the variables of their commands, and the features they may require."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlirtri.errors import KernelError
from mlirtri.testing.run_lines import LitTest, Outcome, environment_of, read_test, run_test
from mlirtri.testing.tools import commands, native_filecheck, script
from mlirtri.testing.update_checks import Update, updated

KEPT = ("HOME", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "VIRTUAL_ENV")
"""Variables of the user's that lit, which starts from a bare environment, has to pass on."""
FIXED = {
    "COLUMNS": "120",
    "NO_COLOR": "1",
    "MLIRTRI_STRICT": "1",
    "MLIRTRI_CACHE": "0",
    # One process loads MLIR and TVM for all tests. A test that says `env -u MLIRTRI_SERVE` runs by itself.
    "MLIRTRI_SERVE": "1",
}
"""Variables that tests rely on, whatever the user's are."""


def variables() -> dict[str, str]:
    """Return the variables that each test's commands get beside lit's own; none of the user's ``MLIRTRI_*``."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | FIXED


def features() -> set[str]:
    """Return the features of this machine that ``REQUIRES:`` may name."""
    present = {
        "nvcc": shutil.which("nvcc") is not None,
        "objdump": shutil.which("objdump") is not None,
        "native-filecheck": native_filecheck() is not None,
        "cuda": _has_cuda_device(),
        "x86": platform.machine() in ("x86_64", "amd64", "AMD64"),
    }
    return {name for name, is_present in present.items() if is_present}


def _has_cuda_device() -> bool:
    """Return whether torch can run on a device; asked only where a driver answers, since importing torch is slow."""
    if shutil.which("nvidia-smi") is None:
        return False
    asks = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", asks], check=False).returncode == 0


def start_server(environment: Mapping[str, str]) -> None:
    """Start `mlirtri serve` for commands of this environment; it ends a minute after the last of them."""
    command = [script("mlirtri") or "mlirtri", "serve", "--detach", "--idle", "60"]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)


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

    def run_file(self, file: Path) -> Outcome:
        """Run the test of a file; one that is none is unresolved."""
        try:
            return self.run(read_test(file))
        except KernelError as error:
            return Outcome("UNRESOLVED", str(error))

    def update(self, file: Path, keep: str | None = None) -> Update:
        """Return what `mlirtri update-checks` makes of a file."""
        return updated(file, self.tools, self.environment, self.features, keep)
