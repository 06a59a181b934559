"""The command `mlirtri`, which a server runs where `MLIRTRI_SERVE` says so and there is one."""

from __future__ import annotations

import atexit
import gc
import os
import sys


def main() -> None:
    """Run the command line of this process and exit with its status."""
    status = None
    if os.environ.get("MLIRTRI_SERVE"):
        from mlirtri.serve.client import ask

        status = ask("mlirtri", sys.argv[1:])
    if status is None:
        atexit.register(gc.freeze)  # a collection at exit would take a third of a second
        from mlirtri.cli.main import run_command  # loads click

        status = run_command(sys.argv[1:])
    sys.exit(status)
