"""The command `mlirtri serve`: which functions its server calls, and what it loads first."""

from __future__ import annotations

import click


@click.command()
@click.option("--idle", type=click.FloatRange(1), default=600.0, show_default=True, help="Seconds without a request.")
@click.option("--detach", is_flag=True, help="Return when the server is ready, which goes on in the background.")
def serve(idle: float, detach: bool) -> None:
    """Load everything once and run emit, run, build, translate and mlirtri-opt for commands with MLIRTRI_SERVE=1.

    Each runs in a forked process. The server ends when nobody has asked it for a time, or when its sources change.
    """
    from mlirtri.cli.main import run_command
    from mlirtri.opt.main import main as run_opt
    from mlirtri.serve.server import serve as serve_commands

    preload = ["mlirtri.kernels.session", "mlirtri.cli.kernel_files", "mlirtri.cli.program_files", "mlirtri.opt.passes"]
    serve_commands({"mlirtri": run_command, "mlirtri-opt": run_opt}, preload, idle, detach)
