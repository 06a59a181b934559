"""Serve requests: `mlirtri lsp`, and `mlirtri serve` with the functions that it calls and what it loads first."""

from __future__ import annotations

import click

from mlirtri.errors import KernelTypeError


@click.command()
def lsp() -> None:
    """Check kernels in an editor: a server of the Language Server Protocol on stdin and stdout.

    Diagnostics while typing, the type of every expression, and the IR of each stage. Runs the imports, definitions and
    assignments of the files that are open. Needs the extra `mlirtri[lsp]`.
    """
    try:
        from mlirtri.lsp.server import new_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise KernelTypeError("mlirtri lsp needs pygls", help="pip install 'mlirtri[lsp]'") from None
    new_server().start_io()


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
